"""NDJSON graph data: blocks of lines become raw columns, one batch per type, without a Python object per row.

In: byte ranges of files. Out: blocks with rows by type and bad lines, each with its line number within the block. The
native parser reads all lines of one type together, with the types that the schema requires. Lines that it rejects, and
lines that do not begin with a known type, are parsed one by one by a parser that keeps each value unchanged, so that no
digit is lost and every bad line has a reason. Nothing is written.
"""

from __future__ import annotations

import codecs
import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from functools import lru_cache
from typing import Any, Final

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj

from omnigraph.arrow.columns import Mask, Rows
from omnigraph.base import limits
from omnigraph.integrity.convert.scalars import UNICODE_MESSAGE, is_unicode
from omnigraph.integrity.raw import FROM, ID, TO, MixedColumn, RawBatch, null_rows, raw_schema
from omnigraph.integrity.rules import Rule
from omnigraph.pipeline.load.inputs.blocks import LINE_TOO_LONG, BadLine, Block, Piece, TypedRows
from omnigraph.pipeline.load.inputs.files import InputFile
from omnigraph.pipeline.load.inputs.ranges import ByteRange, plan_ranges, read_line_blocks, text_bytes
from omnigraph.schema.catalog import Catalog, EdgeType, Entity

_PREFIX: Final = re.compile(rb'\{"(type|edge)":"((?:node:|edge:)?[A-Za-z_][A-Za-z0-9_]*)"')
_COMPARED_MAX: Final = 60
_BLANK: Final = re.compile(rb"\s*")
_NAME_END: Final = re.compile(rb'"\s*:')
_NODE_KEYS: Final = frozenset({"type", "data"})
_EDGE_KEYS: Final = frozenset({"edge", "from", "to", "data"})
_ALL_KEYS: Final = _NODE_KEYS | _EDGE_KEYS
_LINE_EACH: Final = "write one complete object per line, without an array around them"
_BAD_SHAPE: Final = 'invalid record: expected {"type": …, "data": {…}} or {"edge": …, "from": …, "to": …, "data": {…}}'


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonPiece(Piece):
    """The lines of one byte range."""

    range: ByteRange
    marks_omitted: bool = False

    def for_patch(self) -> JsonPiece:
        return replace(self, marks_omitted=True)

    def blocks(self, catalog: Catalog) -> Iterator[Block]:
        is_start = self.range.start == 0
        for block in read_line_blocks(self.range):
            data = block.data.removeprefix(codecs.BOM_UTF8) if is_start else block.data
            is_start = False
            if block.is_cut:
                yield Block(1, (), (BadLine(0, Rule.LINE_TOO_LONG, LINE_TOO_LONG, ""),))
            else:
                yield parse_block(data, catalog, marks_omitted=self.marks_omitted)


def plan_json_pieces(files: Sequence[InputFile], range_bytes: int | None = None) -> tuple[JsonPiece, ...]:
    """Return the pieces of NDJSON files, each of `range_bytes`, or of a size that gives every core work."""
    return tuple(
        JsonPiece(
            name=piece.file.name,
            file=piece.file,
            part=piece.part,
            size_bytes=piece.end - piece.start,
            text_bytes=text_bytes(piece.file, piece.end - piece.start),
            range=piece,
        )
        for piece in plan_ranges(files, range_bytes)
    )


def parse_block(data: bytes, catalog: Catalog, *, marks_omitted: bool = False) -> Block:
    """Parse a block of complete lines; with `marks_omitted`, record which members each line omits."""
    lines = _split(data)
    remaining = np.ones(len(lines), dtype=np.bool_)
    # The native parser returns null for an omitted member too. A line without the letters "null" has no null.
    may_have_null = np.asarray(pc.match_substring(lines, "null")) if marks_omitted else ~remaining
    rows: list[TypedRows] = []
    without_native_parser: list[Rows] = []
    for entity, prefix in _prefixes(lines, remaining, catalog):
        chosen = np.asarray(pc.starts_with(lines, prefix)) & remaining
        remaining &= ~chosen
        without_native_parser.append(np.flatnonzero(chosen & may_have_null))
        chosen &= ~may_have_null
        where = np.flatnonzero(chosen)
        if not len(where):
            continue
        table = _parse_natively(_join_lines(lines, chosen, data), entity, len(where))
        if table is None:
            without_native_parser.append(where)
        else:
            rows.append(TypedRows(entity, table, where, _null_masks(table) if marks_omitted else {}))
    without_native_parser.append(np.flatnonzero(remaining))
    records, bad = _parse_line_by_line(lines, np.sort(np.concatenate(without_native_parser)), catalog)
    return Block(len(lines), (*rows, *(group.rows(marks_omitted=marks_omitted) for group in records)), bad, len(data))


def _split(data: bytes) -> pa.Array[Any]:
    """Return the lines as a binary column over the bytes of the block."""
    octets = np.frombuffer(data, dtype=np.uint8)
    ends = np.flatnonzero(octets == ord("\n")) + 1
    if data and not data.endswith(b"\n"):
        ends = np.append(ends, len(data))
    offsets = np.concatenate([[0], ends]).astype(np.int32)
    buffers = [None, pa.py_buffer(offsets.data), pa.py_buffer(data)]
    return pa.Array.from_buffers(pa.binary(), len(ends), buffers)


