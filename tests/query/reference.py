"""A reference evaluator: runs a plan, before or after any rule, over small tables of dictionaries.

It implements each step literally and slowly, so that the rules and the engine can be compared with it. Search is in
`reference_search`.
"""

from __future__ import annotations

from calendar import monthrange
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import date, datetime, timedelta
from functools import cmp_to_key
from typing import Any, Final

from omnigraph.base.errors import RunError
from omnigraph.query.plan import expressions as ex
from omnigraph.query.plan import operators as op
from omnigraph.query.plan.types import DATE, DATETIME, F64, I64, Entity, ValueType, is_opaque
from omnigraph.query.plan.walk import entities_of, steps_of
from omnigraph.query.syntax import ComparisonOperator, Sign
from omnigraph.query.values import midnight
from tests.query.reference_search import matches, scored

Row = dict[str, Any]
Tables = Mapping[str, Sequence[Mapping[str, Any]]]

I64_MIN: Final = -(2**63)
I64_MAX: Final = 2**63 - 1
_SIDES: Final = {
    op.Direction.OUT: (("src", "dst"),),
    op.Direction.IN: (("dst", "src"),),
    op.Direction.BOTH: (("src", "dst"), ("dst", "src")),
}


def run(relation: op.Relation, tables: Tables, outer: Sequence[Row] = ()) -> list[Row]:  # noqa: PLR0912 - one case per step
    """Return the rows of a relation; `outer` has the outer rows if it is the inner side of a join."""
    match relation:
        case op.Unit():
            return [{}]
        case op.OuterRow(columns):
            names = [column.name for column in columns]
            return _distinct([{name: row[name] for name in names} for row in outer])
        case op.Scan(entity, columns, scan_filter):
            read = (_prefixed(entity.name, row) for row in tables[entity.table.alias])
            passing = (row for row in read if _holds(scan_filter.conjuncts, row))
            return [{f"{entity.name}.{name}": row[f"{entity.name}.{name}"] for name in columns} for row in passing]
        case op.EdgeScan() | op.Pattern() | op.Expand() | op.ExpandInto() | op.EdgeExpand() | op.Lookup():
            return list(_read(relation, tables, outer))
        case op.FilterRows(below, conditions):
            return [row for row in run(below, tables, outer) if _holds(conditions, row)]
        case op.CrossJoin(left, right, on):
            pairs = (
                left_row | right_row for left_row in run(left, tables, outer) for right_row in run(right, tables, outer)
            )
            return [
                row
                for row in pairs
                if all(row[first] is not None and row[first] == row[second] for first, second in on)
            ]
        case op.ExistsJoin() | op.LeftJoin():
            return list(_join(relation, tables, outer))
        case op.Aggregate():
            return _aggregate(relation, run(relation.input, tables, outer))
        case op.Order():
            return _order(relation, run(relation.input, tables, outer))
        case op.Search(below, scores):
            rows = run(below, tables, outer)
            aliases = {entity.name: entity.table.alias for entity in _bound_entities(below)}

            def texts_of(column: ex.ColumnRef) -> list[str | None]:
                return [row[column.column] for row in tables[aliases[column.entity]]]

            made = {column.name: scored(column.expression, rows, value, texts_of) for column in scores}
            return [row | {name: made[name][index] for name in made} for index, row in enumerate(rows)]
        case op.LimitRows(below, count, offset):
            skip = 0 if offset is None else value(offset, {})
            return run(below, tables, outer)[skip : skip + value(count, {})]
        case op.Project(below, columns):
            return [
                {column.name: value(column.expression, row) for column in columns} for row in run(below, tables, outer)
            ]
        case _:
            raise NotImplementedError(type(relation).__name__)


