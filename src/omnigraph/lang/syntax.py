"""The syntax tree of a `.pg` text: what was written, nothing resolved, every part with its place.

Places do not take part in equality, so that two texts that say the same give equal trees. The tree can hold mistakes
(an unknown type, a stray annotation): the checks find them, the tree only has to be able to show where they are.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final


@dataclass(frozen=True, slots=True)
class Span:
    """A place in the text: line and column from 1, and a length in characters."""

    line: int
    column: int
    length: int

    @classmethod
    def at(cls, position: int, text: str, length: int = 1) -> Span:
        """The place at an offset."""
        line_start = text.rfind("\n", 0, position) + 1
        return cls(text.count("\n", 0, position) + 1, position - line_start + 1, length)


NOWHERE: Final = Span(1, 1, 1)


@dataclass(frozen=True, slots=True)
class Name:
    """A name with its place."""

    text: str
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class StringLiteral:
    """A quoted string, its escapes already read."""

    value: str
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class NumberLiteral:
    """A number as written; only a column's type can say what it is worth."""

    text: str
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class WordLiteral:
    """A bare word: `true`, an enum value, a property's name."""

    text: str
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class TimeLiteral:
    """`date("2026-01-01")` or `datetime("2026-01-01T00:00:00Z")`: a text that is a value of exactly that type."""

    is_datetime: bool
    text: str
    span: Span = field(default=NOWHERE, compare=False, repr=False)

    @property
    def function(self) -> str:
        return "datetime" if self.is_datetime else "date"


Literal = StringLiteral | NumberLiteral | WordLiteral | TimeLiteral


@dataclass(frozen=True, slots=True)
class RangeArgument:
    """`low..high`; an absent end, or `*` as the upper one, is open."""

    low: Literal | None
    high: Literal | None
    span: Span = field(default=NOWHERE, compare=False, repr=False)


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
    """`@name` or `@name(argument, …)`; also a constraint of a body, and the metadata that we only keep."""

    name: Name
    arguments: tuple[Argument, ...] = ()

    @property
    def span(self) -> Span:
        return self.name.span


@dataclass(frozen=True, slots=True)
class TypeExpression:
    """A property's type as written. `parameters` is None where no parentheses stand."""

    name: Name
    parameters: tuple[Literal, ...] | None = None
    is_list: bool = False
    item_nullable: bool = False
    nullable: bool = False
