"""Violations as people and programs see them, and the report that counts all of them and keeps the first.

A report is a small value: tasks on executors return one each, with line numbers counted from the start of their own
range, and the driver moves them to their place in the file and merges them. Merging in any order gives the same
report: the kept violations are the first in the order of file, line and property, and every count is exact.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from heapq import nsmallest

import msgspec
import numpy as np

from omnigraph.base import limits
from omnigraph.base.errors import Applied, ContentError, ErrorKind, Fact
from omnigraph.base.hints import Hint
from omnigraph.integrity.rules import RowOrigins, Rule, RuleViolations


@dataclass(frozen=True, slots=True)
class Violation:
    """One broken rule at one place. `line` is None for what the input changes without naming it."""

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
    table: str | None = None
    """The table of an existing id, such as `node:Person`."""

    def order(self) -> tuple[str, int, str, str, str, str]:
        """What violations are sorted by."""
        return (self.file, self.line or 0, self.property or "", self.rule.code, self.value, self.message)

    def moved(self, lines: int) -> Violation:
        """The same violation after that many lines before it."""
        return self if self.line is None else replace(self, line=self.line + lines)

    def describe(self) -> str:
        """One line for people: where, what, and the value that was given."""
        where = self.file if self.line is None else f"{self.file}:{self.line}"
        what = f"{self.property}: {self.message}" if self.property else self.message
        value = f" ({self.value})" if self.value else ""
        return " ".join(f"{where}: {self.rule.code} {what}{value}".split())

    def to_json(self) -> dict[str, Fact]:
        """The members of a line of `--errors FILE`."""
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
        """A line of `--errors FILE`, with its end."""
        # A lone surrogate that a program passed in has no UTF-8; it is shown as `?`.
        members = {
            name: value.encode(errors="replace").decode() if isinstance(value, str) else value
            for name, value in self.to_json().items()
        }
        return msgspec.json.encode(members) + b"\n"


def violations_of(breaches: Iterable[RuleViolations], places: RowOrigins) -> Iterator[Violation]:
    """Every violation of every breach, in the order of the report."""
    found = [violation for breach in breaches for violation in _expanded(breach, places)]
    yield from sorted(found, key=lambda violation: violation.order())


@dataclass(frozen=True, slots=True)
class ViolationReport:
    """The first violations, and how many there are of each rule."""

    first: tuple[Violation, ...] = ()
    counts: tuple[tuple[Rule, int], ...] = ()

    @classmethod
    def of_breaches(cls, breaches: Iterable[RuleViolations], places: RowOrigins) -> ViolationReport:
        """The report on one batch; only the violations that are kept are written out."""
        counts: Counter[Rule] = Counter()
        kept: list[Violation] = []
        for breach in breaches:
            counts[breach.rule] += len(breach)
            kept.extend(_expanded(_first_rows(breach, places), places))
        return cls(_first(kept), _sorted_counts(counts))

    @classmethod
    def of_violations(cls, violations: Sequence[Violation]) -> ViolationReport:
        """The report on violations that a reader found itself."""
        return cls(_first(violations), _sorted_counts(Counter(found.rule for found in violations)))

    @property
    def total(self) -> int:
        return sum(count for _, count in self.counts)

    def has_only(self, rule: Rule) -> bool:
        """Return whether every violation is of this rule."""
        return all(counted is rule for counted, _ in self.counts)

    def moved(self, lines: int) -> ViolationReport:
        """The same report after that many lines before it."""
        return replace(self, first=tuple(found.moved(lines) for found in self.first))


class ValidationError(ContentError):
    """Rows break rules of the schema; nothing was written. `report` has the first violations and the total."""

    applied = Applied.NO

    def __init__(
        self, message: str, report: ViolationReport, *, head: str, code: str, hint: str | Hint
    ) -> None:
        facts: dict[str, Fact] = {
            "validation_errors": [violation.to_json() for violation in report.first],
            "total": report.total,
        }
        is_conflict = report.has_only(Rule.KEY_CONFLICT)
        if is_conflict:
            first = report.first[0]
            kind, _, name = (first.table or "").partition(":")
            facts["key_conflict"] = {"entity_kind": kind, "type_name": name, "entity_id": first.value}
        super().__init__(message, code=code, hint=hint, facts=facts)
        if is_conflict:
            self.kind = ErrorKind.CONFLICT
        self.report = report
        self._head = head

    def render(self) -> str:
        """Return the number of violations, and the first of them, one per line."""
        shown, total = self.report.first, self.report.total
        more = "" if total == len(shown) else f", of which the first {len(shown)} are shown"
        return "\n".join([f"{self._head}{more}", *(f"  {violation.describe()}" for violation in shown)])


def merge_reports(reports: Iterable[ViolationReport]) -> ViolationReport:
    """One report of all of them; the order in which they come does not matter."""
    counts: Counter[Rule] = Counter()
    kept: list[Violation] = []
    for report in reports:
        counts.update(dict(report.counts))
        kept.extend(report.first)
        if len(kept) > 10 * limits.VIOLATIONS_KEPT_MAX:
            kept = list(_first(kept))
    return ViolationReport(_first(kept), _sorted_counts(counts))


@dataclass(frozen=True, slots=True)
class TaskFindings:
    """What one task returns about its range of a file: its number, its lines, and violations with local lines."""

    file: str
    part: int
    lines: int
    report: ViolationReport = ViolationReport()


def lines_before(findings: Iterable[TaskFindings]) -> Mapping[tuple[str, int], int]:
    """For each file and part, how many lines of the file come before it."""
    before: dict[tuple[str, int], int] = {}
    file, lines = "", 0
    for found in sorted(findings, key=lambda found: (found.file, found.part)):
        lines = lines if found.file == file else 0
        file = found.file
        before[found.file, found.part] = lines
        lines += found.lines
    return before


def gather_findings(findings: Sequence[TaskFindings]) -> ViolationReport:
    """The report on the whole input, with the lines of the files."""
    before = lines_before(findings)
    return merge_reports(found.report.moved(before[found.file, found.part]) for found in findings)


def _expanded(breach: RuleViolations, places: RowOrigins) -> Iterator[Violation]:
    for row, value in zip(breach.rows.tolist(), breach.shown_values(), strict=True):
        file, line = places.of(row)
        yield Violation(file, line, breach.property, value, breach.rule, breach.message, breach.table)


def _first_rows(breach: RuleViolations, places: RowOrigins) -> RuleViolations:
    """The rows of a breach that can be among those kept: as many as are kept, and all on the last one's line."""
    if len(breach) <= limits.VIOLATIONS_KEPT_MAX:
        return breach
    ranks = places.ranks(breach.rows)
    last = np.partition(ranks, limits.VIOLATIONS_KEPT_MAX - 1)[limits.VIOLATIONS_KEPT_MAX - 1]
    which = np.concatenate(
        [np.flatnonzero(ranks < last), np.flatnonzero(ranks == last)[: limits.VIOLATIONS_KEPT_MAX]]
    )
    return breach.only(which.astype(np.int64))


def _first(violations: Iterable[Violation]) -> tuple[Violation, ...]:
    return tuple(nsmallest(limits.VIOLATIONS_KEPT_MAX, violations, key=lambda violation: violation.order()))


def _sorted_counts(counts: Counter[Rule]) -> tuple[tuple[Rule, int], ...]:
    return tuple(
        sorted(((rule, count) for rule, count in counts.items() if count), key=lambda one: one[0].code)
    )