def _read(  # noqa: PLR0912 - one case per step
    relation: op.EdgeScan | op.Pattern | op.Expand | op.ExpandInto | op.EdgeExpand | op.Lookup,
    tables: Tables,
    outer: Sequence[Row],
) -> Iterator[Row]:
    match relation:
        case op.EdgeScan(edge, source, target, columns, undirected, scan_filter):
            direction = op.Direction.BOTH if undirected else op.Direction.OUT
            for edge_row in tables[edge.table.alias]:
                row = _prefixed(edge.name, edge_row)
                if _holds(scan_filter.conjuncts, row):
                    columns_read = {f"{edge.name}.{name}": edge_row[name] for name in columns}
                    for near, far in _orientations(edge_row, direction):
                        yield columns_read | {source.id: near, target.id: far}
        case op.Pattern():
            yield from _pattern(relation, tables, outer)
        case op.Expand(below, _, source, target, direction, low, high):
            edges = [edge_row for table in relation.tables for edge_row in tables[table.alias]]
            for row in run(below, tables, outer):
                for node_id, distance in reachable(edges, row[source.id], direction, (low, high)).items():
                    yield row | {target.id: node_id} | _path_length(relation.path, distance)
        case op.ExpandInto(below, _, source, target, direction, low, high):
            edges = [edge_row for table in relation.tables for edge_row in tables[table.alias]]
            for row in run(below, tables, outer):
                distances = reachable(edges, row[source.id], direction, (low, high))
                if row[target.id] in distances:
                    yield row | _path_length(relation.path, distances[row[target.id]])
        case op.EdgeExpand(below, edge, source, target, direction, columns, scan_filter, into):
            for row in run(below, tables, outer):
                for edge_row in tables[edge.table.alias]:
                    own = _prefixed(edge.name, edge_row)
                    columns_read = {f"{edge.name}.{name}": edge_row[name] for name in columns}
                    for near, far in _orientations(edge_row, direction):
                        fits = near == row[source.id] and (not into or far == row[target.id])
                        if fits and _holds(scan_filter.conjuncts, own):
                            yield row | columns_read | {target.id: far}
        case op.Lookup(below, entity, columns, scan_filter, keep_missing):
            by_id = {node_row["id"]: node_row for node_row in tables[entity.table.alias]}
            for row in run(below, tables, outer):
                key = row[entity.id]
                if key is None and keep_missing:
                    yield row | {f"{entity.name}.{name}": None for name in columns}
                elif key is not None and _holds(scan_filter.conjuncts, _prefixed(entity.name, by_id[key])):
                    yield row | {f"{entity.name}.{name}": by_id[key][name] for name in columns}


def _pattern(pattern: op.Pattern, tables: Tables, outer: Sequence[Row]) -> list[Row]:
    rows: list[Row] = [{}] if pattern.input is None else run(pattern.input, tables, outer)
    for entity in pattern.entities:
        rows = [row | _prefixed(entity.name, entity_row) for row in rows for entity_row in tables[entity.table.alias]]
    for link in pattern.links:
        rows = [new for row in rows for new in _followed(link, row, tables)]
    return [row for row in rows if _holds(pattern.filters, row)]


def _followed(link: op.Link, row: Row, tables: Tables) -> Iterator[Row]:
    ends = (row[link.source.id], row[link.target.id])
    edges = [edge_row for table in link.tables for edge_row in tables[table.alias]]
    if link.edge is None:
        distances = reachable(edges, ends[0], link.direction, (link.low, link.high))
        if ends[1] in distances:
            yield row | _path_length(link.path, distances[ends[1]])
        return
    for edge_row in edges:
        if ends in _orientations(edge_row, link.direction):
            yield row | _prefixed(link.edge.name, edge_row)


def reachable(
    edges: Sequence[Mapping[str, Any]], start: Any, direction: op.Direction, bounds: tuple[int, int]
) -> dict[Any, int]:
    """Return the distances of nodes whose shortest one is within the bounds; the start only by a self-loop, at 1."""
    if start is None:
        return {}
    steps = [pair for edge in edges for pair in _orientations(edge, direction)]
    low, high = bounds
    reached = {start: 1} if (start, start) in steps and low == 1 else {}
    seen, frontier = {start}, {start}
    for distance in range(1, high + 1):
        frontier = {far for near, far in steps if near in frontier} - seen
        seen |= frontier
        if distance >= low:
            reached |= dict.fromkeys(frontier, distance)
    return reached


