"""Violations for people and programs, and the report that counts all of them and retains the first.

In: `RuleViolations` and the origins of their rows. Out: a `ViolationReport`, which is small: each task on an executor
returns one, with line numbers counted from the start of its range, and the driver shifts them to the lines of the file
and merges them. The order of merging does not matter: the retained violations are the first by file, line and property,
and every count is exact. Many violations of one rule by one column are shown as one line with examples. Pure.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from heapq import nsmallest
from itertools import repeat

import msgspec
import numpy as np

from omnigraph.base import limits
from omnigraph.base.display import format_count
from omnigraph.base.errors import Applied, ContentError, ErrorKind, Fact
from omnigraph.base.hints import Hint
from omnigraph.integrity.rules import RowOrigins, Rule, RuleViolations


@dataclass(frozen=True, slots=True, kw_only=True)
class Violation:
    """One violation of a rule in one line. `line` is None for something that the input changes without naming it."""

    file: str
    """The file, or the frame as `<Person>`."""
    line: int | None
    """The line of the file, or the row of the frame, from 1."""
    property: str | None
    """The property; None if it is about the whole row."""
    value: str
    """The value, shortened."""
    rule: Rule
    """The rule that it breaks."""
    message: str
    """What is wrong."""
    table: str | None = field(default=None, compare=False)
    """The table of an existing id, such as `node:Person`. The file of rejected rows does not have it."""
    entity_id: str | None = field(default=None, compare=False)
    """The id, not shortened, of the row of the graph that has the same id or values."""
    earlier_file: str | None = None
    """The file of the earlier row with the same id or values."""
    earlier_line: int | None = None
    """The line of that row."""

    def order(self) -> tuple[str, int, str, str, str, str]:
        """Return the key by which violations are sorted."""
        return (self.file, self.line or 0, self.property or "", self.rule.code, self.value, self.message)

    def shift_lines(self, lines: int) -> Violation:
        """Return the same violation with a number of lines before it."""
        return self if self.line is None else replace(self, line=self.line + lines)

    def describe(self) -> str:
        """Return one line with the file, line, message and value."""
        other = f": {self._other_row()}" if self._other_row() else ""
        value = f" ({self.value})" if self.value else ""
        return " ".join(f"{self._origin()}: {self._summary()}{other}{value}".split())

    def describe_many(self, count: int, examples: Sequence[Violation]) -> str:
        """Return one line for many violations of this rule by this property."""
        rows = ", ".join(violation._example() for violation in examples)
        return " ".join(f"{self._summary()}: {format_count(count, 'error')}, such as {rows}".split())

    def _example(self) -> str:
        """Return the line, with the value and the row that has the same id or values."""
        other = self._other_row() if self.earlier_file is None else f"as in {self._other_row()}"
        details = ", ".join(part for part in (self.value, other) if part)
        return f"{self._origin()} ({details})" if details else self._origin()

    def _origin(self) -> str:
        return self.file if self.line is None else f"{self.file}:{self.line}"

    def _summary(self) -> str:
        message = f"{self.property}: {self.message}" if self.property else self.message
        return f"{self.rule.code} {message}"

    def _other_row(self) -> str:
        """Return which row has the same id or values, or nothing."""
        if self.earlier_file is not None:
            return f"{self.earlier_file}:{self.earlier_line}"
        return f"id {self.entity_id}" if self.rule is Rule.UNIQUE and self.entity_id is not None else ""

    def to_json(self) -> dict[str, Fact]:
        """Return the members of a line of the file with all violations."""
        other_row: dict[str, Fact] = {
            "earlier_file": self.earlier_file,
            "earlier_line": self.earlier_line,
            "entity_id": self.entity_id,
        }
        return {
            "file": self.file,
            "line": self.line,
            "property": self.property,
            "value": self.value,
            "rule": self.rule.word,
            "code": self.rule.code,
            "message": self.message,
            **{name: value for name, value in other_row.items() if value is not None},
        }

    def to_ndjson(self) -> bytes:
        """Return a line of the file with all violations, with its line end."""
        # An unpaired surrogate, which a program can pass, has no UTF-8; it is shown as `?`.
        members = {
            name: value.encode(errors="replace").decode() if isinstance(value, str) else value
            for name, value in self.to_json().items()
        }
        return msgspec.json.encode(members) + b"\n"


def expand_violations(groups: Iterable[RuleViolations], origins: RowOrigins) -> Iterator[Violation]:
    """Yield every violation of every group, in the order of the report."""
    violations = [violation for group in groups for violation in _expand(group, origins)]
    yield from sorted(violations, key=Violation.order)


@dataclass(frozen=True, slots=True)
class ViolationGroup:
    """The violations of one rule by one property, with the same message: how many there are, and the first of them."""

    count: int
    first: tuple[Violation, ...]

    def describe(self) -> list[str]:
        """Return one line per violation, or one line with examples if there are many."""
        if self.count <= limits.VIOLATIONS_PER_RULE_MAX:
            return [violation.describe() for violation in self.first]
        return [self.first[0].describe_many(self.count, self.first[: limits.VIOLATION_EXAMPLES])]

    def to_json(self) -> dict[str, Fact]:
        """Return the members that all violations of the group share, and their number."""
        first = self.first[0].to_json()
        return {**{name: first[name] for name in ("property", "rule", "code", "message")}, "count": self.count}


@dataclass(frozen=True, slots=True)
class ViolationReport:
    """The first violations, how many there are of each rule, and the groups of violations with the same cause.

    Groups after the first `VIOLATION_GROUPS_MAX` are counted by rule only.
    """

    first: tuple[Violation, ...] = ()
    counts: tuple[tuple[Rule, int], ...] = ()
    groups: tuple[ViolationGroup, ...] = ()

    @classmethod
    def of_batch(cls, groups: Iterable[RuleViolations], origins: RowOrigins) -> ViolationReport:
        """Return the report on one batch; only retained violations are expanded."""
        return merge_reports(
            cls.of_group(len(group), list(_expand(_first_rows(group, origins), origins))) for group in groups
        )

    @classmethod
    def of_group(cls, count: int, first: Sequence[Violation]) -> ViolationReport:
        """Return the report on violations of one rule by one property, of which the first are passed."""
        if not first:
            return cls()
        retained = _first(first)
        group = ViolationGroup(count, retained[: limits.VIOLATIONS_PER_RULE_MAX])
        return cls(retained, ((retained[0].rule, count),), (group,))

    @classmethod
    def of_violations(cls, violations: Sequence[Violation]) -> ViolationReport:
        """Return the report on violations that a reader found."""
        causes: dict[_Cause, list[Violation]] = {}
        for violation in violations:
            causes.setdefault(_cause(violation), []).append(violation)
        return merge_reports(cls.of_group(len(group), group) for group in causes.values())

    @property
    def total(self) -> int:
        return sum(count for _, count in self.counts)

    @property
    def lists_all(self) -> bool:
        """Return whether an error shows a line for each violation."""
        return self.total == len(self.describe()) <= limits.VIOLATIONS_KEPT_MAX

    def describe(self) -> list[str]:
        """Return the groups as lines, in input order."""
        lines: list[tuple[Violation, str]] = []
        for group in self.groups:
            lines += zip(group.first, group.describe(), strict=False)  # one line may be for many violations
        return [line for _, line in sorted(lines, key=lambda entry: entry[0].order())]

    def has_only(self, *rules: Rule) -> bool:
        """Return whether every violation is of one of these rules."""
        return all(rule in rules for rule, _ in self.counts)

    def shift_lines(self, lines: int) -> ViolationReport:
        """Return the same report with a number of lines before it."""
        groups = (replace(group, first=_shift(group.first, lines)) for group in self.groups)
        return replace(self, first=_shift(self.first, lines), groups=tuple(groups))


class ValidationError(ContentError):
    """Rows violate rules of the schema; nothing was written. `report` has the first violations and the total."""

    applied = Applied.NO

    def __init__(self, message: str, report: ViolationReport, *, head: str, code: str, hint: str | Hint) -> None:
        facts: dict[str, Fact] = {
            "validation_errors": [violation.to_json() for violation in report.first],
            "validation_groups": [group.to_json() for group in report.groups[: limits.VIOLATIONS_KEPT_MAX]],
            "total": report.total,
        }
        is_conflict = report.has_only(Rule.KEY_CONFLICT)
        if is_conflict:
            first = report.first[0]
            kind, _, name = (first.table or "").partition(":")
            facts["key_conflict"] = {"entity_kind": kind, "type_name": name, "entity_id": first.entity_id}
        super().__init__(message, code=code, hint=hint, facts=facts)
        if is_conflict:
            self.kind = ErrorKind.CONFLICT
        self.report = report
        self._head = head

    def render(self) -> str:
        """Return the number of violations, and the first of them: one per line, or one line for many of a column."""
        lines = self.report.describe()
        shown = lines[: limits.VIOLATIONS_KEPT_MAX]
        more = f"; showing the first {len(shown)} lines" if len(lines) > len(shown) else ""
        return "\n".join([f"{self._head}{more}", *(f"  {line}" for line in shown)])


def count_others(report: ViolationReport) -> str:
    """Return the end of a message about the first violation: how many more there are; empty if it is the only one."""
    return f" (and {report.total - 1:,} more)" if report.total > 1 else ""


def merge_reports(reports: Iterable[ViolationReport]) -> ViolationReport:
    """Merge reports; their order does not matter."""
    counts: Counter[Rule] = Counter()
    violations: list[Violation] = []
    groups: dict[_Cause, ViolationGroup] = {}
    for report in reports:
        counts.update(dict(report.counts))
        violations.extend(report.first)
        if len(violations) > 10 * limits.VIOLATIONS_KEPT_MAX:
            violations = list(_first(violations))
        for group in report.groups:
            cause = _cause(group.first[0])
            groups[cause] = _merge_groups(groups[cause], group) if cause in groups else group
    return ViolationReport(_first(violations), _sorted_counts(counts), _first_groups(groups.values()))


@dataclass(frozen=True, slots=True)
class TaskFindings:
    """The result of one task about its range of a file: its number, its lines, and violations with local lines."""

    file: str
    part: int
    lines: int
    report: ViolationReport = ViolationReport()


def lines_before(findings: Iterable[TaskFindings]) -> Mapping[tuple[str, int], int]:
    """Return for each file and part how many lines of the file are before it."""
    before: dict[tuple[str, int], int] = {}
    file, lines = "", 0
    for part in sorted(findings, key=lambda part: (part.file, part.part)):
        lines = lines if part.file == file else 0
        file = part.file
        before[part.file, part.part] = lines
        lines += part.lines
    return before


def gather_findings(findings: Sequence[TaskFindings]) -> ViolationReport:
    """Return the report on the whole input, with the lines of the files."""
    before = lines_before(findings)
    return merge_reports(part.report.shift_lines(before[part.file, part.part]) for part in findings)


def _expand(group: RuleViolations, origins: RowOrigins) -> Iterator[Violation]:
    existing = group.existing_ids
    ids: Iterable[str | None] = repeat(None, len(group)) if existing is None else existing.to_pylist()
    earlier: Iterable[int | None] = repeat(None, len(group)) if group.earlier is None else group.earlier.tolist()
    rows = zip(group.rows.tolist(), group.shown_values(), ids, earlier, strict=True)
    for row, value, entity_id, earlier_row in rows:
        file, line = origins.of(row)
        earlier_file, earlier_line = (None, None) if earlier_row is None else origins.of(earlier_row)
        yield Violation(
            file=file,
            line=line,
            property=group.property,
            value=value,
            rule=group.rule,
            message=group.message,
            table=group.table,
            entity_id=entity_id,
            earlier_file=earlier_file,
            earlier_line=earlier_line,
        )


def _first_rows(group: RuleViolations, origins: RowOrigins) -> RuleViolations:
    """Return the rows that can be retained: as many as the limit, and all rows in the line of the last of them."""
    if len(group) <= limits.VIOLATIONS_KEPT_MAX:
        return group
    ranks = origins.ranks(group.rows)
    last = np.partition(ranks, limits.VIOLATIONS_KEPT_MAX - 1)[limits.VIOLATIONS_KEPT_MAX - 1]
    positions = np.concatenate(
        [np.flatnonzero(ranks < last), np.flatnonzero(ranks == last)[: limits.VIOLATIONS_KEPT_MAX]]
    )
    return group.only(positions.astype(np.int64))


_Cause = tuple[Rule, str | None, str]


def _cause(violation: Violation) -> _Cause:
    return (violation.rule, violation.property, violation.message)


def _merge_groups(left: ViolationGroup, right: ViolationGroup) -> ViolationGroup:
    first = nsmallest(limits.VIOLATIONS_PER_RULE_MAX, (*left.first, *right.first), key=Violation.order)
    return ViolationGroup(left.count + right.count, tuple(first))


def _first_groups(groups: Iterable[ViolationGroup]) -> tuple[ViolationGroup, ...]:
    return tuple(nsmallest(limits.VIOLATION_GROUPS_MAX, groups, key=lambda group: group.first[0].order()))


def _shift(violations: tuple[Violation, ...], lines: int) -> tuple[Violation, ...]:
    return tuple(violation.shift_lines(lines) for violation in violations)


def _first(violations: Iterable[Violation]) -> tuple[Violation, ...]:
    return tuple(nsmallest(limits.VIOLATIONS_KEPT_MAX, violations, key=Violation.order))


def _sorted_counts(counts: Counter[Rule]) -> tuple[tuple[Rule, int], ...]:
    nonzero = ((rule, count) for rule, count in counts.items() if count)
    return tuple(sorted(nonzero, key=lambda rule_and_count: rule_and_count[0].code))
