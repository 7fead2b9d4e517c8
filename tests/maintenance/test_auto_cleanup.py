"""Settings for automatic cleanup, on tables and on the manifest: no commit of Omnigraph triggers them."""

from __future__ import annotations

from omnigraph.api.graph import Graph
from omnigraph.base import limits
from omnigraph.graph.manifest.layout import MANIFEST
from omnigraph.graph.manifest.snapshot import read_snapshot
from omnigraph.maintenance.optimize.options import OptimizeOptions
from omnigraph.maintenance.optimize.run import optimize_all_tables
from omnigraph.storage.lance.dataset import Dataset, open_dataset
from omnigraph.storage.location import Location
from tests.graph.writers import AUTO_CLEANUP, COMPANY, PERSON, Change, create, plant_auto_cleanup, run, triple
from tests.maintenance.graphs import in_place, open_table


def test_every_version_of_a_table_opens_after_optimize(durable_location: Location) -> None:
    create(durable_location)
    for name in ("a", "b"):
        run(durable_location, triple([name]))
    plant_auto_cleanup(durable_location, PERSON)
    before = _contents(open_table(durable_location, PERSON))
    rows = optimize_all_tables(Graph(durable_location), OptimizeOptions(), in_place)
    person = next(row for row in rows if row.table_key == PERSON)
    assert (person.stripped, person.committed) == (True, True)
    table = open_table(durable_location, PERSON)
    assert table.config() == {}
    assert {version: ids for version, ids in _contents(table).items() if version in before} == before
    assert set(_contents(table)) == set(range(1, table.version + 1))


def test_strip_without_other_work_is_published(local_location: Location) -> None:
    create(local_location)
    run(local_location, triple(["a"]))
    optimize_all_tables(Graph(local_location), OptimizeOptions(), in_place)
    plant_auto_cleanup(local_location, PERSON)
    rows = optimize_all_tables(Graph(local_location), OptimizeOptions(), in_place)
    assert [row.table_key for row in rows if row.committed] == [PERSON, MANIFEST]
    assert open_table(local_location, PERSON).config() == {}


def test_every_version_of_the_manifest_opens_after_optimize_and_after_a_writer(local_location: Location) -> None:
    create(local_location)
    run(local_location, triple(["a"]))
    _plant_on_manifest(local_location)
    optimize_all_tables(Graph(local_location), OptimizeOptions(), in_place)
    _check_all_versions_open(local_location)
    assert read_snapshot(local_location).manifest.dataset.config() == {}
    _plant_on_manifest(local_location)
    for number in range(limits.MANIFEST_FRAGMENTS_MAX + 3):
        run(local_location, [Change(COMPANY, insert=(f"m{number}",))])
    _check_all_versions_open(local_location)


def _plant_on_manifest(location: Location) -> None:
    native = open_dataset(location.child(MANIFEST)).native_copy()
    native.update_config({**AUTO_CLEANUP, "lance.auto_cleanup.interval": str(native.version + 2)})


def _check_all_versions_open(location: Location) -> None:
    newest = open_dataset(location.child(MANIFEST))
    for version in range(1, newest.version + 1):
        assert newest.at_version(version).count_rows() > 0


def _contents(table: Dataset) -> dict[int, list[str]]:
    """Return the ids of every version that opens."""
    return {
        version: sorted(map(str, table.at_version(version).read(["id"])["id"].to_pylist()))
        for version in table.versions()
    }
