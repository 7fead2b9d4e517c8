"""Evaluates typed expressions over the columns of a frame.

In: an expression whose parameters are bound, and a frame. Out: an Arrow array of the type of the expression, one value
per row. Logic is three-valued. Scores and aggregates are computed by their own operators and are read here as columns.
"""

from __future__ import annotations

from decimal import Decimal
from functools import cache
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.arrow.columns import bool_array, bool_mask
from omnigraph.base import limits
from omnigraph.base.errors import InvariantError
from omnigraph.engine.columns import compute
from omnigraph.engine.columns.dictionary import Array, Mask, Scalar, without_negative_zero
from omnigraph.engine.columns.frame import Column, DictionaryColumn, Frame
from omnigraph.query.plan import expressions as ex
from omnigraph.query.plan.functions import DURATIONS, FUNCTIONS
from omnigraph.query.plan.like import canonical_pattern
from omnigraph.query.plan.types import EntityListType, EntityValueType, NullType, Table, ValueType
from omnigraph.query.syntax import ComparisonOperator
from omnigraph.schema.catalog import TypeKind
from omnigraph.schema.tables import arrow_type

_SYSTEM_NAMES: Final = {"id": "@id", "src": "@from", "dst": "@to"}


@cache
def value_arrow_type(value_type: ValueType) -> pa.DataType:
    """Return the Arrow type of a value; for an entity, the type of its id."""
    if isinstance(value_type, EntityValueType):
        return pa.utf8()
    if isinstance(value_type, EntityListType):
        return pa.list_(entity_arrow_type(value_type.table))
    if isinstance(value_type, NullType):
        return pa.null()
    return arrow_type(value_type)


@cache
def entity_arrow_type(table: Table) -> pa.DataType:
    """Return the struct type of an entity in a result."""
    return pa.struct([pa.field(shown, kind) for _, shown, kind in entity_members(table)])


@cache
def entity_members(table: Table) -> tuple[tuple[str, str, pa.DataType], ...]:
    """Return the name in the table, the name in the struct and the type of each column of an entity."""
    system = {"id"} if table.kind is TypeKind.NODE else {"id", "src", "dst"}
    members = []
    for name in table.entity_columns:
        column = table.column(name)
        assert column is not None
        shown = _SYSTEM_NAMES[name] if name in system else name
        members.append((name, shown, arrow_type(column.type)))
    return tuple(members)


def literal_scalar(literal: ex.Literal) -> Scalar:
    """Return a literal as an Arrow scalar of its type."""
    kind = value_arrow_type(literal.type)
    value: Any = literal.value
    if pa.types.is_floating(kind) and isinstance(value, int | Decimal):
        value = float(value)
    elif isinstance(value, tuple):
        value = list(value)
    return pa.scalar(value, type=kind)


def evaluate(expr: ex.Expr, frame: Frame) -> Array:
    """Return the values of an expression, one per row of the frame; weights are ignored."""
    values = compute.broadcast(_value(expr, frame), frame.length)
    kind = value_arrow_type(expr.type)
    if values.type != kind and not pa.types.is_struct(values.type):
        values = values.cast(kind)
    return values


def evaluate_entity(expr: ex.EntityRef, frame: Frame) -> Array:
    """Return an entity as a struct; null where the entity is null."""
    arrays = [frame.array(f"{expr.entity}.{name}").cast(kind) for name, _, kind in entity_members(expr.table)]
    missing: Any = arrays[0].is_null()
    struct_type: Any = entity_arrow_type(expr.table)
    structs: Array = pa.StructArray.from_arrays(
        arrays, fields=list(struct_type), mask=missing if expr.nullable else None
    )
    return structs


def condition_mask(conditions: tuple[ex.Expr, ...], frame: Frame) -> Mask:
    """Return a mask of the rows for which all conditions are true; null counts as false."""
    mask = np.ones(frame.length, dtype=np.bool_)
    for condition in conditions:
        value = _value(condition, frame)
        if isinstance(value, pa.Scalar):
            if value.as_py() is not True:
                return np.zeros(frame.length, dtype=np.bool_)
            continue
        without_nulls: Any = value.fill_null(False) if value.null_count else value
        mask &= bool_mask(without_nulls)
    return mask


