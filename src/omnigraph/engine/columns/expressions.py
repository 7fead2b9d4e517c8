"""Evaluates typed expressions over the columns of a frame.

Comes in: an expression whose parameters are bound, and a frame. Goes out: an Arrow array of its type, or a scalar where
every row has the same value. Logic is three-valued. Scores and aggregates are made by steps of their own and read here
as columns.
"""

from __future__ import annotations

from decimal import Decimal
from functools import cache
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.arrow.columns import bool_array, mask_of
from omnigraph.base import limits
from omnigraph.base.errors import InvariantError
from omnigraph.engine.columns.compute import Value, broadcast, calculate, compare, negate
from omnigraph.engine.columns.dictionary import Array, Mask, Scalar, ValueDictionary, without_negative_zero
from omnigraph.engine.columns.frame import Column, DictionaryColumn, Frame
from omnigraph.query.plan import expressions as ex
from omnigraph.query.plan.types import EntityValueType, NullType, Table, ValueType
from omnigraph.query.syntax import ComparisonOperator
from omnigraph.schema.catalog import TypeKind
from omnigraph.schema.property_types import Scalar as PropertyScalar
from omnigraph.schema.property_types import ScalarType
from omnigraph.schema.tables import arrow_type

_SYSTEM_NAMES: Final = {"id": "@id", "src": "@from", "dst": "@to"}


@cache
def value_arrow_type(value_type: ValueType) -> pa.DataType:
    """The Arrow type of a value; an entity alone is its id."""
    if isinstance(value_type, EntityValueType):
        return pa.utf8()
    if isinstance(value_type, NullType):
        return pa.null()
    return arrow_type(value_type)


@cache
def entity_arrow_type(table: Table) -> pa.DataType:
    """The struct in which a whole entity is shown."""
    return pa.struct([pa.field(shown, kind) for _, shown, kind in entity_members(table)])


@cache
def entity_members(table: Table) -> tuple[tuple[str, str, pa.DataType], ...]:
    """For each shown column: its name in the table, its name in the object, its type."""
    system = {"id"} if table.kind is TypeKind.NODE else {"id", "src", "dst"}
    found = []
    for name in table.entity_columns:
        column = table.column(name)
        assert column is not None
        shown = _SYSTEM_NAMES[name] if name in system else name
        found.append((name, shown, arrow_type(column.type)))
    return tuple(found)


def literal_scalar(literal: ex.Literal) -> Scalar:
    """A literal as an Arrow scalar of its type."""
    wanted = value_arrow_type(literal.type)
    value: Any = literal.value
    if pa.types.is_floating(wanted) and isinstance(value, int | Decimal):
        value = float(value)
    elif isinstance(value, tuple):
        value = list(value)
    return pa.scalar(value, type=wanted)


def evaluate(expr: ex.Expr, frame: Frame) -> Array:
    """The values of an expression, one per row of the frame (weights aside)."""
    value = broadcast(_value(expr, frame), frame.length)
    wanted = value_arrow_type(expr.type)
    if value.type != wanted and not pa.types.is_struct(value.type):
        value = value.cast(wanted)
    return value


def evaluate_entity(expr: ex.EntityRef, frame: Frame) -> Array:
    """A whole entity as a struct; null where the entity is absent."""
    arrays = []
    for name, _, kind in entity_members(expr.table):
        array = frame.array(f"{expr.entity}.{name}")
        arrays.append(array if array.type == kind else array.cast(kind))
    missing: Any = arrays[0].is_null()
    shape: Any = entity_arrow_type(expr.table)
    found: Array = pa.StructArray.from_arrays(
        arrays, fields=list(shape), mask=missing if expr.nullable else None
    )
    return found


def condition_mask(conditions: tuple[ex.Expr, ...], frame: Frame) -> Mask:
    """Where every condition is true; null is not true."""
    kept = np.ones(frame.length, dtype=np.bool_)
    for condition in conditions:
        value = _value(condition, frame)
        if isinstance(value, pa.Scalar):
            if value.as_py() is not True:
                return np.zeros(frame.length, dtype=np.bool_)
            continue
        answered: Any = value.fill_null(False) if value.null_count else value
        kept &= mask_of(answered)
    return kept


