"""The nodes that the syntax trees of both languages share: positions, names, literals, annotations, types.

Nothing is resolved. Positions are not compared, so two texts with the same meaning have equal trees. A tree can contain
errors, such as an unknown type; the checks of each language report them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final


@dataclass(frozen=True, slots=True)
class Span:
    """A position in a text: line and column from 1, and a length in characters."""

    line: int
    column: int
    length: int

    @classmethod
    def at(cls, position: int, text: str, length: int = 1) -> Span:
        """Return the position of an offset."""
        line_start = text.rfind("\n", 0, position) + 1
        return cls(text.count("\n", 0, position) + 1, position - line_start + 1, length)


NO_POSITION: Final = Span(1, 1, 1)


@dataclass(frozen=True, slots=True)
class Name:
    """A name with its position."""

    text: str
    span: Span = field(default=NO_POSITION, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class StringLiteral:
    """A quoted string, without its escapes."""

    value: str
    span: Span = field(default=NO_POSITION, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class NumberLiteral:
    """A number as written; its value depends on the type of the column."""

    text: str
    span: Span = field(default=NO_POSITION, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class WordLiteral:
    """A word without quotes: `true`, an enum value, the name of a property."""

    text: str
    span: Span = field(default=NO_POSITION, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class TimeLiteral:
    """`date("2026-01-01")` or `datetime("2026-01-01T00:00:00Z")`: a value of exactly that type."""

    is_datetime: bool
    text: str
    span: Span = field(default=NO_POSITION, compare=False, repr=False)

    @property
    def function(self) -> str:
        return "datetime" if self.is_datetime else "date"


Literal = StringLiteral | NumberLiteral | WordLiteral | TimeLiteral


@dataclass(frozen=True, slots=True)
class RangeArgument:
    """`low..high`; an end is open if it is absent or, for the upper one, `*`."""

    low: Literal | None
    high: Literal | None
    span: Span = field(default=NO_POSITION, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class NamedArgument:
    """`name=value`."""

    name: Name
    value: Literal

    @property
    def span(self) -> Span:
        return self.name.span


Argument = Literal | RangeArgument | NamedArgument


@dataclass(frozen=True, slots=True)
class Annotation:
    """`@name` or `@name(argument, …)`: also a constraint in a body, and metadata without a meaning of its own."""

    name: Name
    arguments: tuple[Argument, ...] = ()

    @property
    def span(self) -> Span:
        return self.name.span


@dataclass(frozen=True, slots=True)
class TypeExpression:
    """A property's type as written. `parameters` is None without parentheses."""

    name: Name
    parameters: tuple[Literal, ...] | None = None
    is_list: bool = False
    item_nullable: bool = False
    nullable: bool = False