def _value(expr: ex.Expr, frame: Frame) -> compute.Value:  # noqa: PLR0912 - one case per node
    match expr:
        case ex.Literal():
            return literal_scalar(expr)
        case ex.ColumnRef() | ex.OutputRef():
            return frame.array(expr.name)
        case ex.EntityRef():
            return frame.array(expr.id.name)
        case ex.Negation(operand):
            return compute.negate(_value(operand, frame), value_arrow_type(expr.type))
        case ex.BinaryOperation(sign, left, right):
            return compute.calculate(sign, _value(left, frame), _value(right, frame), value_arrow_type(expr.type))
        case ex.FunctionCall(name, arguments):
            return _call_function(name, [_value(argument, frame) for argument in arguments])
        case ex.Convert(operand):
            return compute.convert(_value(operand, frame), value_arrow_type(expr.type))
        case ex.ShiftTime(operand, sign, amount, unit):
            times, amounts = _value(operand, frame), _value(amount, frame)
            return compute.shift_time(times, sign, amounts, DURATIONS[unit], value_arrow_type(expr.type))
        case ex.TimeDifference(left, right):
            return compute.time_difference(_value(left, frame), _value(right, frame), value_arrow_type(expr.type))
        case ex.Coalesce(operands):
            tests = tuple(ex.IsNull(operand, negated=True) for operand in operands[:-1])
            return _first_true(tests, operands, frame)
        case ex.Conditional(conditions, values, otherwise):
            return _first_true(conditions, (*values, otherwise), frame)
        case ex.And(operands) | ex.Or(operands):
            join: Any = pc.and_kleene if isinstance(expr, ex.And) else pc.or_kleene
            value = _value(operands[0], frame)
            for operand in operands[1:]:
                value = join(value, _value(operand, frame))
            return value
        case ex.Not(operand):
            return pc.invert(_value(operand, frame))  # type: ignore[no-any-return]
        case ex.IsNull(operand, is_not):
            return _test_null(operand, is_not, frame)
        case ex.ConstantUnlessNull(answer, operand):
            present: Any = _test_null(operand, True, frame)
            null = pa.scalar(None, pa.bool_())
            return pc.if_else(present, pa.scalar(answer), null)  # type: ignore[no-any-return]
        case _:
            return _condition(expr, frame)


def _condition(expr: ex.Expr, frame: Frame) -> compute.Value:
    match expr:
        case ex.Compare(operator, left, right):
            result = _compare_codes(operator, left, right, frame)
            if result is not None:
                return result
            return compute.compare(operator, _value(left, frame), _value(right, frame))
        case ex.InList(operand, items):
            return _in_list(_value(operand, frame), [_value(item, frame) for item in items])
        case ex.ListMembership(item, collection):
            return _test_membership(_value(item, frame), _value(collection, frame), frame.length)
        case ex.Substring(text, part):
            return _test_text(_value(text, frame), _value(part, frame), frame.length, is_prefix=False)
        case ex.Prefix(text, part):
            return _test_text(_value(text, frame), _value(part, frame), frame.length, is_prefix=True)
        case ex.Like(text, pattern):
            return _match_pattern(_value(text, frame), _value(pattern, frame))
        case ex.TextMatch(column=column, query=query):
            return _text_match(frame.columns[column.name], expr, _value(query, frame))
        case _:
            raise InvariantError(f"cannot evaluate {type(expr).__name__} row by row", code="plan_invariant")


def _call_function(name: str, arguments: list[compute.Value]) -> compute.Value:
    """Call the kernel of a function; a kernel needs an array, so constants are one row."""
    kernel = FUNCTIONS[name].arrow
    if not all(isinstance(argument, pa.Scalar) for argument in arguments):
        return kernel(*arguments)  # type: ignore[no-any-return]
    return kernel(*(compute.broadcast(argument, 1) for argument in arguments))[0]  # type: ignore[no-any-return]


def _first_true(conditions: tuple[ex.Expr, ...], values: tuple[ex.Expr, ...], frame: Frame) -> compute.Value:
    """Return for each row the value of its first true condition, or the last value.

    Each value is evaluated only for its own rows, so that it raises no error for others.
    """
    remaining = np.arange(frame.length)
    parts: list[Array] = []
    rows = []
    for condition, value in zip((*conditions, ex.TRUE), values, strict=True):
        part = frame if len(remaining) == frame.length else frame.take(remaining)
        is_true = condition_mask((condition,), part)
        chosen = remaining[is_true]
        parts.append(evaluate(value, frame if len(chosen) == frame.length else frame.take(chosen)))
        rows.append(chosen)
        remaining = remaining[~is_true]
    joined: Any = pa.concat_arrays(parts)
    result: compute.Value = joined.take(pa.array(np.argsort(np.concatenate(rows))))
    return result


def _match_pattern(text: compute.Value, pattern: compute.Value) -> compute.Value:
    assert isinstance(pattern, pa.Scalar), "a pattern is the same for all rows"
    canonical = canonical_pattern(str(pattern.as_py()))
    if isinstance(text, pa.Scalar):
        return pc.match_like(compute.broadcast(text, 1), canonical)[0]  # type: ignore[no-any-return]
    return pc.match_like(text, canonical)  # type: ignore[no-any-return]