def _value(expr: ex.Expr, frame: Frame) -> Value:
    match expr:
        case ex.Literal():
            return literal_scalar(expr)
        case ex.ColumnRef() | ex.OutputRef():
            return frame.array(expr.name)
        case ex.EntityRef():
            return frame.array(expr.id.name)
        case ex.Negated(operand):
            return negate(_value(operand, frame), value_arrow_type(expr.type))
        case ex.Computed(sign, left, right):
            return calculate(sign, _value(left, frame), _value(right, frame), value_arrow_type(expr.type))
        case ex.And(operands) | ex.Or(operands):
            join: Any = pc.and_kleene if isinstance(expr, ex.And) else pc.or_kleene
            found = _value(operands[0], frame)
            for operand in operands[1:]:
                found = join(found, _value(operand, frame))
            return found
        case ex.Not(operand):
            return pc.invert(_value(operand, frame))  # type: ignore[no-any-return]
        case ex.IsNull(operand, is_not):
            return _test_null(operand, is_not, frame)
        case ex.Known(answer, operand):
            present: Any = _test_null(operand, True, frame)
            nothing = pa.scalar(None, pa.bool_())
            return pc.if_else(present, pa.scalar(answer), nothing)  # type: ignore[no-any-return]
        case _:
            return _condition(expr, frame)


def _condition(expr: ex.Expr, frame: Frame) -> Value:
    match expr:
        case ex.Compare(operator, left, right):
            same = _compare_codes(operator, left, right, frame)
            if same is not None:
                return same
            return compare(operator, _value(left, frame), _value(right, frame))
        case ex.InList(operand, items):
            return _in_list(_value(operand, frame), [_value(item, frame) for item in items])
        case ex.ListMembership(item, collection):
            return _test_membership(_value(item, frame), _value(collection, frame), frame.length)
        case ex.Substring(text, part):
            return _test_text(_value(text, frame), _value(part, frame), frame.length, is_prefix=False)
        case ex.Prefix(text, part):
            return _test_text(_value(text, frame), _value(part, frame), frame.length, is_prefix=True)
        case ex.TextMatch(mode, column, query, edits):
            return _text_match(frame.columns[column.name], mode, _value(query, frame), edits)
        case _:
            raise InvariantError(f"{type(expr).__name__} is not evaluated row by row", code="plan_invariant")


