"""Reads the case files: a schema, data, and cases of queries with their expected results.

    # What the file is about.
    == schema
    node Person { slug: String @key }
    == data
    {"type": "Person", "data": {"slug": "ada"}}
    == a title that says what is expected
    query q($s: String) { match { $p: Person { slug: $s } } return { $p.slug } }
    -- params {"s": "ada"}
    -- rows
    ["p.slug"]
    ["ada"]

A case has one or more steps, which run in order on a separate graph. A step is the text of a query, followed by the
expected result: `-- rows` (a line with the names of the columns, then one line per row, in any order),
`-- rows in order`, `-- changed N M` (a mutation that changes N nodes and M edges and commits), `-- unchanged` (a
mutation without a commit), or `-- error CODE …` (the exact codes, in order). A string that starts with `~` is a float
with four digits.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

CASES: Final = Path(__file__).parent / "cases"
_HEADING: Final = re.compile(r"^== (.+)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Rows:
    """A result: the names of its columns, and its rows."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    ordered: bool = False


@dataclass(frozen=True, slots=True)
class Changed:
    """A mutation's counts, and whether there was a commit."""

    nodes: int
    edges: int
    committed: bool = True


@dataclass(frozen=True, slots=True)
class Failed:
    """The codes of an error."""

    codes: tuple[str, ...]


Expected = Rows | Changed | Failed


@dataclass(frozen=True, slots=True)
class CaseStep:
    """One query, its expected result, and its line in the file."""

    text: str
    params: dict[str, Any]
    expected: Expected
    line: int


@dataclass(frozen=True, slots=True)
class LanguageCase:
    """One behaviour of the query language."""

    title: str
    steps: tuple[CaseStep, ...]

    @property
    def changes(self) -> bool:
        """Whether it changes its graph, which other cases then cannot share."""
        return any(isinstance(step.expected, Changed) for step in self.steps)


@dataclass(frozen=True, slots=True)
class CaseFile:
    """Cases that share a schema and data."""

    name: str
    schema: str
    data: tuple[str, ...]
    cases: tuple[LanguageCase, ...]


def read_case_files() -> tuple[CaseFile, ...]:
    return tuple(parse_cases(path.stem, path.read_text(encoding="utf-8")) for path in sorted(CASES.glob("*.txt")))


def parse_cases(name: str, text: str) -> CaseFile:
    """Return the cases of one file; raise `ValueError` with the line of an invalid case."""
    sections = []
    headings = list(_HEADING.finditer(text))
    for heading, after in zip(headings, [*headings[1:], None], strict=True):
        body = text[heading.end() : after.start() if after else len(text)]
        sections.append((heading[1], body, text.count("\n", 0, heading.start()) + 1))
    if [title for title, _, _ in sections[:2]] != ["schema", "data"]:
        raise ValueError(f"{name}: a file must start with `== schema` and `== data`")
    data = tuple(line for line in sections[1][1].splitlines() if line.strip())
    cases = tuple(LanguageCase(title, tuple(_steps(name, body, line))) for title, body, line in sections[2:])
    titles = [case.title for case in cases]
    if duplicates := {title for title in titles if titles.count(title) > 1}:
        raise ValueError(f"{name}: duplicate titles: {duplicates}")
    return CaseFile(name, sections[0][1].strip() + "\n", data, cases)


@dataclass(slots=True)
class _Draft:
    """A step while its lines are read."""

    line: int = 0
    text: list[str] = field(default_factory=list)
    params: dict[str, Any] = field(default_factory=dict)
    expected: str | None = None
    rows: list[list[Any]] = field(default_factory=list)

    def finish(self, name: str) -> CaseStep:
        if self.expected is None:
            raise ValueError(f"{name}:{self.line}: the step has no `--` line with an expected result")
        words = self.expected.split()
        return CaseStep("\n".join(self.text).strip(), self.params, self._expected(name, words), self.line)

    def _expected(self, name: str, words: list[str]) -> Expected:
        match words:
            case ["rows"] | ["rows", "in", "order"]:
                if not self.rows:
                    raise ValueError(f"{name}:{self.line}: the names of the columns are missing")
                columns, *rows = self.rows
                return Rows(tuple(columns), tuple(tuple(row) for row in rows), len(words) > 1)
            case ["changed", nodes, edges]:
                return Changed(int(nodes), int(edges))
            case ["unchanged"]:
                return Changed(0, 0, committed=False)
            case ["error", *codes] if codes:
                return Failed(tuple(codes))
            case _:
                raise ValueError(f"{name}:{self.line}: unknown expected result `-- {self.expected}`")


def _steps(name: str, body: str, first: int) -> Iterator[CaseStep]:
    draft = _Draft()
    for number, line in enumerate(body.splitlines(), start=first):
        if not line.strip() or line.startswith("#"):
            continue
        if line.startswith("-- params "):
            draft.params = json.loads(line.removeprefix("-- params "))
        elif line.startswith("-- "):
            draft.expected = line.removeprefix("-- ")
        elif draft.expected is not None and line.startswith("["):
            draft.rows.append(json.loads(line))
        else:
            if draft.expected is not None:
                yield draft.finish(name)
                draft = _Draft()
            draft.line = draft.line or number
            draft.text.append(line)
    yield draft.finish(name)