def _prefixes(lines: pa.Array[Any], remaining: Any, catalog: Catalog) -> Iterator[tuple[Entity, bytes]]:
    """Yield the type and the prefix of the first of the remaining lines. The caller removes the lines with it."""
    index = 0
    for _ in range(limits.LOAD_PREFIXES_MAX):
        while index < len(remaining) and not remaining[index]:
            rest = np.flatnonzero(remaining[index:])
            index = index + int(rest[0]) if len(rest) else len(remaining)
        if index >= len(remaining):
            return
        match = _PREFIX.match(lines[index].as_py())
        entity = None if match is None else _find_type(catalog, match[1] == b"edge", match[2].decode())
        if match is None or entity is None:
            index += 1
            continue
        yield entity, match[0]


def _join_lines(lines: pa.Array[Any], chosen: Any, data: bytes) -> bytes | memoryview:
    if chosen.all():
        return data
    picked = lines.filter(pa.array(chosen))
    _, offsets_buffer, bytes_buffer = picked.buffers()
    assert offsets_buffer is not None
    assert bytes_buffer is not None
    offsets = np.frombuffer(memoryview(offsets_buffer), dtype=np.int32)
    first, last = offsets[picked.offset], offsets[picked.offset + len(picked)]
    return memoryview(bytes_buffer)[first:last]


def _parse_natively(data: bytes | memoryview, entity: Entity, expected: int) -> RawBatch | None:
    """Return the rows, or None if the parser rejects a line or finds another number of rows than lines."""
    fields = raw_schema(entity)
    inner = pa.struct([field for field in fields if field.name not in (FROM, TO)])
    is_edge = isinstance(entity, EdgeType)
    outer = [("edge" if is_edge else "type", pa.utf8()), ("data", inner)]
    outer += [(FROM, pa.utf8()), (TO, pa.utf8())] if is_edge else []
    parsing = pj.ParseOptions(explicit_schema=pa.schema(outer), unexpected_field_behavior="error")
    reading = pj.ReadOptions(use_threads=False, block_size=max(len(data), 1))
    try:
        source: Any = pa.BufferReader(data)
        table = pj.read_json(source, read_options=reading, parse_options=parsing)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return None
    if table.num_rows != expected:
        return None
    members: Any = table.column("data").combine_chunks()
    columns = dict(zip(inner.names, members.flatten(), strict=True))
    ends = {name: table.column(name).combine_chunks() for name in (FROM, TO) if is_edge}
    return RawBatch(expected, {**columns, **ends})


def _parse_line_by_line(
    lines: pa.Array[Any], numbers: Rows, catalog: Catalog
) -> tuple[tuple[_Records, ...], tuple[BadLine, ...]]:
    groups: dict[str, _Records] = {}
    bad: list[BadLine] = []
    for line in numbers.tolist():
        text = lines[line].as_py()
        if _BLANK.fullmatch(text):
            continue
        match _record(text, line, catalog):
            case BadLine() as problem:
                bad.append(problem)
            case (entity, members):
                group = groups.setdefault(entity.alias, _Records(entity))
                group.lines.append(line)
                group.members.append(members)
    return tuple(groups.values()), tuple(bad)


def _null_masks(raw: RawBatch) -> dict[str, Mask]:
    masks = {}
    for name, column in raw.columns.items():
        mask = np.zeros(raw.rows, np.bool_)
        mask[null_rows(column)] = True
        masks[name] = mask
    return masks


@dataclass(frozen=True, slots=True)
class _Records:
    """The members of lines of one type, and the numbers of the lines."""

    entity: Entity
    lines: list[int] = field(default_factory=list)
    members: list[Mapping[str, object]] = field(default_factory=list)

    def rows(self, *, marks_omitted: bool) -> TypedRows:
        raw = RawBatch.from_records(self.members)
        omitted = {}
        if marks_omitted:
            # A null endpoint is an omitted one: an edge cannot be without it.
            endpoints = _null_masks(
                RawBatch(raw.rows, {name: raw.columns[name] for name in (FROM, TO) if self._is_edge})
            )
            members = {name: np.array([name not in record for record in self.members]) for name in raw.columns}
            omitted = {**members, **endpoints}
        if ID not in raw.columns:
            raw = RawBatch(raw.rows, {**raw.columns, ID: MixedColumn([None] * raw.rows)})
        return TypedRows(self.entity, raw, np.array(self.lines, dtype=np.int64), omitted)

    @property
    def _is_edge(self) -> bool:
        return isinstance(self.entity, EdgeType)


