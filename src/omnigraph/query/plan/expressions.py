"""The typed expressions of a plan, and the fields of its rows.

Frozen nodes, each with `type` and `nullable`. Logic is three-valued, as in SQL: a comparison with null is null, `not`
null is null, and a filter keeps the rows whose condition is true. An executor needs one function for each node; a plan
with bound parameters has no `Param` and no `Now`. A node that is inconsistent raises an `InvariantError`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import date, datetime
from decimal import Decimal
from enum import Enum
from typing import Any, Final, Generic, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from omnigraph.base.errors import InvariantError
from omnigraph.query.plan import types
from omnigraph.query.plan.functions import DURATIONS
from omnigraph.query.syntax import ComparisonOperator, Sign
from omnigraph.schema.property_types import PLAIN_TEXT, ListType, Scalar, ScalarType, TextOptions

LiteralValue = None | str | bool | int | float | Decimal | date | datetime | bytes | tuple["LiteralValue", ...]


class TextMode(Enum):
    """The kind of a text search: any word, every word in order, or words with typing errors."""

    SEARCH = "search"
    MATCH_TEXT = "match_text"
    FUZZY = "fuzzy"


class Function(Enum):
    """An aggregate."""

    COUNT = "count"
    SUM = "sum"
    AVG = "avg"
    MIN = "min"
    MAX = "max"
    COLLECT = "collect"


def require(condition: bool, message: str) -> None:
    """Raise `InvariantError` if a node is inconsistent, which is a bug in Omnigraph and not an error of the query."""
    if not condition:
        raise InvariantError(message, code="plan_invariant")


class Node(Struct, frozen=True):
    """The base class of expressions. By default one is null if an expression inside it is null."""

    def part_fields(self) -> Iterator[tuple[str, Any]]:
        """Yield the name and value of every field that has an expression or a tuple of expressions."""
        for name in self.__struct_fields__:
            value = getattr(self, name)
            if isinstance(value, Node) or (isinstance(value, tuple) and value and isinstance(value[0], Node)):
                yield name, value

    @property
    def parts(self) -> tuple[Expr, ...]:
        """The expressions directly inside this one."""
        parts: list[Expr] = []
        for _, value in self.part_fields():
            parts.extend(value if isinstance(value, tuple) else (value,))
        return tuple(parts)

    @property
    def nullable(self) -> bool:
        return any(part.nullable for part in self.parts)


class _Condition(Node, frozen=True):
    """The base class of conditions, which have type Bool."""

    @property
    def type(self) -> types.ValueType:
        return types.BOOL


class _Score(Node, frozen=True):
    """The base class of scores, which have type F64 and are null for rows that are not found."""

    @property
    def type(self) -> types.ValueType:
        return types.F64

    @property
    def nullable(self) -> bool:
        return True


class Literal(Node, frozen=True):
    """A value. A `Decimal` is an exact number, which the type of a column converts."""

    value: LiteralValue
    type: types.ValueType

    @property
    def nullable(self) -> bool:
        return self.value is None


class Param(Node, frozen=True):
    """A parameter of the query."""

    name: str
    type: types.ValueType
    nullable: bool = False


class Now(Node, frozen=True):
    """The time at which the query runs, in milliseconds; the same everywhere in the query."""

    @property
    def type(self) -> types.ValueType:
        return types.DATETIME


class ColumnRef(Node, frozen=True):
    """A column of a bound entity: the column `entity.column` of the rows."""

    entity: str
    column: str
    type: types.ValueType
    nullable: bool = False
    text: TextOptions = PLAIN_TEXT
    """The options of full-text search."""

    @classmethod
    def of(cls, entity: str, column: types.Column, *, is_optional: bool = False) -> ColumnRef:
        """Return the column of an entity; `is_optional` if the entity can be null."""
        return cls(entity, column.name, column.type, column.nullable or is_optional, column.text)

    @property
    def name(self) -> str:
        return f"{self.entity}.{self.column}"


class EntityRef(Node, frozen=True):
    """An entity, returned as an object; reads every column of `table.entity_columns`."""

    entity: str
    table: types.Table
    nullable: bool = False

    @property
    def type(self) -> types.ValueType:
        return types.EntityValueType(self.table.kind, self.table.name)

    @property
    def id(self) -> ColumnRef:
        """The column that identifies the entity in comparisons, counts and groups."""
        return ColumnRef(self.entity, "id", self.table.columns[0].type, self.nullable)


class OutputRef(Node, frozen=True):
    """A column that a step below computes: a score, a group key or an aggregate."""

    name: str
    type: types.ValueType
    nullable: bool = False


class Negation(Node, frozen=True):
    """`-a`: an exact I64, or an F64."""

    operand: Expr

    @property
    def type(self) -> types.ValueType:
        return types.F64 if types.is_float(self.operand.type) else types.I64


class BinaryOperation(Node, frozen=True):
    """Arithmetic. Integers give an exact I64 (overflow is an error); `/` and floats give an F64; `a / 0` is null."""

    sign: Sign
    left: Expr
    right: Expr

    @property
    def type(self) -> types.ValueType:
        floats = types.is_float(self.left.type) or types.is_float(self.right.type)
        return types.F64 if floats or self.sign is Sign.DIV else types.I64

    @property
    def nullable(self) -> bool:
        return self.sign is Sign.DIV or self.left.nullable or self.right.nullable


class FunctionCall(Node, frozen=True):
    """A function of `plan.functions`; null if an argument is null."""

    name: str
    arguments: tuple[Expr, ...]
    type: types.ValueType


class Convert(Node, frozen=True):
    """The value as another type: an integer as I64 (overflow is an error), a number as F64, a date as its midnight, a
    datetime as its day in UTC, an enum as a String."""

    operand: Expr
    type: types.ValueType


class Coalesce(Node, frozen=True):
    """The first operand that is not null; the others are not evaluated. All have the type of the first."""

    operands: tuple[Expr, ...]

    @property
    def type(self) -> types.ValueType:
        return self.operands[0].type

    @property
    def nullable(self) -> bool:
        return all(operand.nullable for operand in self.operands)


class Conditional(Node, frozen=True):
    """The value of the first condition that is true, or `otherwise`; no other value is evaluated."""

    conditions: tuple[Expr, ...]
    values: tuple[Expr, ...]
    otherwise: Expr

    def __post_init__(self) -> None:
        require(len(self.conditions) == len(self.values) > 0, "a `case` has another number of conditions than values")

    @property
    def type(self) -> types.ValueType:
        return self.otherwise.type

    @property
    def nullable(self) -> bool:
        return any(value.nullable for value in (*self.values, self.otherwise))


class ShiftTime(Node, frozen=True):
    """A date or datetime plus a number of units, or minus it; a date plus a part of a day is a datetime.

    A month that does not have the day ends with its last day. A result outside the years 1 to 9999 is an error.
    """

    operand: Expr
    sign: Sign
    amount: Expr
    unit: str

    @property
    def type(self) -> types.ValueType:
        return types.DATETIME if DURATIONS[self.unit].is_part_of_day else self.operand.type


class TimeDifference(Node, frozen=True):
    """`left - right`: the days between two dates as I64, otherwise the seconds between two datetimes as F64."""

    left: Expr
    right: Expr

    @property
    def type(self) -> types.ValueType:
        return types.I64 if self.left.type == self.right.type == types.DATE else types.F64


class Compare(_Condition, frozen=True):
    """`= != < <= > >=` within one type family. Integers compare exactly, a date compares as its midnight."""

    operator: ComparisonOperator
    left: Expr
    right: Expr

    def __post_init__(self) -> None:
        require(not self.operator.value.isidentifier(), f"`{self.operator.value}` is not a comparison of values")


class ListOf(Node, frozen=True):
    """A list or vector of computed items; only mutations have it."""

    items: tuple[Expr, ...]
    type: types.ValueType

    @property
    def nullable(self) -> bool:
        return False


class InList(_Condition, frozen=True):
    """Whether a value equals one of the items: `=` joined with `or`, but null for a null value, even without items."""

    operand: Expr
    items: tuple[Expr, ...]


class ListMembership(_Condition, frozen=True):
    """Whether an item is in the list of a column or a parameter."""

    item: Expr
    collection: Expr


class Substring(_Condition, frozen=True):
    """Whether a string contains another one."""

    text: Expr
    part: Expr


class Prefix(_Condition, frozen=True):
    """Whether a string starts with another one."""

    text: Expr
    part: Expr


class Like(_Condition, frozen=True):
    """Whether a whole string matches a pattern: `%` any characters, `_` one, `\\` makes the next one literal."""

    text: Expr
    pattern: Expr


class IsNull(_Condition, frozen=True):
    """Whether a value is null, or with `negated` not null; never null itself."""

    operand: Expr
    negated: bool = False

    @property
    def nullable(self) -> bool:
        return False


class _Junction(_Condition, frozen=True):
    operands: tuple[Expr, ...]

    def __post_init__(self) -> None:
        require(len(self.operands) > 1, f"{type(self).__name__} needs at least two operands")


class And(_Junction, frozen=True):
    """True if all operands are true."""


class Or(_Junction, frozen=True):
    """True if one operand is true."""


class Not(_Condition, frozen=True):
    """True if the operand is false; null if it is null."""

    operand: Expr


class ConstantUnlessNull(_Condition, frozen=True):
    """The result of a comparison that is the same for every value of the operand: `value`, or null if it is null."""

    value: bool
    operand: Expr


class TextMatch(_Condition, frozen=True):
    """A full-text predicate on a String column."""

    mode: TextMode
    column: ColumnRef
    query: Expr
    edits: int = 0


class Nearest(_Score, frozen=True):
    """Cosine distance to a vector, or with `embed` to a string that a provider of `model` embeds.

    `exact` of a score: no index is used.
    """

    column: ColumnRef
    query: Expr
    embed: bool = False
    model: str | None = None
    exact: bool = False

    @property
    def nullable(self) -> bool:
        return self.column.nullable


class Bm25(_Score, frozen=True):
    """BM25 score of a text for a search text; null if no word matches."""

    column: ColumnRef
    query: Expr
    exact: bool = False


class Rrf(_Score, frozen=True):
    """Reciprocal rank fusion: the sum of 1 / (k + rank) over the two rankings; null if neither ranks the row."""

    first: Nearest | Bm25
    second: Nearest | Bm25
    k: int


class AggregateCall(Node, frozen=True):
    """An aggregate over the rows of a group. Nulls are skipped; an entity is counted by its id.

    `collect` is the list of the values in ascending order, of entities by id, and empty without values.
    """

    function: Function
    argument: Expr
    distinct: bool = False

    @property
    def type(self) -> types.ValueType:
        match self.function:
            case Function.COUNT:
                return types.I64
            case Function.SUM:
                return types.F64 if types.is_float(self.argument.type) else types.I64
            case Function.AVG:
                return types.F64
            case Function.MIN | Function.MAX:
                return self.argument.type
            case Function.COLLECT:
                if isinstance(self.argument, EntityRef):
                    return types.EntityListType(self.argument.table)
                argument_type = self.argument.type
                return ListType(argument_type.scalar if isinstance(argument_type, ScalarType) else Scalar.STRING)

    @property
    def nullable(self) -> bool:
        return self.function not in {Function.COUNT, Function.COLLECT}


Score = Nearest | Bm25 | Rrf
Condition = (
    Compare
    | InList
    | ListMembership
    | Substring
    | Prefix
    | Like
    | IsNull
    | And
    | Or
    | Not
    | ConstantUnlessNull
    | TextMatch
)
Leaf = Literal | Param | Now | ColumnRef | EntityRef | OutputRef
Computation = Negation | BinaryOperation | FunctionCall | Convert | Coalesce | Conditional | ShiftTime | TimeDifference
Expr = Leaf | Computation | ListOf | Condition | Score | AggregateCall

EVERY_ROW: Final = Literal(True, types.BOOL)
"""The argument of `count(*)`."""
TRUE: Final = Literal(True, types.BOOL)
FALSE: Final = Literal(False, types.BOOL)


class Field(Struct, frozen=True):
    """A column of the rows. The columns of an entity have names like `entity.column`."""

    name: str
    type: types.ValueType
    nullable: bool = False


_E_co = TypeVar("_E_co", bound=Expr, covariant=True)


class NamedExpression(Struct, Generic[_E_co], frozen=True):
    """An expression, and the name of its output column."""

    name: str
    expression: _E_co

    @property
    def field(self) -> Field:
        return Field(self.name, self.expression.type, self.expression.nullable)


Fields = tuple[Field, ...]


def entity_fields(entity: types.Entity, columns: Iterable[str]) -> Fields:
    """Return the fields of columns of an entity."""
    fields = []
    for name in columns:
        column = entity.table.column(name)
        require(column is not None, f"{entity.table.alias} has no column {name}")
        assert column is not None
        fields.append(Field(f"{entity.name}.{column.name}", column.type, column.nullable))
    return tuple(fields)


def join_fields(*groups: Fields) -> Fields:
    """Return the fields of all groups, and require unique names."""
    fields = tuple(field for group in groups for field in group)
    require(len({field.name for field in fields}) == len(fields), f"duplicate column in {names(fields)}")
    return fields


def make_nullable(fields: Fields) -> Fields:
    """Return the same fields as nullable."""
    return tuple(replace(field, nullable=True) for field in fields)


def names(fields: Fields) -> tuple[str, ...]:
    """Return the names of the fields."""
    return tuple(field.name for field in fields)
