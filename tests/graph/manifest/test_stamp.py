"""The format stamp: what is rejected, what is read unchanged, and how the first write migrates."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from omnigraph.base.errors import FormatError
from omnigraph.graph.branches import create_branch
from omnigraph.graph.coordination.environment import WriteEnvironment
from omnigraph.graph.manifest.lineage import make_lineage
from omnigraph.graph.manifest.publish import ManifestChange, Publisher, publish
from omnigraph.graph.manifest.snapshot import read_commit_snapshot, read_snapshot
from omnigraph.graph.manifest.stamp import FORMAT, STAMP_KEY, MigrationStep, StorageFormat, read_stamp
from omnigraph.storage.lance.commit import commit_schema_metadata
from omnigraph.storage.lance.dataset import Dataset, open_dataset
from omnigraph.storage.location import Location
from tests.graph.publishing import make_graph, moved, new_draft, pins_of, publish_next, target_of, tree
from tests.graph.writers import COMPANY, PERSON, Change, read_contents, run


@dataclass(slots=True)
class Steps:
    """Migrations that leave a mark. `crash_in` is the step that stops after its work, before the stamp."""

    crash_in: int | None = None
    ran: list[int] = field(default_factory=list)

    def step(self, number: int) -> MigrationStep:
        def migrate(manifest: Dataset) -> Dataset:
            self.ran.append(number)
            done = commit_schema_metadata(manifest, {f"test:step-{number}": "done"})
            if self.crash_in == number:
                self.crash_in = None
                raise KeyboardInterrupt
            return done

        return migrate

    def storage_format(self, current: int) -> StorageFormat:
        """Return a release with a step from every stamp since 1."""
        return StorageFormat(current, tuple(self.step(number) for number in range(1, current)))


def _stamp_of(location: Location, lance_branch: str | None = None) -> str:
    return open_dataset(location.child("__manifest"), branch=lance_branch).metadata[STAMP_KEY]


def _plant(location: Location, stamp: str) -> None:
    commit_schema_metadata(open_dataset(location.child("__manifest")), {STAMP_KEY: stamp})


@pytest.mark.parametrize(
    ("stamp", "oldest", "code"),
    [(3, 3, None), (4, 3, "stamp_too_new"), (2, 3, "stamp_too_old"), (2, 2, None), (1, 2, "stamp_too_old")],
)
def test_supported_stamps(local_location: Location, stamp: int, oldest: int, code: str | None) -> None:
    make_graph(local_location)
    _plant(local_location, str(stamp))
    storage_format = StorageFormat(3, Steps().storage_format(3).steps[oldest - 1 :])
    assert storage_format.oldest == oldest
    manifest = open_dataset(local_location.child("__manifest"))
    if code is None:
        assert read_stamp(manifest, storage_format) == stamp
    else:
        with pytest.raises(FormatError) as caught:
            read_stamp(manifest, storage_format)
        assert caught.value.code == code


def test_this_release_writes_and_reads_stamp_1(store_location: Location) -> None:
    assert make_graph(store_location).stamp == 1 == FORMAT.current == FORMAT.oldest
    assert _stamp_of(store_location) == "1"


@pytest.mark.parametrize(
    ("stamp", "code", "hint"),
    [
        ("2", "stamp_too_new", "Upgrade omnigraph"),
        ("0", "stamp_too_old", "Export it with the omnigraph that created it"),
        ("", "stamp_malformed", "from a backup"),
        ("-1", "stamp_malformed", "from a backup"),
        ("one", "stamp_malformed", "from a backup"),
        ("²", "stamp_malformed", "from a backup"),
    ],
)
def test_unsupported_stamp_is_an_error_and_nothing_is_written(
    durable_location: Location, stamp: str, code: str, hint: str
) -> None:
    snapshot = make_graph(durable_location)
    _plant(durable_location, stamp)
    before = tree(durable_location)
    for action in (
        lambda: read_snapshot(durable_location),
        lambda: read_snapshot(durable_location, version=1),
        lambda: read_commit_snapshot(durable_location, snapshot.head),
        lambda: publish(target_of(snapshot), ManifestChange(commit=new_draft())),
        lambda: run(durable_location, [Change(PERSON, insert=("x",))]),
    ):
        with pytest.raises(FormatError) as caught:
            action()
        assert caught.value.code == code
        assert hint in caught.value.hint
    assert tree(durable_location) == before


def test_reading_an_older_graph_changes_nothing(durable_location: Location) -> None:
    make_graph(durable_location)
    published = publish_next(durable_location)
    assert published is not None
    before, pins = tree(durable_location), pins_of(read_snapshot(durable_location))
    steps = Steps()
    storage_format = steps.storage_format(3)
    snapshot = read_snapshot(durable_location, storage_format=storage_format)
    assert (snapshot.stamp, pins_of(snapshot)) == (1, pins)
    assert read_snapshot(durable_location, version=1, storage_format=storage_format).stamp == 1
    assert read_commit_snapshot(durable_location, published.id, storage_format=storage_format)[0].head == snapshot.head
    assert (steps.ran, tree(durable_location)) == ([], before)


def test_the_first_write_migrates_step_by_step(durable_location: Location) -> None:
    make_graph(durable_location)
    steps = Steps()
    storage_format = steps.storage_format(3)
    for number in range(2):
        run(
            durable_location,
            [Change(PERSON, insert=(f"p{number}",))],
            environment=WriteEnvironment(storage_format=storage_format),
        )
    assert steps.ran == [1, 2]
    assert _stamp_of(durable_location) == "3"
    snapshot = read_snapshot(durable_location, storage_format=storage_format)
    assert snapshot.stamp == 3
    assert len(list(make_lineage(snapshot.head, snapshot.manifest.read_commits()).history())) == 3
    with pytest.raises(FormatError) as caught:
        read_snapshot(durable_location)
    assert caught.value.code == "stamp_too_new"
    assert read_snapshot(durable_location, version=1, storage_format=storage_format).stamp == 1


@pytest.mark.parametrize("crash_in", [1, 2])
def test_step_is_repeated_after_a_crash(durable_location: Location, crash_in: int) -> None:
    first = make_graph(durable_location)
    steps = Steps(crash_in)
    storage_format = steps.storage_format(3)
    change = ManifestChange(commit=new_draft(), tables=(moved(first.tables[PERSON]),))
    with pytest.raises(KeyboardInterrupt):
        publish(target_of(first), change, (), Publisher(storage_format=storage_format))
    assert _stamp_of(durable_location) == str(crash_in)
    assert pins_of(read_snapshot(durable_location, storage_format=storage_format)) == pins_of(first)
    publish(target_of(first), change, (), Publisher(storage_format=storage_format))
    assert steps.ran == ([1, 1, 2] if crash_in == 1 else [1, 2, 2])
    assert _stamp_of(durable_location) == "3"
    assert read_snapshot(durable_location, storage_format=storage_format).tables[PERSON].pin.version == 2


def test_branch_inherits_the_stamp_and_migrates_separately(durable_location: Location) -> None:
    make_graph(durable_location)
    old = create_branch(durable_location, "old", "me", read_snapshot(durable_location))
    storage_format = Steps().storage_format(2)
    environment = WriteEnvironment(storage_format=storage_format)
    run(durable_location, [Change(COMPANY, insert=("on main",))], environment=environment)
    assert (_stamp_of(durable_location), _stamp_of(durable_location, old.lance_branch)) == ("2", "1")
    main = read_snapshot(durable_location, storage_format=storage_format)
    new = create_branch(durable_location, "new", "me", main, environment)
    assert _stamp_of(durable_location, new.lance_branch) == "2"
    run(durable_location, [Change(COMPANY, insert=("on old",))], branch="old", environment=environment)
    assert _stamp_of(durable_location, old.lance_branch) == "2"
    assert read_snapshot(durable_location, "old", storage_format=storage_format).stamp == 2


def test_branch_with_a_newer_stamp_does_not_affect_others(durable_location: Location) -> None:
    """The stamp of the opened branch is checked."""
    make_graph(durable_location)
    branch = create_branch(durable_location, "ahead", "me", read_snapshot(durable_location))
    run(
        durable_location,
        [Change(COMPANY, insert=("x",))],
        branch="ahead",
        environment=WriteEnvironment(storage_format=FORMAT),
    )
    manifest = open_dataset(durable_location.child("__manifest"), branch=branch.lance_branch)
    commit_schema_metadata(manifest, {STAMP_KEY: "9"})
    with pytest.raises(FormatError) as caught:
        read_snapshot(durable_location, "ahead")
    assert caught.value.code == "stamp_too_new"
    assert read_contents(durable_location)[COMPANY] == {}
