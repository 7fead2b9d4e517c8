"""The syntax tree of a `.gq` text: what was written, nothing resolved, every part with its place.

Places do not take part in equality, so that two texts that say the same give equal trees. Names, strings, numbers,
annotations and types are those of the schema's tree, since both languages write them alike. `$x` is a variable or a
parameter; only the checks can tell.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum

from omnigraph.lang.syntax import (
    NOWHERE,
    Annotation,
    Name,
    NumberLiteral,
    Span,
    StringLiteral,
    TimeLiteral,
    TypeExpression,
)


class ComparisonOperator(Enum):
    """What stands between the two sides of a comparison."""

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
    """How conditions are joined."""

    AND = "and"
    OR = "or"


@dataclass(frozen=True, slots=True)
class Variable:
    """`$name`, the name without the sign; `_` is the anonymous one."""

    name: str
    span: Span = field(default=NOWHERE, compare=False, repr=False)

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
    """A bare word: an alias in `order`, a property in `where`."""

    text: str
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class BoolLiteral:
    """`true` or `false`."""

    value: bool
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class NullLiteral:
    """`null`."""

    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class ListLiteral:
    """`[a, b, …]`."""

    items: tuple[Expression, ...]
    span: Span = field(default=NOWHERE, compare=False, repr=False)


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
    """`-a`; a negative number is a number, not this."""

    operand: Expression
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """`a + b` and the like."""

    sign: Sign
    left: Expression
    right: Expression
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Comparison:
    """`a = b` and the like; the place is that of the operator."""

    operator: ComparisonOperator
    left: Expression
    right: Expression
    span: Span = field(default=NOWHERE, compare=False, repr=False)


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
    """`a and b and c`, `a or b`; at least two operands, none of them joined in the same way."""

    junction: Junction
    operands: tuple[Expression, ...]

    @property
    def span(self) -> Span:
        return self.operands[0].span


@dataclass(frozen=True, slots=True)
class Inversion:
    """`not a`."""

    operand: Expression
    span: Span = field(default=NOWHERE, compare=False, repr=False)


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
    """`{low,high}`; `high` None is open. Kept as written, since only the checks know the limits."""

    low: NumberLiteral
    high: NumberLiteral | None
    span: Span = field(default=NOWHERE, compare=False, repr=False)


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
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class OptionalBlock:
    """`optional { … }`."""

    clauses: tuple[Clause, ...]
    span: Span = field(default=NOWHERE, compare=False, repr=False)


Clause = Binding | Traversal | Filter | NotBlock | OptionalBlock


@dataclass(frozen=True, slots=True)
class Projection:
    """One expression of `return`, with its name if one is given."""

    expression: Expression
    alias: Name | None = None


@dataclass(frozen=True, slots=True)
class Ordering:
    """One expression of `order`; `descending` None means that no direction is written."""

    expression: Expression
    descending: bool | None = None


@dataclass(frozen=True, slots=True)
class Limit:
    """`limit n offset m`; each a number or a parameter."""

    count: NumberLiteral | Variable
    offset: NumberLiteral | Variable | None = None


@dataclass(frozen=True, slots=True)
class ReadBody:
    """`match`, `return`, `order` and `limit`. `order` None means that none is written."""

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
    """The statements of a mutation, in order; at least one."""

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
    """A whole text: its queries in order, and the text itself so that problems can show their line."""

    queries: tuple[Query, ...] = ()
    source: str = field(default="<query>", compare=False)
    text: str = field(default="", compare=False, repr=False)


def variables_of(query: Query) -> dict[str, list[Variable]]:
    """Every mention of each variable or parameter in the body, by name, in the order of the text."""
    mentions: dict[str, list[Variable]] = {}
    for variable in _body_variables(query):
        mentions.setdefault(variable.name, []).append(variable)
    return mentions


def expressions_of(expression: Expression) -> Iterator[Expression]:
    """The expression and all inside it."""
    yield expression
    for part in _parts(expression):
        yield from expressions_of(part)


def clause_variables(clause: Clause) -> Iterator[Variable]:
    """The variables that a clause and all inside it mention."""
    match clause:
        case Binding(variable, properties=properties):
            yield variable
            for assignment in properties:
                yield from _expression_variables(assignment.value)
        case Traversal(source, _, target, binding=binding):
            yield source
            if binding:
                yield binding
            yield target
        case Filter(condition):
            yield from _expression_variables(condition)
        case NotBlock(clauses) | OptionalBlock(clauses):
            for inner in clauses:
                yield from clause_variables(inner)


def statement_expressions(statement: Statement) -> Iterator[Expression]:
    """The values and the predicate of a statement."""
    match statement:
        case Insert(_, assignments):
            yield from (assignment.value for assignment in assignments)
        case Update(_, assignments, where):
            yield from (assignment.value for assignment in assignments)
            yield where
        case Delete(_, where):
            yield where


def _body_variables(query: Query) -> Iterator[Variable]:
    body = query.body
    if not isinstance(body, ReadBody):
        for statement in body.statements:
            for expression in statement_expressions(statement):
                yield from _expression_variables(expression)
        return
    for clause in body.clauses:
        yield from clause_variables(clause)
    shown = [projection.expression for projection in body.projections]
    for expression in (*shown, *(ordering.expression for ordering in body.order or ())):
        yield from _expression_variables(expression)
    if body.limit:
        yield from (bound for bound in (body.limit.count, body.limit.offset) if isinstance(bound, Variable))


def _expression_variables(expression: Expression) -> Iterator[Variable]:
    for part in expressions_of(expression):
        if isinstance(part, Variable):
            yield part
        elif isinstance(part, Access):
            yield part.variable


def _parts(expression: Expression) -> tuple[Expression, ...]:
    match expression:
        case ListLiteral(items):
            return items
        case Call(_, arguments, named):
            return (*arguments, *(argument.value for argument in named))
        case Negative(operand) | Inversion(operand) | NullTest(operand):
            return (operand,)
        case Arithmetic(_, left, right) | Comparison(_, left, right):
            return (left, right)
        case Joined(_, operands):
            return operands
        case _:
            return ()
