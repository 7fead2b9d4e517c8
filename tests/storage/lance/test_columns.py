"""Changes of columns: every combination is one transaction, and Lance behaves as this requires."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from omnigraph.base.ids import PropertyId
from omnigraph.schema.catalog import Property
from omnigraph.schema.property_types import IndexKind, Scalar, ScalarType
from omnigraph.schema.tables import arrow_field
from omnigraph.storage.errors import CommitRaceError
from omnigraph.storage.lance.columns import ColumnPlan, stage_columns, write_columns
from omnigraph.storage.lance.commit import commit_branch, commit_restore, commit_staged
from omnigraph.storage.lance.dataset import Dataset, create_dataset
from omnigraph.storage.lance.indexes import IndexSpec, read_indexes
from omnigraph.storage.lance.stage import StagedTransaction
from omnigraph.storage.location import parse_location
from tests.storage.raw_writes import commit_index, stage_append, stage_delete

ID: pa.Field[Any] = pa.field("id", pa.utf8(), nullable=False, metadata={"lance-schema:unenforced-primary-key": "true"})
AGE: pa.Field[Any] = pa.field("age", pa.int64(), metadata={"omnigraph:property_id": "1"})
NAME: pa.Field[Any] = pa.field("name", pa.utf8(), nullable=False, metadata={"omnigraph:property_id": "2"})
TAGS: pa.Field[Any] = pa.field("tags", pa.list_(pa.field("item", pa.utf8(), nullable=False)))
SCORE: pa.Field[Any] = pa.field("score", pa.float64(), nullable=False, metadata={"omnigraph:property_id": "3"})
SCHEMA = pa.schema([ID, AGE, NAME])


@pytest.fixture
def dataset(tmp_path: Path) -> Dataset:
    """Two fragments, one of them with a deleted row, and an index on each column."""
    made = create_dataset(parse_location(str(tmp_path / "d")), rows("abc"))
    made = commit_staged(made, stage_append(made, rows("de")))
    deletion = stage_delete(made, "id = 'b'")
    assert deletion is not None
    made = commit_staged(made, deletion)
    for column in ("age", "name"):
        indexed = commit_index(made, IndexSpec(column, IndexKind.BTREE))
        assert isinstance(indexed, Dataset)
        made = indexed
    return made


@pytest.fixture(params=["main", "branch"])
def handle(request: pytest.FixtureRequest, dataset: Dataset) -> Dataset:
    return dataset if request.param == "main" else commit_branch(dataset, "g-1")


def rows(ids: str) -> pa.Table:
    return pa.table({"id": list(ids), "age": [ord(letter) for letter in ids], "name": list(ids)}, schema=SCHEMA)


def contents(dataset: Dataset) -> dict[str, dict[str, Any]]:
    rows = dataset.read().to_pylist()
    return {row.pop("id"): row for row in rows}


def staged(dataset: Dataset, plan: ColumnPlan) -> StagedTransaction:
    numbers = dataset.fragment_rows() if plan.writes_values else ()
    parts = [write_columns(dataset, plan, [number]) for number in numbers]
    return stage_columns(dataset, plan, parts)


def changed(dataset: Dataset, plan: ColumnPlan) -> Dataset:
    after = commit_staged(dataset, staged(dataset, plan))
    after.native.validate()  # type: ignore[no-untyped-call]
    assert after.schema.equals(plan.schema, check_metadata=True)
    return after


YEARS: pa.Field[Any] = AGE.with_name("years")
LABEL: pa.Field[Any] = NAME.with_name("label")
ORIGINS = {"id": "id", "age": "age", "name": "name"}
PLANS = {
    "rename": ColumnPlan(schema=pa.schema([ID, YEARS, NAME]), origins={"id": "id", "years": "age", "name": "name"}),
    "drop": ColumnPlan(schema=pa.schema([ID, NAME]), origins={"id": "id", "name": "name"}),
    "relax": ColumnPlan(schema=pa.schema([ID, AGE, NAME.with_nullable(True)]), origins=ORIGINS),
    "require": ColumnPlan(schema=pa.schema([ID, AGE.with_nullable(False), NAME]), origins=ORIGINS),
    "add null": ColumnPlan(schema=pa.schema([ID, AGE, NAME, TAGS]), origins=ORIGINS),
    "add filled": ColumnPlan(schema=pa.schema([ID, AGE, NAME, SCORE]), origins=ORIGINS, fills={"score": 0.5}),
    "all without values": ColumnPlan(
        schema=pa.schema([ID, TAGS, LABEL.with_nullable(True)]), origins={"id": "id", "label": "name"}
    ),
    "forget": ColumnPlan(schema=pa.schema([ID, NAME]), origins={"id": "id", "name": "name"}, erases_dropped=True),
    "forget, fill and relax": ColumnPlan(
        schema=pa.schema([ID, SCORE, TAGS, YEARS.with_nullable(False)]),
        origins={"id": "id", "years": "age"},
        fills={"score": 0.5},
        erases_dropped=True,
    ),
    "a filled one instead of one that goes": ColumnPlan(
        schema=pa.schema([ID, AGE, SCORE.with_name("name")]), origins={"id": "id", "age": "age"}, fills={"name": 0.5}
    ),
    "a filled one under a name that moves on": ColumnPlan(
        schema=pa.schema([ID, YEARS, NAME, SCORE.with_name("age")]),
        origins={"id": "id", "years": "age", "name": "name"},
        fills={"age": 0.5},
    ),
    "all": ColumnPlan(
        schema=pa.schema([ID, SCORE, TAGS, LABEL.with_nullable(True)]),
        origins={"id": "id", "label": "name"},
        fills={"score": 0.5},
    ),
}


@pytest.mark.parametrize("plan", PLANS.values(), ids=PLANS.keys())
def test_change_of_columns_is_one_transaction(handle: Dataset, plan: ColumnPlan) -> None:
    before = contents(handle)
    after = changed(handle, plan)
    assert after.version == handle.version + 1
    expected = {
        key: {
            name: row[plan.origins[name]] if name in plan.origins else plan.fills.get(name)
            for name in plan.schema.names
            if name != "id"
        }
        for key, row in before.items()
    }
    assert contents(after) == expected
    assert contents(handle) == before


@pytest.mark.parametrize("plan", PLANS.values(), ids=PLANS.keys())
def test_indexes_of_unchanged_columns_are_kept(dataset: Dataset, plan: ColumnPlan) -> None:
    after = changed(dataset, plan)
    unchanged = {name for name in plan.origins if name not in plan.copied_columns(dataset.schema)} - {"id"}
    assert {index.column for index in read_indexes(after)} == unchanged


@pytest.mark.parametrize("plan", PLANS.values(), ids=PLANS.keys())
def test_writes_and_deletes_work_after_a_change_of_columns(dataset: Dataset, plan: ColumnPlan) -> None:
    after = changed(dataset, plan)
    row: dict[str, Any] = {field.name: "z" if field.type == pa.utf8() else None for field in plan.schema}
    row |= {field.name: 7 for field in plan.schema if field.type in (pa.int64(), pa.float64())}
    after = commit_staged(after, stage_append(after, pa.Table.from_pylist([row], schema=plan.schema)))
    deletion = stage_delete(after, "id = 'a'")
    assert deletion is not None
    after = commit_staged(after, deletion)
    assert sorted(contents(after)) == ["c", "d", "e", "z"]


def test_values_of_a_dropped_column_never_reappear(dataset: Dataset) -> None:
    """Its values are still in the files, and its field id is not reused."""
    without = changed(dataset, ColumnPlan(schema=pa.schema([ID, AGE]), origins={"id": "id", "age": "age"}))
    again = changed(
        without, ColumnPlan(schema=pa.schema([ID, AGE, NAME.with_nullable(True)]), origins={"id": "id", "age": "age"})
    )
    assert {row["name"] for row in contents(again).values()} == {None}


def test_dropped_column_can_be_added_again_with_values(dataset: Dataset) -> None:
    origins = {"id": "id", "age": "age"}
    without = changed(dataset, ColumnPlan(schema=pa.schema([ID, AGE]), origins=origins))
    again = changed(without, ColumnPlan(schema=pa.schema([ID, AGE, NAME]), origins=origins, fills={"name": "new"}))
    assert {row["name"] for row in contents(again).values()} == {"new"}


@pytest.mark.parametrize("is_hard", [False, True])
def test_erased_values_are_in_no_file_of_the_version(handle: Dataset, is_hard: bool) -> None:
    secret = stage_append(handle, pa.table({"id": ["x"], "age": [1], "name": ["s3cret-text"]}, schema=SCHEMA))
    before = commit_staged(handle, secret)
    origins = {"id": "id", "age": "age"}
    assert any(b"s3cret" in data for data in data_files(before))
    plan = ColumnPlan(schema=pa.schema([ID, AGE]), origins=origins, erases_dropped=is_hard)
    expected = {key: {"age": row["age"]} for key, row in contents(before).items()}
    after = changed(before, plan)
    assert contents(after) == expected
    assert any(b"s3cret" in data for data in data_files(after)) is not is_hard


def data_files(dataset: Dataset) -> Iterator[bytes]:
    """Yield the bytes of every data file of the version."""
    for fragment in dataset.native.get_fragments():
        for file in fragment.data_files():
            (path,) = Path(dataset.location.uri).rglob(f"data/{file.path}")
            yield path.read_bytes()


@pytest.mark.parametrize("scalar", Scalar)
def test_a_null_column_of_every_type(dataset: Dataset, scalar: Scalar) -> None:
    added = arrow_field(Property(id=PropertyId(9), name="added", type=ScalarType(scalar), nullable=True))
    after = commit_staged(
        dataset, stage_columns(dataset, ColumnPlan(schema=pa.schema([*SCHEMA, added]), origins=ORIGINS))
    )
    made = create_dataset(dataset.location.child("../fresh"), pa.schema([*SCHEMA, added]).empty_table())
    assert after.schema.equals(made.schema, check_metadata=True)
    assert after.count_rows("added IS NULL") == 4


@pytest.mark.parametrize("name", ["rename", "add null", "all"])
def test_fence_rejects_transactions_staged_before_it(dataset: Dataset, name: str) -> None:
    prepared = staged(dataset, PLANS[name])
    commit_restore(dataset, dataset.version, {})
    with pytest.raises(CommitRaceError):
        commit_staged(dataset, prepared)


@pytest.mark.parametrize("name", ["rename", "all"])
def test_restore_undoes_a_change_of_columns(dataset: Dataset, name: str) -> None:
    before = contents(dataset)
    after = changed(dataset, PLANS[name])
    restored = commit_restore(after, dataset.version, {})
    assert restored.schema.equals(dataset.schema, check_metadata=True)
    assert contents(restored) == before