def _path_length(path: Entity | None, distance: int) -> Row:
    return {f"{path.name}.length": distance} if path else {}


def _orientations(edge: Mapping[str, Any], direction: op.Direction) -> list[tuple[Any, Any]]:
    """Return the orientations of an edge; a self-loop has one."""
    return list(dict.fromkeys((edge[near], edge[far]) for near, far in _SIDES[direction]))


def _join(join: op.ExistsJoin | op.LeftJoin, tables: Tables, outer: Sequence[Row]) -> Iterator[Row]:
    rows = run(join.input, tables, outer)
    inner = run(join.inner, tables, rows)
    new = [field.name for field in join.inner.outputs if field.name not in _names(join.input)]
    for row in rows:
        matching = [other for other in inner if all(row[key] == other[key] for key in join.keys)]
        if isinstance(join, op.ExistsJoin):
            if bool(matching) is not join.negated:
                yield row
        else:
            for other in matching or [dict.fromkeys(new)]:
                yield row | {name: other[name] for name in new}


def _aggregate(step: op.Aggregate, rows: list[Row]) -> list[Row]:
    groups: dict[tuple[Any, ...], list[Row]] = {} if step.keys else {(): []}
    for row in rows:
        groups.setdefault(tuple(value(key.expression, row) for key in step.keys), []).append(row)
    return [
        {key.name: key_value for key, key_value in zip(step.keys, group, strict=True)}
        | {column.name: _call(column.expression, members) for column in step.aggregates}
        for group, members in groups.items()
    ]


def _call(call: ex.AggregateCall, rows: list[Row]) -> Any:
    values = [argument for row in rows if (argument := value(call.argument, row)) is not None]
    if call.function is ex.Function.COUNT:
        return len(set(values)) if call.distinct else len(values)
    if call.function is ex.Function.COLLECT:
        is_entity = isinstance(call.argument, ex.EntityRef)
        # The first column of an entity is its id.
        in_order = sorted(values, key=lambda entity: entity[0][1]) if is_entity else sorted(values)
        return tuple(dict.fromkeys(in_order) if call.distinct else in_order)
    if not values:
        return None
    match call.function:
        case ex.Function.SUM:
            return exact(sum(values))
        case ex.Function.AVG:
            return sum(values) / len(values)
        case ex.Function.MIN:
            return min(values)
        case _:
            return max(values)


def _order(step: op.Order, rows: list[Row]) -> list[Row]:
    def compare(first: Row, second: Row) -> int:
        keys = [
            (value(key.expression, first), value(key.expression, second), key.descending, key.nulls_last)
            for key in step.keys
        ]
        ties = ((first[name], second[name], False, False) for name in step.ties)
        for left, right, descending, nulls_last in (*keys, *ties):
            if left == right:
                continue
            if nulls_last and (left is None or right is None):
                return 1 if left is None else -1
            smaller = left is None or (right is not None and left < right)
            return -1 if smaller is not descending else 1
        return 0

    return sorted(rows, key=cmp_to_key(compare))


