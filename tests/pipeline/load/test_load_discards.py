"""Loads that fail before their commit leave no file, fork or version."""

from __future__ import annotations

import base64
import gzip
import json
import pickle
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

import omnigraph as og
from omnigraph.base.errors import ConflictError, ContentError, OmnigraphError
from omnigraph.graph.branches import create_branch
from omnigraph.graph.manifest.snapshot import read_snapshot
from omnigraph.integrity.report import Violation
from omnigraph.pipeline.load.change import LoadMode
from omnigraph.pipeline.load.run import LoadRejectedError, LoadRequest, load
from omnigraph.pipeline.load.source import InputSource
from omnigraph.pipeline.load.tasks import LoadTask
from omnigraph.pipeline.load.written import WRITTEN
from omnigraph.pipeline.runner import Result, Task
from omnigraph.storage.location import Location, Scheme
from omnigraph.storage.objects import ObjectStore
from tests.pipeline.in_place import BucketedSource, files, in_place
from tests.pipeline.load.test_run import contents, people, source

SCHEMA = """\
node Person { slug: String @key  age: I32?  photo: Blob? }
node Note { text: String }
"""


@pytest.fixture
def root(store_location: Location) -> Location:
    og.init(store_location.uri, SCHEMA, storage_options=dict(store_location.options), actor="ada")
    return store_location


@pytest.fixture(params=[InputSource, BucketedSource], ids=["driver", "buckets"])
def kind(request: pytest.FixtureRequest) -> type[InputSource]:
    source_class: type[InputSource] = request.param
    return source_class


def person(folder: Path, *slugs: str, **members: object) -> Path:
    path = folder / f"{'-'.join(slugs)}.jsonl"
    records = [{"type": "Person", "data": {"slug": slug, **members}} for slug in slugs]
    path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    return path


@pytest.mark.parametrize("branch", ["main", "import"])
def test_damaged_file(root: Location, tmp_path: Path, kind: type[InputSource], branch: str) -> None:
    """Other pieces were already written, and on a branch every table was forked."""
    create_branch(root, "import", "ada", read_snapshot(root))
    cut = tmp_path / "cut.jsonl.gz"
    cut.write_bytes(gzip.compress(b'{"type":"Note","data":{"text":"a"}}\n' * 1000)[:-20])
    before = files(root)
    request = LoadRequest(
        source=source(person(tmp_path, "ada"), cut, kind=kind), mode=LoadMode.APPEND, actor="ada", branch=branch
    )
    with pytest.raises(ContentError) as refused:
        load(root, request, in_place)
    assert refused.value.code == "input_unreadable"
    assert files(root) == before


@pytest.mark.parametrize("mode", LoadMode)
def test_large_blobs(root: Location, tmp_path: Path, kind: type[InputSource], mode: LoadMode) -> None:
    """Lance stores a large blob in a file of its own."""
    photo = "base64:" + base64.b64encode(bytes(100_000)).decode()
    before = files(root)
    input_source = source(person(tmp_path, *(f"p{number}" for number in range(20)), "p0", photo=photo), kind=kind)
    with pytest.raises(LoadRejectedError):
        load(root, LoadRequest(source=input_source, mode=mode, actor="ada"), in_place)
    assert files(root) == before


def test_unwritable_error_file(root: Location, tmp_path: Path, kind: type[InputSource]) -> None:
    def full(violations: Iterable[Violation]) -> None:
        raise OSError(28, "No space left on device", str(list(violations)))

    before = files(root)
    request = LoadRequest(
        source=source(person(tmp_path, "ada"), kind=kind), mode=LoadMode.APPEND, actor="ada", errors=full
    )
    with pytest.raises(OSError, match="No space left"):
        load(root, request, in_place)
    assert files(root) == before


def test_overwrite_after_a_concurrent_load(root: Location, tmp_path: Path, kind: type[InputSource]) -> None:
    """The overwrite would delete the new rows, so it is rejected, and only the files of the other load are left."""
    theirs = source(person(tmp_path, "theirs"))
    after: set[str] = set()

    def overtaken(function: Callable[[Task], Result], tasks: Sequence[Task]) -> list[Result]:
        if not after:
            load(root, LoadRequest(source=theirs, mode=LoadMode.APPEND, actor="bob"), in_place)
            after.update(files(root))
        return in_place(function, tasks)

    request = LoadRequest(source=source(person(tmp_path, "mine"), kind=kind), mode=LoadMode.OVERWRITE, actor="ada")
    with pytest.raises(ConflictError) as refused:
        load(root, request, overtaken)
    assert refused.value.code == "read_set_conflict"
    assert list(people(root)) == ["theirs"]
    assert {path for path in files(root) if not path.startswith("__scratch/")} == after
    assert len(contents(root)["node:Note"]) == 0


def plant(path: str) -> None:
    """Create a file, as code in a file could."""
    Path(path).touch()


