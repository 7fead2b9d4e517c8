"""Problems in files that a person writes: all of them are collected and reported in one run. Pure.

In: values with positions. Out: `Diagnostic` values in the order of the files. `InvalidFilesError` reports all of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from omnigraph.base.errors import ErrorKind, Fact, OmnigraphError, list_all

Severity = Literal["error", "warning"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnostic:
    """One problem: its stable code, the file, the line if it is known, and what is wrong."""

    code: str
    path: str
    message: str
    line: int | None = None
    severity: Severity = "error"

    @property
    def position(self) -> str:
        """The file and the line."""
        return self.path if self.line is None else f"{self.path}:{self.line}"

    def __str__(self) -> str:
        return f"{self.position}: {self.message}"

    def facts(self) -> dict[str, Fact]:
        """Return the problem as facts of an error."""
        values: dict[str, Fact] = {"code": self.code, "severity": self.severity, "path": self.path}
        return values | ({} if self.line is None else {"line": self.line}) | {"message": self.message}


@dataclass(frozen=True, slots=True)
class Diagnostics:
    """Collects the problems of files."""

    items: list[Diagnostic] = field(default_factory=list)

    def error(self, code: str, path: str, line: int | None, message: str) -> None:
        """Add a problem that makes the files invalid."""
        self.items.append(Diagnostic(code=code, path=path, line=line, message=message))

    @property
    def has_errors(self) -> bool:
        """Whether a problem makes the files invalid."""
        return any(item.severity == "error" for item in self.items)

    def raise_errors(self, subject: str, hint: str, facts: Mapping[str, Fact] | None = None) -> None:
        """Raise one error with all problems if there is one; `subject` names what is invalid.

        The problems are in the order of the files and of their lines. A file that is used twice has each problem once.
        """
        if self.has_errors:
            files = {item.path: number for number, item in reversed(list(enumerate(self.items)))}
            items = sorted(dict.fromkeys(self.items), key=lambda item: (files[item.path], item.line or 0))
            raise InvalidFilesError(subject, items, hint, facts)


class InvalidFilesError(OmnigraphError):
    """Files that a person wrote are invalid. `diagnostics` has every problem."""

    kind = ErrorKind.INVALID_CONTENT

    def __init__(
        self, subject: str, diagnostics: Sequence[Diagnostic], hint: str, facts: Mapping[str, Fact] | None = None
    ) -> None:
        count = len(diagnostics)
        super().__init__(
            f"{subject} is invalid: {count} problem{'' if count == 1 else 's'}",
            code=diagnostics[0].code,
            hint=hint,
            facts={**(facts or {}), "diagnostics": [diagnostic.facts() for diagnostic in diagnostics]},
        )
        self.diagnostics = tuple(diagnostics)

    def render(self) -> str:
        """Return the message and one line per problem."""
        return list_all(f"{self.message}:", [str(diagnostic) for diagnostic in self.diagnostics])