def value(expr: ex.Expr, row: Row) -> Any:  # noqa: PLR0912 - one case per expression
    """Return the value of an expression; None is null."""
    match expr:
        case ex.Literal(operand_value):
            return operand_value
        case ex.ColumnRef() | ex.OutputRef():
            return row[expr.name]
        case ex.EntityRef(entity, table):
            if row[f"{entity}.id"] is None:
                return None
            shown = [column for column in table.columns if not is_opaque(column.type)]
            return tuple((column, row[f"{entity}.{column.name}"]) for column in shown)
        case ex.Negation(operand):
            operand_value = value(operand, row)
            return None if operand_value is None else exact(-operand_value)
        case ex.BinaryOperation(sign, left, right):
            return exact(_computed(sign, value(left, row), value(right, row)))
        case ex.TextMatch(mode, column, query, edits):
            text = value(column, row)
            return None if text is None else matches(mode, text, value(query, row), edits, column.text)
        case ex.IsNull(operand, negated):
            return (value(operand, row) is None) is not negated
        case ex.And(operands) | ex.Or(operands):
            return _joined([value(operand, row) for operand in operands], deciding=isinstance(expr, ex.Or))
        case ex.Not(operand):
            operand_value = value(operand, row)
            return None if operand_value is None else not operand_value
        case ex.ConstantUnlessNull(answer, operand):
            return None if value(operand, row) is None else answer
        case ex.Compare(operator, left, right):
            return compared(operator, value(left, row), value(right, row))
        case ex.InList(operand, items):
            item_value = value(operand, row)
            equal = [compared(ComparisonOperator.EQ, item_value, value(item, row)) for item in items]
            return None if item_value is None else _joined(equal, deciding=True)
        case ex.ListMembership(item, collection):
            item_value, items_value = value(item, row), value(collection, row)
            if item_value is None or items_value is None:
                return None
            return any(compared(ComparisonOperator.EQ, item_value, member) for member in items_value)
        case ex.Substring(text, part):
            whole, piece = value(text, row), value(part, row)
            return None if whole is None or piece is None else piece in whole
        case ex.Prefix(text, part):
            whole, piece = value(text, row), value(part, row)
            return None if whole is None or piece is None else whole.startswith(piece)
        case ex.Like(text, pattern):
            whole, piece = value(text, row), value(pattern, row)
            return None if whole is None or piece is None else is_like(whole, piece)
        case (
            ex.FunctionCall()
            | ex.Convert()
            | ex.Coalesce()
            | ex.Conditional()
            | ex.ShiftTime()
            | ex.TimeDifference() as inner
        ):
            return _scalar(inner, row)
        case _:
            raise NotImplementedError(type(expr).__name__)


def is_like(text: str, pattern: str) -> bool:
    """Match character by character, with all ways to continue after a `%`."""
    if not pattern:
        return not text
    first, rest = pattern[0], pattern[1:]
    if first == "%":
        return is_like(text, rest) or (text != "" and is_like(text[1:], pattern))
    if first == "\\" and rest:
        first, rest = rest[0], rest[1:]
        return text[:1] == first and is_like(text[1:], rest)
    return text != "" and first in {"_", text[0]} and is_like(text[1:], rest)


def _scalar(
    expr: ex.FunctionCall | ex.Convert | ex.Coalesce | ex.Conditional | ex.ShiftTime | ex.TimeDifference, row: Row
) -> Any:
    match expr:
        case ex.Coalesce(operands):
            return next((cell for operand in operands if (cell := value(operand, row)) is not None), None)
        case ex.Conditional(conditions, values, otherwise):
            pairs = zip(conditions, values, strict=True)
            chosen = next((branch for condition, branch in pairs if value(condition, row) is True), otherwise)
            return value(chosen, row)
        case ex.FunctionCall(name, arguments):
            cells = [value(argument, row) for argument in arguments]
            return None if None in cells else FUNCTIONS[name](*cells)
        case ex.Convert(operand, target):
            cell = value(operand, row)
            return None if cell is None else _converted(cell, target)
        case ex.ShiftTime(operand, sign, amount, unit):
            cell, number = value(operand, row), value(amount, row)
            if cell is None or number is None:
                return None
            return shifted(cell, number if sign is Sign.ADD else -number, unit)
        case ex.TimeDifference(left, right):
            first, second = value(left, row), value(right, row)
            if first is None or second is None:
                return None
            if not isinstance(first, datetime) and not isinstance(second, datetime):
                return (first - second).days
            moments = [side if isinstance(side, datetime) else midnight(side) for side in (first, second)]
            return (moments[0] - moments[1]) / timedelta(seconds=1)


