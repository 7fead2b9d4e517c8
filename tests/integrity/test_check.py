"""Whole batches: the rules about one value, required values, defaults, unknown properties and ids."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest

from omnigraph.integrity.check import check_batch
from omnigraph.integrity.raw import MixedColumn, RawBatch, raw_schema
from omnigraph.integrity.row_rules import check_rows
from omnigraph.schema.tables import arrow_schema
from tests.integrity.samples import edge, node, summarize, texts

ADA: dict[str, object] = {"slug": "ada", "status": "active"}


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({}, []),
        ({"slug": None}, [("required", "slug", [0], [""])]),
        ({"slug": 5}, [("wrong_type", "slug", [0], ["5"])]),
        ({"slug": "Ada"}, [("check", "slug", [0], ["Ada"])]),
        ({"slug": "ada\n"}, [("check", "slug", [0], ["ada\n"])]),
        ({"slug": ""}, [("blank_id", "slug", [0], [""]), ("check", "slug", [0], [""])]),
        ({"slug": "é"}, [("check", "slug", [0], ["é"])]),
        ({"email": "a@b"}, []),
        ({"email": "@"}, [("check", "email", [0], ["@"])]),
        ({"status": None}, [("required", "status", [0], [""])]),
        ({"status": "Active"}, [("enum", "status", [0], ["Active"])]),
        ({"status": ""}, [("enum", "status", [0], [""])]),
        ({"age": 0}, []),
        ({"age": 200}, []),
        ({"age": -1}, [("range", "age", [0], ["-1"])]),
        ({"age": 201}, [("range", "age", [0], ["201"])]),
        ({"age": True}, [("wrong_type", "age", [0], ["true"])]),
        ({"born": "1900-01-01"}, []),
        ({"born": "1899-12-31"}, [("range", "born", [0], ["1899-12-31"])]),
        ({"born": "1900-02-29"}, [("date", "born", [0], ["1900-02-29"])]),
        ({"seen": "2024-01-01T01:00:00+01:00"}, []),
        ({"seen": "2024-01-01T00:00:00.001Z"}, [("range", "seen", [0], ["2024-01-01T00:00:00.001Z"])]),
        ({"score": 1.5}, []),
        ({"score": -1.6}, [("range", "score", [0], ["-1.6"])]),
        ({"score": "1"}, [("wrong_type", "score", [0], ["1"])]),
        ({"nickname": "x"}, [("unknown_property", "nickname", [0], ["x"])]),
        ({"nickname": None}, []),
        ({"from": "x"}, [("unknown_property", "from", [0], ["x"])]),
        ({"id": "ada"}, []),
        ({"id": "grace"}, [("id_mismatch", "id", [0], ["grace"])]),
        ({"id": 5}, [("wrong_type", "id", [0], ["5"])]),
        ({"age": 10**30}, [("number_size", "age", [0], [str(10**30)])]),
    ],
)
def test_one_row(change: dict[str, object], expected: list[Any]) -> None:
    for records in ([{**ADA, **change}], [{**ADA, **change}, ADA]):
        checked = check_batch(node("Person"), RawBatch.from_records(records))
        assert sorted(summarize(checked.violations)) == expected
        assert checked.rows.schema == arrow_schema(node("Person"))


def test_blanks_around_a_number_are_named() -> None:
    records = [{**ADA, "age": value} for value in (" 36", "ten", None, "36\n", 36)]
    violations = check_batch(node("Person"), RawBatch.from_records(records)).violations
    assert [(group.message, group.rows.tolist()) for group in violations if group.property == "age"] == [
        ("expected an integer (I32), got text with blanks around it", [0, 3]),
        ("expected an integer (I32), got text", [1]),
    ]


@pytest.mark.parametrize(
    ("type_name", "name", "message"),
    [
        ("Person", "emial", "Person has no property of this name: did you mean 'email'?"),
        ("Person", "Slug", "Person has no property of this name: did you mean 'slug'?"),
        ("Person", "zzz", "Person has no property of this name"),
        ("Person", "src", "Person has no property of this name"),
        ("Knows", "src", "Knows has no property of this name: use 'from'"),
        ("Knows", "DST", "Knows has no property of this name: use 'to'"),
    ],
)
def test_unknown_property_has_a_suggestion(type_name: str, name: str, message: str) -> None:
    entity = node(type_name) if type_name == "Person" else edge(type_name)
    record: dict[str, object] = {"from": "a", "to": "b"} if type_name == "Knows" else ADA
    violations = check_batch(entity, RawBatch.from_records([{**record, name: "x"}])).violations
    assert message in [group.message for group in violations if group.property == name]


def test_every_violation_of_a_row_is_reported_and_valid_rows_are_kept() -> None:
    records: Sequence[dict[str, object]] = [{"slug": "A", "status": "x", "age": 300}, ADA, {"age": "1"}]
    checked = check_batch(node("Person"), RawBatch.from_records(records))
    assert sorted(summarize(checked.violations)) == [
        ("check", "slug", [0], ["A"]),
        ("enum", "status", [0], ["x"]),
        ("range", "age", [0], ["300"]),
        ("required", "slug", [2], [""]),
        ("required", "status", [2], [""]),
        ("wrong_type", "age", [2], ["1"]),
    ]
    assert checked.rows.column("id").to_pylist() == ["A", "ada", None]


def test_default_replaces_a_missing_but_not_an_invalid_value() -> None:
    records = [{**ADA, "level": level} for level in (None, 3, "x")]
    checked = check_batch(node("Person"), RawBatch.from_records(records))
    assert checked.rows.column("level").to_pylist() == [7, 3, None]
    assert summarize(checked.violations) == [("wrong_type", "level", [2], ["x"])]
    absent = check_batch(node("Person"), RawBatch.from_records([ADA]))
    assert absent.rows.column("level").to_pylist() == [7]


def test_absent_required_column_violates_every_row() -> None:
    checked = check_batch(node("Person"), RawBatch(2, {"slug": texts(["a", "b"])}))
    assert summarize(checked.violations) == [("required", "status", [0, 1], ["", ""])]


def test_batch_without_rows_has_no_violations() -> None:
    checked = check_batch(node("Person"), RawBatch(0, {}))
    assert (checked.rows.num_rows, checked.violations) == (0, ())


def test_endpoints_of_an_edge_are_required_text() -> None:
    records: Sequence[dict[str, object]] = [{"from": "a", "to": "b"}, {"from": 5}, {"from": "a", "to": None}]
    checked = check_batch(edge("Follows"), RawBatch.from_records(records))
    assert summarize(checked.violations) == [("wrong_type", "from", [1], ["5"]), ("required", "to", [1, 2], ["", ""])]
    assert checked.rows.column("id").to_pylist() == ['["a","b"]', None, None]
    assert checked.rows.column("src").to_pylist() == ["a", None, "a"]


def test_id_of_a_keyed_edge_is_an_array_of_its_endpoints_and_key() -> None:
    raw = RawBatch.from_records([{"from": 'a"b', "to": "é", "since": "2024-02-29"}])
    assert check_batch(edge("Likes"), raw).rows.column("id").to_pylist() == ['["a\\"b","é","2024-02-29"]']


def test_rows_without_a_key_keep_an_explicit_id_or_get_a_ulid() -> None:
    for entity, endpoints in ((node("Note"), {}), (edge("Knows"), {"from": "a", "to": "b"})):
        raw = RawBatch.from_records([{**endpoints, "id": identity} for identity in ("mine", None, "b c", None)])
        checked = check_batch(entity, raw)
        first, second, third, fourth = checked.rows.column("id").to_pylist()
        assert (first, third) == ("mine", "b c")
        assert second is not None
        assert fourth is not None
        assert len({second, fourth}) == 2
        assert len(second) == 26
        assert checked.violations == ()


def test_blank_id_is_rejected() -> None:
    blanks = ["", " ", "\t\n", "\u00a0\u2003"]
    for entity, endpoints in ((node("Note"), {}), (edge("Knows"), {"from": "a", "to": "b"})):
        raw = RawBatch.from_records([{**endpoints, "id": identity} for identity in ("a", *blanks, None, " b")])
        assert summarize(check_batch(entity, raw).violations) == [("blank_id", "id", [1, 2, 3, 4], blanks)]


def test_typed_rows_of_a_table_obey_the_same_rules() -> None:
    good = check_batch(node("Person"), RawBatch.from_records([{**ADA, "age": 5}, {**ADA, "slug": "b"}])).rows
    columns = {name: good.column(name) for name in good.schema.names}
    assert list(check_rows(node("Person"), columns)) == []
    columns["age"] = pa.array([500, None], pa.int32())
    columns["status"] = texts([None, "gone"])
    assert summarize(list(check_rows(node("Person"), columns))) == [
        ("required", "status", [0], [""]),
        ("enum", "status", [1], ["gone"]),
        ("range", "age", [0], ["500"]),
    ]


def test_raw_schema_has_types_without_loss() -> None:
    schema = raw_schema(node("Reading"))
    assert {field.name: str(field.type) for field in schema} == {
        "id": "string",
        "at": "string",
        "sensor": "string",
        "value": "double",
        "ok": "bool",
        "n": "uint64",
    }
    assert raw_schema(edge("Knows")).names == ["id", "from", "to", "weight"]


def test_column_of_different_length_fails_an_assertion() -> None:
    with pytest.raises(AssertionError):
        check_batch(node("Note"), RawBatch(2, {"text": MixedColumn(["a"])}))
