"""The syntax tree of a `.gq` text: frozen nodes with their position, without resolved names.

Positions are not part of equality, so that two texts with the same meaning have equal trees. Names, strings, numbers,
annotations and types are nodes of `lang.syntax`, which the schema language shares. `$x` is a variable or a parameter;
only the checks resolve it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, fields, is_dataclass
from enum import Enum

from omnigraph.lang.syntax import (
    NO_POSITION,
    Annotation,
    Name,
    NumberLiteral,
    Span,
    StringLiteral,
    TimeLiteral,
    TypeExpression,
)


class ComparisonOperator(Enum):
    """The operator of a comparison."""

    EQ = "="
    NE = "!="
    LT = "<"
    LE = "<="
    GT = ">"
    GE = ">="
    CONTAINS = "contains"
    STARTS_WITH = "starts_with"
    IN = "in"


class Sign(Enum):
    """An arithmetic operator."""

    ADD = "+"
    SUB = "-"
    MUL = "*"
    DIV = "/"


class Junction(Enum):
    """A logical operator that joins conditions."""

    AND = "and"
    OR = "or"


@dataclass(frozen=True, slots=True)
class Variable:
    """`$name`, without the `$`; `_` is anonymous."""

    name: str
    span: Span = field(default=NO_POSITION, compare=False, repr=False)

    @property
    def is_anonymous(self) -> bool:
        return self.name == "_"


@dataclass(frozen=True, slots=True)
class Access:
    """`$x.property`."""

    variable: Variable
    name: Name

    @property
    def span(self) -> Span:
        length = self.name.span.column + self.name.span.length - self.variable.span.column
        same_line = self.variable.span.line == self.name.span.line
        start = self.variable.span
        return Span(start.line, start.column, length) if same_line and length > 0 else start


@dataclass(frozen=True, slots=True)
class Word:
    """An unquoted word: an alias in `order`, a property in `where`."""

    text: str
    span: Span = field(default=NO_POSITION, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class BoolLiteral:
    """`true` or `false`."""

    value: bool
    span: Span = field(default=NO_POSITION, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class NullLiteral:
    """`null`."""

    span: Span = field(default=NO_POSITION, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class ListLiteral:
    """`[a, b, …]`."""

    items: tuple[Expression, ...]
    span: Span = field(default=NO_POSITION, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class CallArgument:
    """`name=value` in a call."""

    name: Name
    value: Expression


@dataclass(frozen=True, slots=True)
class Call:
    """`name(distinct a, b, k=1)`."""

    name: Name
    arguments: tuple[Expression, ...] = ()
    named: tuple[CallArgument, ...] = ()
    distinct: bool = False

    @property
    def span(self) -> Span:
        return self.name.span


@dataclass(frozen=True, slots=True)
class Negative:
    """`-a`, but not of a number literal, which includes its sign."""

    operand: Expression
    span: Span = field(default=NO_POSITION, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """`a + b`, with any arithmetic operator."""

    sign: Sign
    left: Expression
    right: Expression
    span: Span = field(default=NO_POSITION, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Comparison:
    """`a = b`, with any comparison operator; the span is that of the operator."""

    operator: ComparisonOperator
    left: Expression
    right: Expression
    span: Span = field(default=NO_POSITION, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class NullTest:
    """`a is null`, `a is not null`."""

    operand: Expression
    negated: bool

    @property
    def span(self) -> Span:
        return self.operand.span


@dataclass(frozen=True, slots=True)
class Joined:
    """`a and b and c`, `a or b`: at least two operands, none of them joined with the same operator."""

    junction: Junction
    operands: tuple[Expression, ...]

    @property
    def span(self) -> Span:
        return self.operands[0].span


@dataclass(frozen=True, slots=True)
class Inversion:
    """`not a`."""

    operand: Expression
    span: Span = field(default=NO_POSITION, compare=False, repr=False)


Atom = (
    Variable
    | Access
    | Word
    | StringLiteral
    | NumberLiteral
    | TimeLiteral
    | BoolLiteral
    | NullLiteral
    | ListLiteral
    | Call
)
Expression = Atom | Negative | Arithmetic | Comparison | NullTest | Joined | Inversion


@dataclass(frozen=True, slots=True)
class Assignment:
    """`property: value` in a binding, an insert or an update."""

    name: Name
    value: Expression


@dataclass(frozen=True, slots=True)
class Binding:
    """`$x: Type { property: value, … }`."""

    variable: Variable
    type: Name
    properties: tuple[Assignment, ...] = ()

    @property
    def span(self) -> Span:
        return self.variable.span


@dataclass(frozen=True, slots=True)
class Bounds:
    """`{low,high}`; without `high` the traversal has no upper bound. The checks validate the numbers."""

    low: NumberLiteral
    high: NumberLiteral | None
    span: Span = field(default=NO_POSITION, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Traversal:
    """`$a edge{1,2} $b`, `$a <edge> $b`, `$a $e:edge $b`."""

    source: Variable
    edge: Name
    target: Variable
    undirected: bool = False
    bounds: Bounds | None = None
    binding: Variable | None = None

    @property
    def span(self) -> Span:
        return self.edge.span


@dataclass(frozen=True, slots=True)
class Filter:
    """A condition on the variables."""

    condition: Expression

    @property
    def span(self) -> Span:
        return self.condition.span


@dataclass(frozen=True, slots=True)
class NotBlock:
    """`not { … }`."""

    clauses: tuple[Clause, ...]
    span: Span = field(default=NO_POSITION, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class OptionalBlock:
    """`optional { … }`."""

    clauses: tuple[Clause, ...]
    span: Span = field(default=NO_POSITION, compare=False, repr=False)


Clause = Binding | Traversal | Filter | NotBlock | OptionalBlock


@dataclass(frozen=True, slots=True)
class Projection:
    """An expression of `return`, with the name after `as`."""

    expression: Expression
    alias: Name | None = None


@dataclass(frozen=True, slots=True)
class Ordering:
    """An expression of `order`; `descending` is None without `asc` or `desc`."""

    expression: Expression
    descending: bool | None = None


@dataclass(frozen=True, slots=True)
class Limit:
    """`limit n offset m`; each a number or a parameter."""

    count: NumberLiteral | Variable
    offset: NumberLiteral | Variable | None = None


@dataclass(frozen=True, slots=True)
class ReadBody:
    """`match`, `return`, `order` and `limit`; `order` is None if it is not written."""

    clauses: tuple[Clause, ...]
    projections: tuple[Projection, ...]
    order: tuple[Ordering, ...] | None = None
    limit: Limit | None = None


@dataclass(frozen=True, slots=True)
class Insert:
    """`insert T { … }`."""

    type: Name
    assignments: tuple[Assignment, ...]


@dataclass(frozen=True, slots=True)
class Update:
    """`update T set { … } where p`."""

    type: Name
    assignments: tuple[Assignment, ...]
    where: Expression


@dataclass(frozen=True, slots=True)
class Delete:
    """`delete T where p`."""

    type: Name
    where: Expression


Statement = Insert | Update | Delete


@dataclass(frozen=True, slots=True)
class MutationBody:
    """The statements of a mutation, in order: at least one."""

    statements: tuple[Statement, ...]


@dataclass(frozen=True, slots=True)
class Parameter:
    """`$name: Type?`."""

    variable: Variable
    type: TypeExpression


@dataclass(frozen=True, slots=True)
class Query:
    """One query of a file."""

    name: Name
    parameters: tuple[Parameter, ...]
    annotations: tuple[Annotation, ...]
    body: ReadBody | MutationBody


@dataclass(frozen=True, slots=True)
class QueryFile:
    """A parsed text: its queries in order, and the text, so that problems can show a line."""

    queries: tuple[Query, ...] = ()
    source: str = field(default="<query>", compare=False)
    text: str = field(default="", compare=False, repr=False)


def walk(node: object) -> Iterator[object]:
    """Yield a node and all nodes inside it, in the order of their fields; a tuple yields its nodes."""
    if isinstance(node, tuple):
        for item in node:
            yield from walk(item)
    elif is_dataclass(node) and not isinstance(node, Span):
        yield node
        for member in fields(node):
            yield from walk(getattr(node, member.name))


def variables_of(query: Query) -> dict[str, list[Variable]]:
    """Return every mention of each variable or parameter in the body, by name."""
    mentions: dict[str, list[Variable]] = {}
    for node in walk(query.body):
        if isinstance(node, Variable):
            mentions.setdefault(node.name, []).append(node)
    return mentions