FUNCTIONS: Final[Mapping[str, Callable[..., Any]]] = {
    "lower": str.lower,
    "upper": str.upper,
    "length": len,
    "trim": lambda text: text.strip(" \t\n\v\f\r"),
    "concat": lambda *texts: "".join(texts),
    "substring": lambda text, start, length=2**70: "".join(
        character for position, character in enumerate(text, start=1) if start <= position < start + length
    ),
    "year": lambda day: day.year,
    "month": lambda day: day.month,
    "day": lambda day: day.day,
}


def _converted(cell: Any, target: ValueType) -> Any:
    if target == I64:
        return exact(cell)
    if target == F64:
        return float(cell)
    if target == DATETIME:
        return midnight(cell)
    return cell.date() if target == DATE else cell


def shifted(time: Any, number: int, unit: str) -> Any:
    """Return a date or datetime plus a number of units; a missing day of a month is its last one."""
    try:
        if unit not in {"years", "months"}:
            is_date = not isinstance(time, datetime)
            moment = (midnight(time) if is_date else time) + timedelta(**{unit: number})
            return moment.date() if is_date else moment
        years, month = divmod(time.year * 12 + time.month - 1 + number * (12 if unit == "years" else 1), 12)
        last = monthrange(years, month + 1)[1]
        return time.replace(year=years, month=month + 1, day=min(time.day, last))
    except (OverflowError, ValueError) as error:
        raise RunError("the date does not exist", code="date_overflow") from error


def compared(operator: ComparisonOperator, left: Any, right: Any) -> bool | None:
    """Return the result of a comparison: null with a null; a date compares with a datetime as its midnight."""
    if left is None or right is None:
        return None
    if isinstance(left, datetime) is not isinstance(right, datetime):
        left, right = (midnight(side) if type(side) is date else side for side in (left, right))
    match operator:
        case ComparisonOperator.EQ:
            return bool(left == right)
        case ComparisonOperator.NE:
            return bool(left != right)
        case ComparisonOperator.LT:
            return bool(left < right)
        case ComparisonOperator.LE:
            return bool(left <= right)
        case ComparisonOperator.GT:
            return bool(left > right)
        case _:
            return bool(left >= right)


def _computed(sign: Sign, left: Any, right: Any) -> Any:
    if left is None or right is None:
        return None
    match sign:
        case Sign.ADD:
            return left + right
        case Sign.SUB:
            return left - right
        case Sign.MUL:
            return left * right
        case Sign.DIV:
            return None if right == 0 else left / right


def exact(number: Any) -> Any:
    """Return a computed number, or raise if an integer is out of range for I64."""
    if isinstance(number, int) and not I64_MIN <= number <= I64_MAX:
        raise RunError("the number does not fit I64", code="integer_overflow")
    return number


def _joined(values: list[bool | None], *, deciding: bool) -> bool | None:
    if deciding in values:
        return deciding
    return None if None in values else not deciding


def _holds(conditions: tuple[ex.Expr, ...], row: Row) -> bool:
    return all(value(condition, row) is True for condition in conditions)


def _prefixed(name: str, row: Mapping[str, Any]) -> Row:
    return {f"{name}.{column}": cell for column, cell in row.items()}


def _bound_entities(relation: op.Relation) -> Iterator[Entity]:
    """Yield the entities that the steps of a plan bind, before and after the rules."""
    for step in steps_of(relation):
        if isinstance(step, op.Pattern):
            yield from (*step.entities, *step.edges)
    yield from entities_of(relation)


def _distinct(rows: list[Row]) -> list[Row]:
    return list({tuple(sorted(row.items(), key=lambda item: item[0])): row for row in rows}.values())


def _names(relation: op.Relation) -> set[str]:
    return {field.name for field in relation.outputs}