@dataclass(frozen=True, slots=True)
class PlantedCode:
    """Unpickling it runs code."""

    path: str

    def __reduce__(self) -> tuple[Callable[[str], None], tuple[str]]:
        return plant, (self.path,)


@pytest.mark.parametrize(
    "planted",
    [
        lambda bomb: bomb,
        lambda _: b'{"alias": "node:Person", "files": ["../../../precious.lance"]}',
        lambda _: b'{"alias": "node:Person", "files": [".lance"]}',
        lambda _: b'{"alias": "node:Person", "files": 7}',
    ],
    ids=["code", "a path outside", "no name", "not a note"],
)
def test_scratch_file_of_another_user_is_ignored(
    root: Location, tmp_path: Path, planted: Callable[[bytes], bytes]
) -> None:
    """An interrupted load reads which files its tasks wrote; other users may be able to write to the directory."""
    executed = tmp_path / "executed"
    load(root, LoadRequest(source=source(person(tmp_path, "kept")), mode=LoadMode.APPEND, actor="ada"), in_place)

    def interrupted(function: Callable[[Task], Result], tasks: Sequence[Task]) -> list[Result]:
        in_place(function, tasks)
        notes = next(task.shape.notes for task in tasks if isinstance(task, LoadTask))
        assert notes is not None
        notes.write(WRITTEN, planted(pickle.dumps(PlantedCode(str(executed)))))
        raise KeyboardInterrupt

    if root.scheme is Scheme.MEMORY:
        pytest.skip("its workers are in the same process")
    store = ObjectStore(root)
    store.create("precious.lance", b"mine")
    before = files(root)
    request = LoadRequest(source=source(person(tmp_path, "mine")), mode=LoadMode.APPEND, actor="ada")
    with pytest.raises(KeyboardInterrupt) as raised:
        load(root, request, interrupted)
    assert raised.value.__notes__ == ["nothing was written"]  # the note does not depend on the runner
    assert not executed.exists()
    assert files(root) == before
    assert list(people(root)) == ["kept"]


@pytest.mark.parametrize(
    ("kind", "mode", "step"),
    [
        (InputSource, LoadMode.APPEND, "load_piece"),
        (BucketedSource, LoadMode.APPEND, "load_piece"),
        (BucketedSource, LoadMode.MERGE, "check_ids"),
    ],
)
def test_interrupt_while_tasks_run(
    root: Location, tmp_path: Path, *, kind: type[InputSource], mode: LoadMode, step: str
) -> None:
    """Some tasks have written files, and their parts are never returned."""
    load(root, LoadRequest(source=source(person(tmp_path, "kept")), mode=LoadMode.APPEND, actor="ada"), in_place)

    def interrupted(function: Callable[[Task], Result], tasks: Sequence[Task]) -> list[Result]:
        results = in_place(function, tasks)
        if function.__name__ == step:
            raise KeyboardInterrupt
        return results

    if root.scheme is Scheme.MEMORY:
        pytest.skip("its workers are in the same process")
    before = files(root)
    request = LoadRequest(source=source(person(tmp_path, "mine", "kept"), kind=kind), mode=mode, actor="ada")
    with pytest.raises(KeyboardInterrupt):
        load(root, request, interrupted)
    assert files(root) == before


@pytest.mark.parametrize("late", ["load_piece", "check_ids"])
@pytest.mark.parametrize("mode", [LoadMode.APPEND, LoadMode.MERGE])
def test_task_that_runs_after_the_end_of_its_load_leaves_nothing(
    local_location: Location, tmp_path: Path, mode: LoadMode, late: str
) -> None:
    """Spark reports that a job is cancelled before it stops the processes of the tasks."""
    og.init(local_location.uri, SCHEMA, actor="ada")
    load(
        local_location,
        LoadRequest(source=source(person(tmp_path, "kept")), mode=LoadMode.APPEND, actor="ada"),
        in_place,
    )
    before = everything(local_location)
    running: list[Callable[[], object]] = []

    def interrupted(function: Callable[[Task], Result], tasks: Sequence[Task]) -> list[Result]:
        if function.__name__ != late:
            return in_place(function, tasks)
        running.extend(partial(function, task) for task in tasks)
        raise KeyboardInterrupt

    request = LoadRequest(
        source=source(person(tmp_path, "mine"), kind=BucketedSource), mode=mode, actor="ada", errors=lambda _: None
    )
    with pytest.raises(KeyboardInterrupt):
        load(local_location, request, interrupted)
    assert running
    for run in running:
        with pytest.raises(OmnigraphError):
            run()
    assert everything(local_location) == before
    assert list(people(local_location)) == ["kept"]


def everything(root: Location) -> set[Path]:
    """Return every file and directory of the graph except its locks."""
    folder = Path(root.uri)
    return {path for path in folder.rglob("*") if "__locks" not in path.parts}