def _text_match(column: Column, predicate: ex.TextMatch, query: compute.Value) -> compute.Value:
    """Evaluate a full-text predicate on the words in each value; null where the value is null."""
    assert isinstance(query, pa.Scalar), "a text predicate has one query for all rows"
    coded = DictionaryColumn.of(column)
    words, size = str(query.as_py()), int(coded.dictionary.array.nbytes)
    if size <= limits.ENGINE_WORDS_BYTES_MAX or coded.dictionary.has_words(predicate.column.text):
        return match_texts(coded, predicate, words)
    # An index of all values needs many times their size in memory, so they are indexed in chunks.
    step = max(1, limits.ENGINE_FRAME_BYTES * len(coded.dictionary) // size)
    parts: list[Array] = [pa.nulls(0, pa.bool_())]
    for start in range(0, len(coded.codes), step):
        texts = DictionaryColumn(coded.codes[start : start + step], coded.dictionary).array()
        parts.append(match_texts(DictionaryColumn.of(texts), predicate, words))
    return pa.concat_arrays(parts)


def match_texts(coded: DictionaryColumn, predicate: ex.TextMatch, words: str) -> Array:
    """Return whether each text matches a predicate; null where the text is null."""
    index = coded.dictionary.text_index(predicate.column.text)
    matches = index.matching_mask(predicate.mode, words, predicate.edits)
    codes = coded.codes
    if not index.has_missing and len(codes) and codes.min() >= 0:
        return bool_array(matches[codes])
    missing = np.append(index.missing, True)
    result: Array = pa.array(np.append(matches, False)[codes], mask=missing[codes])
    return result


def _test_null(operand: ex.Expr, is_not: bool, frame: Frame) -> compute.Value:
    value: Any = _value(operand, frame)
    if isinstance(value, pa.Scalar):
        return pa.scalar(value.is_valid is is_not)
    result: compute.Value = value.is_valid() if is_not else value.is_null()
    return result


def _compare_codes(operator: ComparisonOperator, left: ex.Expr, right: ex.Expr, frame: Frame) -> compute.Value | None:
    """Compare two ids of one dictionary by their codes, without decoding them; None if that is impossible."""
    if operator not in {ComparisonOperator.EQ, ComparisonOperator.NE}:
        return None
    columns = []
    for side in (left, right):
        if not isinstance(side, ex.ColumnRef | ex.EntityRef):
            return None
        columns.append(frame.columns[side.id.name if isinstance(side, ex.EntityRef) else side.name])
    first, second = columns
    if not isinstance(first, DictionaryColumn) or not isinstance(second, DictionaryColumn):
        return None
    if first.dictionary is not second.dictionary or not first.dictionary.is_unique:
        return None
    is_equal = first.codes == second.codes
    result = is_equal if operator is ComparisonOperator.EQ else ~is_equal
    return pa.array(result, mask=(first.codes < 0) | (second.codes < 0))  # type: ignore[no-any-return]


def _in_list(operand: compute.Value, items: list[compute.Value]) -> compute.Value:
    # `is_in` returns false, not null, if an item is null.
    scalars = [item for item in items if isinstance(item, pa.Scalar) and item.type == operand.type and item.is_valid]
    if isinstance(operand, pa.Array) and len(scalars) == len(items) and items:
        choices: Array = pa.array([item.as_py() for item in scalars], type=operand.type)
        is_listed: compute.Value = pc.is_in(without_negative_zero(operand), value_set=without_negative_zero(choices))
        if operand.null_count:
            is_listed = pc.if_else(operand.is_valid(), is_listed, pa.scalar(None, pa.bool_()))
        return is_listed
    result: compute.Value = pc.if_else(pc.is_valid(operand), pa.scalar(False), pa.scalar(None, pa.bool_()))
    for item in items:
        result = pc.or_kleene(result, compute.compare(ComparisonOperator.EQ, operand, item))
    return result


def _test_membership(item: compute.Value, collection: compute.Value, length: int) -> compute.Value:
    """Return whether the item of each row is in the list of the row."""
    lists: Any = compute.broadcast(collection, length)
    parents: Any = pc.list_parent_indices(lists)
    members: Any = pc.list_flatten(lists)
    items = item if isinstance(item, pa.Scalar) else item.take(parents)
    equal: Any = compute.compare(ComparisonOperator.EQ, members, items)
    hits = parents.filter(equal.fill_null(False) if isinstance(equal, pa.Array) else equal)
    is_member = np.zeros(length, dtype=np.bool_)
    is_member[hits.to_numpy(zero_copy_only=False)] = True
    missing: Any = pc.or_(lists.is_null(), pc.is_null(item))
    return pa.array(is_member, mask=missing.to_numpy(zero_copy_only=False))


def _test_text(text: compute.Value, part: compute.Value, length: int, *, is_prefix: bool) -> compute.Value:
    if isinstance(part, pa.Scalar) and isinstance(text, pa.Array):
        if not part.is_valid:
            return pa.nulls(length, pa.bool_())
        kernel: Any = pc.starts_with if is_prefix else pc.match_substring
        result: compute.Value = kernel(text, part.as_py())
        return result
    texts: Any = compute.broadcast(text, length)
    parts: Any = compute.broadcast(part, length)
    missing: Any = pc.or_(texts.is_null(), parts.is_null())
    kind = np.dtypes.StringDType()
    whole = texts.fill_null("").to_numpy(zero_copy_only=False).astype(kind)
    piece = parts.fill_null("").to_numpy(zero_copy_only=False).astype(kind)
    hits = np.strings.startswith(whole, piece) if is_prefix else np.strings.find(whole, piece) >= 0
    return pa.array(hits, mask=missing.to_numpy(zero_copy_only=False))
