"""The syntax tree of a `.gq` text: frozen nodes with their position, without resolved names.

Positions are not part of equality, so that two texts with the same meaning have equal trees. Names, strings, numbers,
annotations and types are nodes of `lang.syntax`, which the schema language shares. `$x` is a variable or a parameter;
only the checks resolve it.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum

from omnigraph.lang.syntax import (
    NO_POSITION,
    Annotation,
    Name,
    NumberLiteral,
    Span,
    StringLiteral,
    SyntaxNode,
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
    LIKE = "like"
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


class Variable(SyntaxNode, frozen=True):
    """`$name`, without the `$`; `_` is anonymous."""

    name: str
    span: Span = NO_POSITION

    @property
    def is_anonymous(self) -> bool:
        return self.name == "_"


class Access(SyntaxNode, frozen=True):
    """`$x.property`."""

    variable: Variable
    name: Name

    @property
    def span(self) -> Span:
        length = self.name.span.column + self.name.span.length - self.variable.span.column
        same_line = self.variable.span.line == self.name.span.line
        start = self.variable.span
        return Span(start.line, start.column, length) if same_line and length > 0 else start


class Word(SyntaxNode, frozen=True):
    """An unquoted word: an alias in `order`, a property in `where`."""

    text: str
    span: Span = NO_POSITION


class BoolLiteral(SyntaxNode, frozen=True):
    """`true` or `false`."""

    value: bool
    span: Span = NO_POSITION


class NullLiteral(SyntaxNode, frozen=True):
    """`null`."""

    span: Span = NO_POSITION


class ListLiteral(SyntaxNode, frozen=True):
    """`[a, b, …]`."""

    items: tuple[Expression, ...]
    span: Span = NO_POSITION


class CallArgument(SyntaxNode, frozen=True):
    """`name=value` in a call."""

    name: Name
    value: Expression


class Call(SyntaxNode, frozen=True):
    """`name(distinct a, b, k=1)`, or `name(*)`."""

    name: Name
    arguments: tuple[Expression, ...] = ()
    named: tuple[CallArgument, ...] = ()
    distinct: bool = False
    star: bool = False

    @property
    def span(self) -> Span:
        return self.name.span


class Negative(SyntaxNode, frozen=True):
    """`-a`, but not of a number literal, which includes its sign."""

    operand: Expression
    span: Span = NO_POSITION


class Arithmetic(SyntaxNode, frozen=True):
    """`a + b`, with any arithmetic operator."""

    sign: Sign
    left: Expression
    right: Expression
    span: Span = NO_POSITION


class Comparison(SyntaxNode, frozen=True):
    """`a = b`, with any comparison operator; the span is that of the operator."""

    operator: ComparisonOperator
    left: Expression
    right: Expression
    span: Span = NO_POSITION


class Between(SyntaxNode, frozen=True):
    """`a between low and high`; the span is that of the keyword."""

    operand: Expression
    low: Expression
    high: Expression
    span: Span = NO_POSITION


class CaseBranch(SyntaxNode, frozen=True):
    """`when condition then value`."""

    condition: Expression
    value: Expression


class Case(SyntaxNode, frozen=True):
    """`case when … then … else … end`: at least one branch; without `else` the last value is null."""

    branches: tuple[CaseBranch, ...]
    otherwise: Expression | None = None
    span: Span = NO_POSITION


class NullTest(SyntaxNode, frozen=True):
    """`a is null`, `a is not null`."""

    operand: Expression
    negated: bool

    @property
    def span(self) -> Span:
        return self.operand.span


class Joined(SyntaxNode, frozen=True):
    """`a and b and c`, `a or b`: at least two operands, none of them joined with the same operator."""

    junction: Junction
    operands: tuple[Expression, ...]

    @property
    def span(self) -> Span:
        return self.operands[0].span


class Inversion(SyntaxNode, frozen=True):
    """`not a`."""

    operand: Expression
    span: Span = NO_POSITION


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
    | Case
)
Expression = Atom | Negative | Arithmetic | Comparison | Between | NullTest | Joined | Inversion


class Assignment(SyntaxNode, frozen=True):
    """`property: value` in a binding, an insert or an update."""

    name: Name
    value: Expression


class Binding(SyntaxNode, frozen=True):
    """`$x: Type { property: value, … }`."""

    variable: Variable
    type: Name
    properties: tuple[Assignment, ...] = ()

    @property
    def span(self) -> Span:
        return self.variable.span


class Bounds(SyntaxNode, frozen=True):
    """`{low,high}`; without `high` the traversal has no upper bound. The checks validate the numbers."""

    low: NumberLiteral
    high: NumberLiteral | None
    span: Span = NO_POSITION


class Traversal(SyntaxNode, frozen=True):
    """`$a edge{1,2} $b`, `$a <edge> $b`, `$a $e:edge $b`, `$a (edge|other) $b`; `more` has the other edges."""

    source: Variable
    edge: Name
    target: Variable
    undirected: bool = False
    bounds: Bounds | None = None
    binding: Variable | None = None
    more: tuple[Name, ...] = ()

    @property
    def span(self) -> Span:
        return self.edge.span

    @property
    def edge_text(self) -> str:
        """The edges as the query text has them."""
        names = "|".join(name.text for name in (self.edge, *self.more))
        if self.undirected:
            return f"<{names}>"
        return f"({names})" if self.more else names


class Filter(SyntaxNode, frozen=True):
    """A condition on the variables."""

    condition: Expression

    @property
    def span(self) -> Span:
        return self.condition.span


class NotBlock(SyntaxNode, frozen=True):
    """`not { … }`."""

    clauses: tuple[Clause, ...]
    span: Span = NO_POSITION


class OptionalBlock(SyntaxNode, frozen=True):
    """`optional { … }`."""

    clauses: tuple[Clause, ...]
    span: Span = NO_POSITION


Clause = Binding | Traversal | Filter | NotBlock | OptionalBlock


class Projection(SyntaxNode, frozen=True):
    """An expression of `return`, with the name after `as`."""

    expression: Expression
    alias: Name | None = None


class Ordering(SyntaxNode, frozen=True):
    """An expression of `order`; `descending` is None without `asc` or `desc`."""

    expression: Expression
    descending: bool | None = None


class Limit(SyntaxNode, frozen=True):
    """`limit n offset m`; each a number or a parameter."""

    count: NumberLiteral | Variable
    offset: NumberLiteral | Variable | None = None


class ReadBody(SyntaxNode, frozen=True):
    """`match`, `return`, `having`, `order` and `limit`; `having` and `order` are None if they are not written."""

    clauses: tuple[Clause, ...]
    projections: tuple[Projection, ...]
    order: tuple[Ordering, ...] | None = None
    limit: Limit | None = None
    having: tuple[Filter, ...] | None = None


class _TypeStatement(SyntaxNode, frozen=True):
    type: Name

    @property
    def span(self) -> Span:
        return self.type.span


class _MatchedStatement(SyntaxNode, frozen=True):
    clauses: tuple[Clause, ...]
    variable: Variable

    @property
    def span(self) -> Span:
        return self.variable.span


class Insert(_TypeStatement, frozen=True):
    """`insert T { … }`."""

    assignments: tuple[Assignment, ...]


class Update(_TypeStatement, frozen=True):
    """`update T set { … } where p`."""

    assignments: tuple[Assignment, ...]
    where: Expression


class Delete(_TypeStatement, frozen=True):
    """`delete T where p`."""

    where: Expression


class MatchedUpdate(_MatchedStatement, frozen=True):
    """`match { … } update $x set { … }`."""

    assignments: tuple[Assignment, ...]


class MatchedDelete(_MatchedStatement, frozen=True):
    """`match { … } delete $x`."""


Matched = MatchedUpdate | MatchedDelete
Statement = Insert | Update | Delete | Matched


class MutationBody(SyntaxNode, frozen=True):
    """The statements of a mutation, in order: at least one."""

    statements: tuple[Statement, ...]


class Parameter(SyntaxNode, frozen=True):
    """`$name: Type?`."""

    variable: Variable
    type: TypeExpression


class Query(SyntaxNode, frozen=True):
    """One query of a file."""

    name: Name
    parameters: tuple[Parameter, ...]
    annotations: tuple[Annotation, ...]
    body: ReadBody | MutationBody


class QueryFile(SyntaxNode, frozen=True):
    """A parsed text: its queries in order, and the text, so that problems can show a line."""

    ignored = ("source", "text")
    queries: tuple[Query, ...] = ()
    source: str = "<query>"
    text: str = ""


def walk(node: object) -> Iterator[object]:
    """Yield a node and all nodes inside it, in the order of their fields; a tuple yields its nodes."""
    if isinstance(node, tuple):
        for item in node:
            yield from walk(item)
    elif isinstance(node, SyntaxNode):
        yield node
        for name in node.__struct_fields__:
            yield from walk(getattr(node, name))


def variables_of(query: Query) -> dict[str, list[Variable]]:
    """Return every mention of each variable or parameter in the body, by name."""
    mentions: dict[str, list[Variable]] = {}
    for node in walk(query.body):
        if isinstance(node, Variable):
            mentions.setdefault(node.name, []).append(node)
    return mentions
