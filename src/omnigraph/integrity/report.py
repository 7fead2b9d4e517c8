"""Violations for people and programs, and the report that counts all of them and retains the first.

In: `RuleViolations` and the origins of their rows. Out: a `ViolationReport`, which is small: each task on an executor
returns one, with line numbers counted from the start of its range, and the driver shifts them to the lines of the file
and merges them. The order of merging does not matter: the retained violations are the first by file, line and property,
and every count is exact. Pure.
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
from omnigraph.base.errors import Applied, ContentError, ErrorKind, Fact
from omnigraph.base.hints import Hint
from omnigraph.integrity.raw import values_of
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
    """The existing id, not shortened. The file of rejected rows does not have it."""

    def order(self) -> tuple[str, int, str, str, str, str]:
        """Return the key by which violations are sorted."""
        return (self.file, self.line or 0, self.property or "", self.rule.code, self.value, self.message)

    def shift_lines(self, lines: int) -> Violation:
        """Return the same violation with a number of lines before it."""
        return self if self.line is None else replace(self, line=self.line + lines)

    def describe(self) -> str:
        """Return one line with the file, line, message and value."""
        origin = self.file if self.line is None else f"{self.file}:{self.line}"
        message = f"{self.property}: {self.message}" if self.property else self.message
        value = f" ({self.value})" if self.value else ""
        return " ".join(f"{origin}: {self.rule.code} {message}{value}".split())

    def to_json(self) -> dict[str, Fact]:
        """Return the members of a line of the file with all violations."""
        return {
            "file": self.file,
            "line": self.line,
            "property": self.property,
            "value": self.value,
            "rule": self.rule.word,
            "code": self.rule.code,
            "message": self.message,
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
class ViolationReport:
    """The first violations, and how many there are of each rule."""

    first: tuple[Violation, ...] = ()
    counts: tuple[tuple[Rule, int], ...] = ()

    @classmethod
    def of_batch(cls, groups: Iterable[RuleViolations], origins: RowOrigins) -> ViolationReport:
        """Return the report on one batch; only retained violations are expanded."""
        counts: Counter[Rule] = Counter()
        violations: list[Violation] = []
        for group in groups:
            counts[group.rule] += len(group)
            violations.extend(_expand(_first_rows(group, origins), origins))
        return cls(_first(violations), _sorted_counts(counts))

    @classmethod
    def of_violations(cls, violations: Sequence[Violation]) -> ViolationReport:
        """Return the report on violations that a reader found."""
        return cls(_first(violations), _sorted_counts(Counter(violation.rule for violation in violations)))

    @property
    def total(self) -> int:
        return sum(count for _, count in self.counts)

    def has_only(self, rule: Rule) -> bool:
        """Return whether every violation is of this rule."""
        return all(counted is rule for counted, _ in self.counts)

    def shift_lines(self, lines: int) -> ViolationReport:
        """Return the same report with a number of lines before it."""
        return replace(self, first=tuple(violation.shift_lines(lines) for violation in self.first))


class ValidationError(ContentError):
    """Rows violate rules of the schema; nothing was written. `report` has the first violations and the total."""

    applied = Applied.NO

    def __init__(self, message: str, report: ViolationReport, *, head: str, code: str, hint: str | Hint) -> None:
        facts: dict[str, Fact] = {
            "validation_errors": [violation.to_json() for violation in report.first],
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
        """Return the number of violations, and the first of them, one per line."""
        shown, total = self.report.first, self.report.total
        more = "" if total == len(shown) else f"; showing the first {len(shown)}"
        return "\n".join([f"{self._head}{more}", *(f"  {violation.describe()}" for violation in shown)])


def merge_reports(reports: Iterable[ViolationReport]) -> ViolationReport:
    """Merge reports; their order does not matter."""
    counts: Counter[Rule] = Counter()
    violations: list[Violation] = []
    for report in reports:
        counts.update(dict(report.counts))
        violations.extend(report.first)
        if len(violations) > 10 * limits.VIOLATIONS_KEPT_MAX:
            violations = list(_first(violations))
    return ViolationReport(_first(violations), _sorted_counts(counts))


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
    ids: Iterable[str | None] = repeat(None, len(group))
    if group.table is not None and group.values is not None:
        ids = map(str, values_of(group.values))
    for row, value, entity_id in zip(group.rows.tolist(), group.shown_values(), ids, strict=True):
        file, line = origins.of(row)
        yield Violation(
            file=file,
            line=line,
            property=group.property,
            value=value,
            rule=group.rule,
            message=group.message,
            table=group.table,
            entity_id=entity_id,
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


def _first(violations: Iterable[Violation]) -> tuple[Violation, ...]:
    return tuple(nsmallest(limits.VIOLATIONS_KEPT_MAX, violations, key=Violation.order))


def _sorted_counts(counts: Counter[Rule]) -> tuple[tuple[Rule, int], ...]:
    nonzero = ((rule, count) for rule, count in counts.items() if count)
    return tuple(sorted(nonzero, key=lambda rule_and_count: rule_and_count[0].code))