def _text_match(column: Column, mode: ex.TextMode, query: Value, edits: int) -> Value:
    """A text predicate, by the words of the texts; null for a text that is not there."""
    assert isinstance(query, pa.Scalar), "the words that are looked for are the same for all rows"
    coded = (
        column
        if isinstance(column, DictionaryColumn)
        else DictionaryColumn(np.arange(len(column)), ValueDictionary(column, is_own=True))
    )
    words, size = str(query.as_py()), int(coded.dictionary.array.nbytes)
    if size <= limits.ENGINE_WORDS_BYTES_MAX or coded.dictionary.has_words:
        return _match_texts(coded, mode, words, edits)
    # The words of all these texts at once would take many times their bytes.
    step = max(1, limits.ENGINE_WORDS_BYTES_MAX * len(coded.dictionary) // size)
    parts: list[Array] = [pa.nulls(0, pa.bool_())]
    for start in range(0, len(coded.codes), step):
        texts = DictionaryColumn(coded.codes[start : start + step], coded.dictionary).array()
        few = DictionaryColumn(np.arange(len(texts)), ValueDictionary(texts, is_own=True))
        parts.append(_match_texts(few, mode, words, edits))
    return pa.concat_arrays(parts)


def _match_texts(coded: DictionaryColumn, mode: ex.TextMode, words: str, edits: int) -> Array:
    index = coded.dictionary.text_index()
    found = index.matching_mask(mode, words, edits)
    codes = coded.codes
    if not index.has_missing and len(codes) and codes.min() >= 0:
        return bool_array(found[codes])
    missing = np.append(index.missing, True)
    answer: Array = pa.array(np.append(found, False)[codes], mask=missing[codes])
    return answer


def _test_null(operand: ex.Expr, is_not: bool, frame: Frame) -> Value:
    if isinstance(operand, ex.ColumnRef) and operand.type == ScalarType(PropertyScalar.BLOB):
        value: Any = frame.array(operand.name)
    else:
        value = _value(operand, frame)
    if isinstance(value, pa.Scalar):
        return pa.scalar(value.is_valid is is_not)
    answer: Value = value.is_valid() if is_not else value.is_null()
    return answer


def _compare_codes(operator: ComparisonOperator, left: ex.Expr, right: ex.Expr, frame: Frame) -> Value | None:
    """Two ids of one domain are equal where their positions are; no text is made for that."""
    if operator not in {ComparisonOperator.EQ, ComparisonOperator.NE}:
        return None
    columns = []
    for side in (left, right):
        if not isinstance(side, ex.ColumnRef | ex.EntityRef):
            return None
        columns.append(frame.columns[side.id.name if isinstance(side, ex.EntityRef) else side.name])
    one, other = columns
    if not isinstance(one, DictionaryColumn) or not isinstance(other, DictionaryColumn):
        return None
    if one.dictionary is not other.dictionary or not one.dictionary.is_unique:
        return None
    answer = one.codes == other.codes if operator is ComparisonOperator.EQ else one.codes != other.codes
    return pa.array(answer, mask=(one.codes < 0) | (other.codes < 0))  # type: ignore[no-any-return]


def _in_list(operand: Value, items: list[Value]) -> Value:
    # `is_in` would say false, not null, beside a null item.
    scalars = [
        item for item in items if isinstance(item, pa.Scalar) and item.type == operand.type and item.is_valid
    ]
    if isinstance(operand, pa.Array) and len(scalars) == len(items) and items:
        choices: Array = pa.array([item.as_py() for item in scalars], type=operand.type)
        found: Value = pc.is_in(without_negative_zero(operand), value_set=without_negative_zero(choices))
        if operand.null_count:
            found = pc.if_else(operand.is_valid(), found, pa.scalar(None, pa.bool_()))
        return found
    answer: Value = pc.if_else(pc.is_valid(operand), pa.scalar(False), pa.scalar(None, pa.bool_()))
    for item in items:
        answer = pc.or_kleene(answer, compare(ComparisonOperator.EQ, operand, item))
    return answer


def _test_membership(item: Value, collection: Value, length: int) -> Value:
    """Whether the item of each row is in the list of the row."""
    lists: Any = broadcast(collection, length)
    parents: Any = pc.list_parent_indices(lists)
    members: Any = pc.list_flatten(lists)
    asked = item if isinstance(item, pa.Scalar) else item.take(parents)
    equal: Any = compare(ComparisonOperator.EQ, members, asked)
    hits = parents.filter(equal.fill_null(False) if isinstance(equal, pa.Array) else equal)
    found = np.zeros(length, dtype=np.bool_)
    found[hits.to_numpy(zero_copy_only=False)] = True
    missing: Any = lists.is_null()
    if isinstance(item, pa.Scalar):
        missing = pc.or_(missing, pa.scalar(not item.is_valid))
    else:
        missing = pc.or_(missing, item.is_null())
    return pa.array(found, mask=missing.to_numpy(zero_copy_only=False))


def _test_text(text: Value, part: Value, length: int, *, is_prefix: bool) -> Value:
    if isinstance(part, pa.Scalar) and isinstance(text, pa.Array):
        if not part.is_valid:
            return pa.nulls(length, pa.bool_())
        kernel: Any = pc.starts_with if is_prefix else pc.match_substring
        answer: Value = kernel(text, part.as_py())
        return answer
    texts: Any = broadcast(text, length)
    parts: Any = broadcast(part, length)
    missing: Any = pc.or_(texts.is_null(), parts.is_null())
    kind = np.dtypes.StringDType()
    whole = texts.fill_null("").to_numpy(zero_copy_only=False).astype(kind)
    piece = parts.fill_null("").to_numpy(zero_copy_only=False).astype(kind)
    hits = np.strings.startswith(whole, piece) if is_prefix else np.strings.find(whole, piece) >= 0
    return pa.array(hits, mask=missing.to_numpy(zero_copy_only=False))
