"""The nodes that the syntax trees of both languages share: positions, names, literals, annotations, types.

Nothing is resolved. Positions are not compared, so two texts with the same meaning have equal trees. A tree can contain
errors, such as an unknown type; the checks of each language report them.
"""

from __future__ import annotations

from typing import Any, ClassVar, Final

from msgspec import Struct


class Span(Struct, frozen=True):
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


class SyntaxNode(Struct, frozen=True, eq=False):
    """The base class of nodes. Two nodes are equal if all their fields are, except for the `ignored` ones."""

    ignored: ClassVar[tuple[str, ...]] = ("span",)

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self._compared() == other._compared()

    def __ne__(self, other: object) -> bool:  # that of `Struct` does not call `__eq__`
        return not self == other

    def __hash__(self) -> int:
        return hash(tuple(self._compared().values()))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in self._compared().items())})"

    def _compared(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__struct_fields__ if name not in self.ignored}


class Name(SyntaxNode, frozen=True):
    """A name with its position."""

    text: str
    span: Span = NO_POSITION


class StringLiteral(SyntaxNode, frozen=True):
    """A quoted string, without its escapes."""

    value: str
    span: Span = NO_POSITION


class NumberLiteral(SyntaxNode, frozen=True):
    """A number as written; its value depends on the type of the column."""

    text: str
    span: Span = NO_POSITION


class WordLiteral(SyntaxNode, frozen=True):
    """A word without quotes: `true`, an enum value, the name of a property."""

    text: str
    span: Span = NO_POSITION


class TimeLiteral(SyntaxNode, frozen=True):
    """`date("2026-01-01")` or `datetime("2026-01-01T00:00:00Z")`: a value of exactly that type."""

    is_datetime: bool
    text: str
    span: Span = NO_POSITION

    @property
    def function(self) -> str:
        return "datetime" if self.is_datetime else "date"


Literal = StringLiteral | NumberLiteral | WordLiteral | TimeLiteral


class RangeArgument(SyntaxNode, frozen=True):
    """`low..high`; an end is open if it is absent or, for the upper one, `*`."""

    low: Literal | None
    high: Literal | None
    span: Span = NO_POSITION


class NamedArgument(SyntaxNode, frozen=True):
    """`name=value`."""

    name: Name
    value: Literal

    @property
    def span(self) -> Span:
        return self.name.span


Argument = Literal | RangeArgument | NamedArgument


class Annotation(SyntaxNode, frozen=True):
    """`@name` or `@name(argument, …)`: also a constraint in a body, and metadata without a meaning of its own."""

    name: Name
    arguments: tuple[Argument, ...] = ()

    @property
    def span(self) -> Span:
        return self.name.span


class TypeExpression(SyntaxNode, frozen=True):
    """A property's type as written. `parameters` is None without parentheses."""

    name: Name
    parameters: tuple[Literal, ...] | None = None
    is_list: bool = False
    item_nullable: bool = False
    nullable: bool = False