def _record(text: bytes, line: int, catalog: Catalog) -> BadLine | tuple[Entity, Mapping[str, object]]:
    """Return the type of a line and its members, which include the endpoints of an edge."""
    try:
        record = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        if not is_unicode(text):
            return BadLine(line, Rule.NOT_UNICODE, UNICODE_MESSAGE, _shown(text))
        return BadLine(line, Rule.LINE_SYNTAX, f"invalid JSON: {_syntax_reason(text, error)}", _shown(text))
    if not isinstance(record, dict):
        advice = f"; {_LINE_EACH}" if isinstance(record, list) else ""
        return BadLine(line, Rule.LINE_SHAPE, f"{_BAD_SHAPE}{advice}", _shown(text))
    duplicate = _duplicate_name(text, record)
    if duplicate is not None:
        return BadLine(line, Rule.NAME_TWICE, f"duplicate name '{duplicate}' in one object", _shown(text))
    is_edge = "edge" in record
    name = record.get("edge" if is_edge else "type")
    members = record.get("data")
    members = {} if members is None else members
    unknown = sorted(set(record) - (_EDGE_KEYS if is_edge else _NODE_KEYS))
    if not isinstance(name, str) or not isinstance(members, dict) or unknown:
        return BadLine(line, Rule.LINE_SHAPE, _shape_message(unknown, names_type=isinstance(name, str)), _shown(text))
    entity = _find_type(catalog, is_edge, name)
    if entity is None:
        kind, types = ("edge", catalog.edges) if is_edge else ("node", catalog.nodes)
        other, member = ("node", "type") if is_edge else ("edge", "edge")
        if name.startswith(f"{other}:"):
            message = f"'{name}' is not {'an edge' if is_edge else 'a node'} type: expected it in '{member}'"
            return BadLine(line, Rule.UNKNOWN_TYPE, message, name)
        compared = name.removeprefix(f"{kind}:")[:_COMPARED_MAX]
        suggestion = _suggestion(compared, tuple(entity_type.name for entity_type in types))
        return BadLine(line, Rule.UNKNOWN_TYPE, f"unknown {kind} type '{name}'{suggestion}", name)
    clash = sorted(set(members) & {FROM, TO}) if is_edge else []
    if clash:
        message = f"invalid record: expected '{clash[0]}' next to 'data', got it inside"
        return BadLine(line, Rule.LINE_SHAPE, message, _shown(text))
    ends = {FROM: record.get("from"), TO: record.get("to")} if is_edge else {}
    return entity, {**members, **ends}


def _syntax_reason(text: bytes, error: Exception) -> str:
    if "truncated" in str(error):
        return f"it ends inside a value; {_LINE_EACH}"
    if _has_json_constants(text):
        return "NaN and Infinity are not valid JSON; write null or omit the property"
    return str(error).removeprefix("JSON is malformed: ")


def _has_json_constants(text: bytes) -> bool:
    """Return whether NaN or Infinity is a value of a line that is otherwise valid: Python's parser accepts them."""
    if b"NaN" not in text and b"Infinity" not in text:
        return False
    constants: list[str] = []
    try:
        json.loads(text, parse_constant=constants.append)
    except (ValueError, RecursionError):
        return False
    return bool(constants)


def _shape_message(unknown: Sequence[str], *, names_type: bool) -> str:
    """Return what is wrong with a record that has these unexpected members."""
    for name in unknown:
        if name not in _ALL_KEYS and name.lower() in _ALL_KEYS:
            return f"invalid record: unexpected member '{name}': did you mean '{name.lower()}'?"
    properties = [name for name in unknown if name not in _ALL_KEYS]
    if names_type and properties:
        return f"invalid record: unexpected member '{properties[0][:_COMPARED_MAX]}': put properties into 'data'"
    return _BAD_SHAPE


def _duplicate_name(text: bytes, record: Mapping[str, object]) -> str | None:
    """Return a name that one object has more than once. The native parser rejects such lines too.

    If there are as many ends of names as names, no name is duplicate, and the line need not be parsed again.
    """
    members = record.get("data")
    names = len(record) + (len(members) if isinstance(members, dict) else 0)
    if len(_NAME_END.findall(text)) == names:
        return None
    duplicates: list[str] = []

    def collect(pairs: list[tuple[str, object]]) -> None:
        if len(dict(pairs)) < len(pairs):
            counts = Counter(name for name, _ in pairs)
            duplicates.extend(name for name, count in counts.items() if count > 1)

    try:
        json.loads(text, object_pairs_hook=collect, parse_int=str, parse_float=str)
    except RecursionError:
        return None  # too deep for any property, whatever its names are
    return duplicates[0] if duplicates else None


@lru_cache(maxsize=64)
def _suggestion(name: str, type_names: tuple[str, ...]) -> str:
    """Return the closest type name as a suggestion; few wrong names are repeated in many lines."""
    near = get_close_matches(name, type_names, n=1)
    return f": did you mean '{near[0]}'?" if near else ""


def _find_type(catalog: Catalog, is_edge: bool, name: str) -> Entity | None:
    """Return the type of a name or alias, `Person` or `node:Person`."""
    return catalog.edge_named(name.removeprefix("edge:")) if is_edge else catalog.node_named(name.removeprefix("node:"))


def _shown(text: bytes) -> str:
    return text.decode(errors="replace").strip()
