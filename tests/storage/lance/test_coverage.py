from __future__ import annotations

import pytest

from omnigraph.schema.property_types import IndexKind
from omnigraph.storage.lance.indexes import (
    Coverage,
    Degraded,
    IndexDescription,
    Indexed,
    IndexSpec,
    coverage_of,
    read_indexes,
)
from omnigraph.storage.location import Location
from tests.storage.samples import make_people

SPEC = IndexSpec("id", IndexKind.BTREE)


def _index(column: str, kind: IndexKind | None, *fragments: int) -> IndexDescription:
    return IndexDescription(
        name=f"{column}_x",
        column=column,
        kind=kind,
        lance_type="BTree",
        segments=1,
        fragment_ids=frozenset(fragments),
        size_bytes=0,
    )


@pytest.mark.parametrize(
    ("indexes", "expected"),
    [
        ([], Degraded((0, 1, 2), 60)),
        ([_index("id", IndexKind.BTREE, 0, 1, 2)], Indexed()),
        ([_index("id", IndexKind.BTREE, 0, 1, 2, 99)], Indexed()),
        ([_index("id", IndexKind.BTREE, 0)], Degraded((1, 2), 50)),
        ([_index("id", IndexKind.BTREE, 0), _index("id", IndexKind.BTREE, 1, 2)], Indexed()),
        ([_index("id", IndexKind.INVERTED, 0, 1, 2)], Degraded((0, 1, 2), 60)),
        ([_index("id", None, 0, 1, 2)], Degraded((0, 1, 2), 60)),
        ([_index("name", IndexKind.BTREE, 0, 1, 2)], Degraded((0, 1, 2), 60)),
    ],
)
def test_coverage_decision(indexes: list[IndexDescription], expected: Coverage) -> None:
    assert coverage_of(SPEC, indexes, {0: 10, 1: 20, 2: 30}) == expected


def test_empty_table_is_covered_only_by_an_index() -> None:
    assert coverage_of(SPEC, [_index("id", IndexKind.BTREE)], {}) == Indexed()
    assert coverage_of(SPEC, [], {}) == Degraded((), 0)


def test_index_of_unknown_kind_is_listed_but_covers_nothing(local_location: Location) -> None:
    dataset = make_people(local_location, ["a"])
    dataset.native_copy().create_scalar_index("count", "BITMAP", name="external")
    (index,) = read_indexes(dataset.newest())
    assert (index.name, index.column, index.kind, index.fragment_ids) == ("external", "count", None, frozenset([0]))
