"""What `embed` fills: rules over values, as tables."""

from __future__ import annotations

import pyarrow as pa
import pytest

from omnigraph.base.errors import OmnigraphError
from omnigraph.pipeline.embed.plan import (
    TextCount,
    count_texts,
    cut_text,
    divide_texts,
    divide_waves,
    fill_mask,
    has_text_mask,
    require_same_property,
    select_properties,
)
from omnigraph.query.checks.mutations import stale_vectors
from tests.schema.incarnations import catalog_of

VECTOR = pa.list_(pa.float32(), 2)
SCHEMA = """\
node Note {
  k: String @key  title: String  body: String?  vec: Vector(2)? @embed("title")  more: Vector(3) @embed(body)
}
node City { name: String @key  vec: Vector(2)? @embed("name", model="m") }
node Plain { name: String @key  vec: Vector(2)? }
edge About: Note -> City { why: String?  vec: Vector(4)? @embed("why") }
"""


@pytest.mark.parametrize(
    ("text", "has_text"), [("a", True), (" a\n", True), (None, False), ("", False), (" \t\n\u00a0\u2003", False)]
)
def test_which_texts_are_embedded(text: str | None, has_text: bool) -> None:
    assert has_text_mask(pa.array([text], pa.string())).tolist() == [has_text]


@pytest.mark.parametrize(
    ("then", "now", "vector_now", "fills", "fills_every"),
    [
        ("a", "a", None, True, True),
        ("a", "a", [0.0, 1.0], False, True),
        ("a", "b", None, False, False),
        ("a", None, None, False, False),
        ("a", "a ", None, False, False),
    ],
)
def test_which_rows_get_the_vector_of_their_text(
    then: str, now: str | None, vector_now: list[float] | None, fills: bool, fills_every: bool
) -> None:
    columns = (pa.array([then]), pa.array([now], pa.string()), pa.array([vector_now], VECTOR))
    assert fill_mask(*columns, every_row=False).tolist() == [fills]
    assert fill_mask(*columns, every_row=True).tolist() == [fills_every]


@pytest.mark.parametrize(
    ("assigned", "stale"),
    [
        ({"title"}, ["vec"]),
        ({"body"}, ["more"]),
        ({"title", "body"}, ["vec", "more"]),
        ({"title", "vec"}, []),
        ({"vec"}, []),
        ({"k"}, []),
    ],
)
def test_an_update_of_the_source_makes_the_vector_stale(assigned: set[str], stale: list[str]) -> None:
    note = catalog_of(SCHEMA).nodes[0]
    assert [prop.name for prop in stale_vectors(note, assigned)] == stale


@pytest.mark.parametrize(
    ("types", "name", "expected"),
    [
        ((), None, ["Note.vec", "Note.more", "City.vec", "About.vec"]),
        (("City",), None, ["City.vec"]),
        (("node:City", "About"), None, ["City.vec", "About.vec"]),
        ((), "vec", ["Note.vec", "City.vec", "About.vec"]),
        (("Note",), "more", ["Note.more"]),
    ],
)
def test_selected_properties(types: tuple[str, ...], name: str | None, expected: list[str]) -> None:
    chosen = select_properties(catalog_of(SCHEMA), types, name)
    assert [f"{prop.entity.name}.{prop.vector.name}" for prop in chosen] == expected


@pytest.mark.parametrize(
    ("types", "name", "code", "message", "advice"),
    [
        (("Note ",), None, "type_missing", "unknown type 'Note ': did you mean 'Note'?", "types="),
        (
            ("Plain",),
            None,
            "embed_property",
            "no property to embed in Plain: expected a property with @embed",
            "@embed(",
        ),
        (("Note",), "v", "embed_property", "no property to embed in Note: expected one of vec, more, got 'v'", "'vec'"),
    ],
)
def test_selection_errors(types: tuple[str, ...], name: str | None, code: str, message: str, advice: str) -> None:
    with pytest.raises(OmnigraphError) as caught:
        select_properties(catalog_of(SCHEMA), types, name)
    assert (caught.value.code, caught.value.message) == (code, message)
    assert advice in str(caught.value.hint)


def test_a_property_is_the_same_only_with_the_same_source_and_model() -> None:
    catalog = catalog_of(SCHEMA)
    [prop] = select_properties(catalog, ("City",), None)
    renamed = require_same_property(catalog_of(SCHEMA.replace("City", "Town")), prop)
    assert (renamed.entity.name, renamed.vector.name) == ("Town", "vec")
    for before, after in (('model="m"', 'model="n"'), ('Vector(2)? @embed("name"', 'Vector(3)? @embed("name"')):
        with pytest.raises(OmnigraphError, match="schema changed during the run: property 'vec' of City"):
            require_same_property(catalog_of(SCHEMA.replace(before, after)), prop)


@pytest.mark.parametrize(
    ("sizes", "rows_max", "bytes_max", "expected"),
    [
        ([[1, 1, 1]], 2, 1000, [[1, 1], [1]]),
        ([[1, 1], [1, 1]], 4, 1000, [[1, 1, 1, 1]]),
        ([[1, 1], [1, 1]], 3, 1000, [[1, 1, 1], [1]]),
        ([[5, 5], [5]], 10, 20, [[5], [5], [5]]),  # 8 bytes of vector each
        ([[50], [1, 1]], 10, 20, [[50], [1, 1]]),
        ([[1], [50], [1]], 10, 20, [[1], [50], [1]]),
        ([[], [1], []], 10, 20, [[1]]),
        ([], 10, 20, []),
    ],
)
def test_waves(sizes: list[list[int]], rows_max: int, bytes_max: int, expected: list[list[int]]) -> None:
    batches = [
        pa.RecordBatch.from_arrays([pa.array(["x" * size for size in part], pa.string())], ["text"]) for part in sizes
    ]
    waves = divide_waves(batches, rows_max=rows_max, bytes_max=bytes_max, vector_bytes=8)
    assert [[len(str(text)) for text in wave.column("text").to_pylist()] for wave in waves] == expected


@pytest.mark.parametrize(
    ("count", "batch", "tasks", "expected"),
    [(0, 2, 4, []), (3, 2, 4, [[2], [1]]), (9, 2, 2, [[2, 2], [2, 2, 1]]), (5, 1, 1, [[1, 1, 1, 1, 1]])],
)
def test_requests_of_tasks(count: int, batch: int, tasks: int, expected: list[list[int]]) -> None:
    texts = [str(number) for number in range(count)]
    groups = divide_texts(texts, batch=batch, tasks_max=tasks)
    assert [[len(request) for request in group] for group in groups] == expected
    assert [text for group in groups for request in group for text in request] == texts


def test_texts_are_cut_between_characters() -> None:
    assert [cut_text("aé€", size) for size in (6, 5, 3, 2, 1, 0)] == ["aé€", "aé", "aé", "a", "a", ""]


def test_tokens_are_a_quarter_of_the_characters() -> None:
    count = count_texts(pa.array(["abc", "é"])) + TextCount(1, 5)
    assert (count.rows, count.characters, count.tokens) == (3, 9, 3)
