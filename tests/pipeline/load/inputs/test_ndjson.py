"""Blocks of lines become rows by type; both parsers give the same rows, and no bytes make them fail."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnigraph.integrity.check import check_batch
from omnigraph.integrity.rules import Rule
from omnigraph.pipeline.load.inputs.blocks import Block
from omnigraph.pipeline.load.inputs.ndjson import parse_block
from omnigraph.schema.build import build_catalog
from omnigraph.schema.parser import parse_schema

CATALOG = build_catalog(
    parse_schema(
        "node Person { slug: String @key  age: I64?  tags: [String]?  v: Vector(2)? }\n"
        "node Thing { note: String? }\n"
        "edge Knows: Person -> Person { weight: F64? }\n"
    )
)
PERSON = b'{"type":"Person","data":{"slug":"ada","age":36}}'


def rows(block: Block) -> dict[int, tuple[str, dict[str, object]]]:
    """Return the type and the typed values by line."""
    values_by_line = {}
    for typed in block.rows:
        checked = check_batch(typed.entity, typed.raw)
        for line, row in zip(typed.lines.tolist(), checked.rows.to_pylist(), strict=True):
            values_by_line[line] = (typed.entity.name, row)
    return values_by_line


def test_types_in_any_order_keep_their_lines() -> None:
    lines = [PERSON, b'{"edge":"Knows","from":"ada","to":"ada"}', b"", PERSON, b'{"type":"Thing"}', b"  \t"]
    block = parse_block(b"\n".join(lines), CATALOG)
    assert {line: name for line, (name, _) in rows(block).items()} == {
        0: "Person", 1: "Knows", 3: "Person", 4: "Thing",
    }  # fmt: skip
    assert (block.lines, block.bad) == (6, ())


SPELLINGS = [
    b'{"type":"Person","data":{"slug":"ada","age":36}}',
    b'{ "type" : "Person", "data" : { "age" : 36, "slug" : "ada" } }',
    b'{"data":{"slug":"ada","age":36},"type":"Person"}',
    b'{"type":"Person","data":{"slug":"\\u0061da","age":"36","tags":null}}',
]


def test_alias_names_the_same_type() -> None:
    names = [b'"type":"%s"', b' "type" : "%s"']
    lines = [PERSON, *(PERSON.replace(b'"type":"Person"', name % b"node:Person") for name in names)]
    ends = b',"from":"ada","to":"ada"}'
    lines += [b'{"edge":"%s"' % name + ends for name in (b"Knows", b"edge:Knows", b"edge:knows")]
    block = parse_block(b"\n".join(lines), CATALOG)
    values = rows(block)
    assert (block.bad, [values[line][0] for line in range(6)]) == ((), ["Person"] * 3 + ["Knows"] * 3)
    assert values[0][1] == values[1][1] == values[2][1]


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_the_way_a_record_is_written_does_not_matter(spelling: bytes) -> None:
    (name, row) = rows(parse_block(spelling, CATALOG))[0]
    assert (name, row["slug"], row["age"]) == ("Person", "ada", 36)


def test_one_unusual_line_does_not_change_its_neighbours() -> None:
    lines = [b'{"type":"Person","data":{"slug":"p%d","age":%d}}' % (n, n) for n in range(50)]
    alone = rows(parse_block(b"\n".join(lines), CATALOG))
    lines[25] = b'{"type":"Person","data":{"slug":"p25","age":9007199254740993,"tags":["a"]}}'
    lines[30] = b'{"type":"Person","data":{"slug":"p30","age":1.5}}'
    together = rows(parse_block(b"\n".join(lines), CATALOG))
    same = set(alone) - {25, 30}
    assert {line: together[line] for line in same} == {line: alone[line] for line in same}
    assert together[25][1]["age"] == 9007199254740993


BAD = {
    b"nonsense": Rule.LINE_SYNTAX,
    b'{"type":"Person","data":{"slug":"a"}': Rule.LINE_SYNTAX,
    PERSON + PERSON: Rule.LINE_SYNTAX,
    b"[1]": Rule.LINE_SHAPE,
    b'"text"': Rule.LINE_SHAPE,
    b'{"data":{}}': Rule.LINE_SHAPE,
    b'{"type":"Person","data":[]}': Rule.LINE_SHAPE,
    b'{"type":"Person","extra":1}': Rule.LINE_SHAPE,
    b'{"type":"Person","from":"a"}': Rule.LINE_SHAPE,
    b'{"type":1}': Rule.LINE_SHAPE,
    b'{"type":"Knows"}': Rule.UNKNOWN_TYPE,
    b'{"edge":"Person"}': Rule.UNKNOWN_TYPE,
    b'{"type":"Unknown","data":{}}': Rule.UNKNOWN_TYPE,
    b'{"edge":"Knows","data":{"from":"a"}}': Rule.LINE_SHAPE,
    b'{"type":"Person","data":{"slug":"\xff"}}': Rule.LINE_SYNTAX,
    b'{"type":"Person","data":{"slug":"a","age":1,"age":2}}': Rule.NAME_TWICE,
    b'{"type":"Person","data":{"slug":"a","age":null,"age":2}}': Rule.NAME_TWICE,
    b'{ "type":"Person","data":{"slug":"a\\":b","\\u0073lug" :"b"}}': Rule.NAME_TWICE,
    b'{"type":"Person","type":"Thing","data":{"slug":"a"}}': Rule.NAME_TWICE,
    b'{"type":"Thing","data":{"note":"a"},"data":{}}': Rule.NAME_TWICE,
    b'{"type":"Thing","data":{"note":{"a":1,"a":2}}}': Rule.NAME_TWICE,
}


@pytest.mark.parametrize("line", BAD)
def test_bad_line_has_a_reason(line: bytes) -> None:
    block = parse_block(PERSON + b"\n" + line + b"\n" + PERSON, CATALOG)
    bad_lines = [(bad.line, bad.rule) for bad in block.bad]
    broken_rules = [group.rule for typed in block.rows for group in check_batch(typed.entity, typed.raw).violations]
    assert bad_lines == [(1, BAD[line])] or Rule.NOT_UNICODE in broken_rules
    assert sorted(rows(block)) in ([0, 2], [0, 1, 2])


def test_quotes_and_colons_of_a_value_are_not_names() -> None:
    """Such a line is parsed twice."""
    line = b'{ "type":"Person","data":{"slug":"a\\":b\\":c","age":12345678901234567890}}'
    block = parse_block(line, CATALOG)
    assert (block.bad, len(block.rows)) == ((), 1)


def test_a_record_over_two_lines_is_two_bad_lines() -> None:
    block = parse_block(b'{"type":"Person","data":\n{"slug":"a"}}\n' + PERSON, CATALOG)
    assert [bad.line for bad in block.bad] == [0, 1]
    assert sorted(rows(block)) == [2]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b'{"type":"Persn"}', "unknown node type 'Persn': did you mean 'Person'?"),
        (b'{"edge":"X"}', "unknown edge type 'X'"),
        (b'{"type":"node:Persn"}', "unknown node type 'node:Persn': did you mean 'Person'?"),
        (b'{"type":"edge:Knows"}', "'edge:Knows' is not a node type: expected it in 'edge'"),
        (b'{"edge":"node:Person"}', "'node:Person' is not an edge type: expected it in 'type'"),
        (b'[{"type":"Person"}]', "write one complete object per line, without an array around them"),
    ],
)
def test_wrong_type_name_or_array_has_a_suggestion(line: bytes, message: str) -> None:
    (bad,) = parse_block(line, CATALOG).bad
    assert message in bad.message


SHAPE = "invalid record: expected "


@pytest.mark.parametrize(
    ("line", "rule", "message"),
    [
        (b'\xff{"type":"Person","data":{}}', Rule.NOT_UNICODE, "expected text in UTF-8"),
        (b'{ "type":"Person","data":{"slug":"\xff"}}', Rule.NOT_UNICODE, "expected text in UTF-8"),
        (
            b'{"type":"Person","data":{"slug":"a","age":NaN}}',
            Rule.LINE_SYNTAX,
            "invalid JSON: NaN and Infinity are not valid JSON; write null or omit the property",
        ),
        (b'{"type":"Person","data":{"slug":"NaN",}}', Rule.LINE_SYNTAX, "invalid JSON: "),
        (
            b'{"edge":"Knows","from":"ada","to":"x","since":"2020-01-01"}',
            Rule.LINE_SHAPE,
            "invalid record: unexpected member 'since': put properties into 'data'",
        ),
        (
            b'{"Type":"Person","data":{"slug":"a"}}',
            Rule.LINE_SHAPE,
            "invalid record: unexpected member 'Type': did you mean 'type'?",
        ),
        (b'{"slug":"a"}', Rule.LINE_SHAPE, SHAPE),
        (b'{"type":"Person","from":"a"}', Rule.LINE_SHAPE, SHAPE),
    ],
)
def test_a_bad_line_has_the_message_of_its_cause(line: bytes, rule: Rule, message: str) -> None:
    (bad,) = parse_block(line, CATALOG).bad
    assert (bad.rule, bad.message[: len(message)]) == (rule, message)
    assert ("NaN" in bad.message) == ("NaN" in message)


def test_array_over_lines_has_a_hint() -> None:
    (bad,) = parse_block(b"[\n" + PERSON, CATALOG).bad
    assert bad.message.endswith("write one complete object per line, without an array around them")


@given(st.binary(max_size=300))
def test_no_bytes_make_it_fail(data: bytes) -> None:
    _every_line_is_accounted_for(data)


@given(st.lists(st.one_of(st.sampled_from([*SPELLINGS, *BAD]), st.binary(max_size=20)), max_size=12))
def test_no_mixture_of_lines_makes_it_fail(lines: list[bytes]) -> None:
    _every_line_is_accounted_for(b"\n".join(lines))


@given(st.lists(st.dictionaries(st.sampled_from(["slug", "age", "tags", "v", "x"]), st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3), max_leaves=4)), max_size=6))  # fmt: skip
def test_any_values_are_read_natively_as_they_are_line_by_line(records: list[dict[str, object]]) -> None:
    lines = [json.dumps({"type": "Person", "data": data}).encode() for data in records]
    native = [line.replace(b'{"type": "Person"', b'{"type":"Person"') for line in lines]
    assert rows(parse_block(b"\n".join(native), CATALOG)) == rows(parse_block(b"\n".join(lines), CATALOG))


def _every_line_is_accounted_for(data: bytes) -> None:
    block = parse_block(data, CATALOG)
    lines = data.split(b"\n")
    if lines[-1] == b"":
        lines.pop()
    seen = sorted([*rows(block), *(bad.line for bad in block.bad)])
    assert block.lines == len(lines)
    assert seen == [number for number, line in enumerate(lines) if line.strip()]
