"""Loads on Spark, in a process of their own: `python -m tests.pipeline.load_scenario NAME` prints JSON.

The graph is `graph.omni` in the working directory. Workers import the task functions from here.
"""

from __future__ import annotations

import hashlib
import json
import os
import signal
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import omnigraph as og
from omnigraph.base.failpoints import observed
from omnigraph.graph.manifest.layout import MANIFEST
from omnigraph.graph.manifest.snapshot import read_snapshot
from omnigraph.pipeline.load.change import LoadMode
from omnigraph.pipeline.load.inputs.files import find_inputs
from omnigraph.pipeline.load.inputs.ndjson import plan_json_pieces
from omnigraph.pipeline.load.run import LoadRejectedError, LoadRequest, load
from omnigraph.pipeline.load.source import InputSource
from omnigraph.pipeline.load.tasks import LoadPart, LoadShape, LoadTask, load_piece
from omnigraph.pipeline.runner import RunTasks
from omnigraph.pipeline.spark.runner import SparkRunner
from omnigraph.storage.location import Location, parse_location
from tests.pipeline.export_scenario import rows_forbidden
from tests.waiting import SECONDS_MAX

SCHEMA: Final = """\
node Person { slug: String @key  age: I32?  email: String @unique  bio: String? }
edge Knows: Person -> Person @card(0..50) { weight: F64 @key(src, dst) }
"""
PEOPLE: Final = 3_000
RANGE_BYTES: Final = 60_000


def folder() -> Path:
    return Path(os.environ["SCENARIO_FOLDER"])


def graph() -> Location:
    return parse_location(str(folder() / "graph.omni"))


def write_inputs(place: Path) -> None:
    """Write people and edges, then changes with new rows, then a bad row."""
    people = [_person(number, "old") for number in range(PEOPLE)]
    knows = [_knows(number, (number * 7 + step) % PEOPLE) for number in range(PEOPLE) for step in (1, 2)]
    news = [_person(number, "new") for number in range(PEOPLE // 2, PEOPLE * 3 // 2)]
    newer = [_person(number, "newer") for number in range(0, PEOPLE * 2, 3)]
    files = {
        "base.jsonl": [*people, *knows],
        "small.jsonl": [*news, _knows(0, PEOPLE + 1)],
        "large.jsonl": [*newer, _knows(1, PEOPLE * 2 - 3)],
        "bad.jsonl": [_person(PEOPLE * 9, "bad"), _knows(1, PEOPLE * 99), _person(PEOPLE * 9, "bad")],
    }
    for name, records in files.items():
        place.joinpath(name).write_text("".join(json.dumps(record) + "\n" for record in records))


def _person(number: int, bio: str) -> dict[str, object]:
    data = {"slug": f"p{number}", "age": number % 90, "email": f"{number}@x", "bio": f"{bio} {'é' * 20}"}
    return {"type": "Person", "data": data}


def _knows(source: int, target: int) -> dict[str, object]:
    return {"edge": "Knows", "from": f"p{source}", "to": f"p{target}", "data": {"weight": source / 7}}


class WatchedSource(InputSource):
    """Pieces that another task function loads."""

    function: Callable[[LoadTask], LoadPart] = staticmethod(load_piece)

    def read(self, shape: LoadShape, run_tasks: RunTasks) -> Sequence[LoadPart]:
        return run_tasks(type(self).function, [LoadTask(piece, shape) for piece in self.pieces])


def fail_after_writing(task: LoadTask) -> LoadPart:
    """Fail the first attempt at each of two pieces after everything is written."""
    part = load_piece(task)
    if task.piece.part < 2 and _is_first(task, f"failed-{task.piece.part}"):
        raise RuntimeError("the first attempt fails")
    return part


def kill_the_executor(task: LoadTask) -> LoadPart:
    """Kill the executor in the first attempt at the second piece, after everything is written."""
    part = load_piece(task)
    if task.piece.part == 1 and _is_first(task, "killed"):
        os.kill(_parent_of(os.getppid()), signal.SIGKILL)
        threading.Event().wait(60)
    return part


def wait_after_writing(task: LoadTask) -> LoadPart:
    load_piece(task)
    _scenario_folder(task).joinpath(f"waiting-{task.piece.part}").touch()
    threading.Event().wait(SECONDS_MAX)
    raise AssertionError("timed out")


def record_writer(task: LoadTask) -> LoadPart:
    _scenario_folder(task).joinpath(f"executor-{os.getppid()}").touch()
    return load_piece(task)


def _scenario_folder(task: LoadTask) -> Path:
    """Return the working directory, which a worker of a standalone cluster does not know."""
    return Path(task.piece.name).parent


def _is_first(task: LoadTask, name: str) -> bool:
    try:
        _scenario_folder(task).joinpath(name).touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


def _parent_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


class FailingSource(WatchedSource):
    function = staticmethod(fail_after_writing)


class KillingSource(WatchedSource):
    function = staticmethod(kill_the_executor)


class WaitingSource(WatchedSource):
    function = staticmethod(wait_after_writing)


class LargeWatchedSource(WatchedSource):
    """Files that are checked in buckets, whatever their size."""

    function = staticmethod(record_writer)

    @property
    def text_bytes(self) -> None:
        return None


def load_file(name: str, mode: LoadMode, kind: type[InputSource]) -> dict[str, int]:
    source = kind(plan_json_pieces(find_inputs([str(folder() / name)]), RANGE_BYTES))
    return dict(load(graph(), LoadRequest(source=source, mode=mode, actor="ada"), SparkRunner()).counts)


def run_all() -> dict[str, Any]:
    """Load in every way, with failing tasks, on the configured session; return the state of the graph at the end."""
    og.init(graph().uri, SCHEMA)
    by_driver: list[tuple[str, str]] = []
    with observed(lambda effect, place: by_driver.append((effect, place))):
        counts = [load_file("base.jsonl", LoadMode.APPEND, FailingSource)]
    failed = len(list(folder().glob("failed-*")))
    counts.append(load_file("small.jsonl", LoadMode.MERGE, InputSource))
    counts.append(load_file("large.jsonl", LoadMode.MERGE, LargeWatchedSource))
    head = read_snapshot(graph()).head
    try:
        load_file("bad.jsonl", LoadMode.APPEND, LargeWatchedSource)
    except LoadRejectedError as rejected:
        bad = {rule.word: count for rule, count in rejected.report.counts}
    out = folder() / "out.jsonl"
    with rows_forbidden():
        og.Graph(graph()).export(out)
    return {
        "counts": counts,
        "failed_tasks": failed,
        "bad": bad,
        "unmoved": read_snapshot(graph()).head == head,
        "executors": len(list(folder().glob("executor-*"))),
        "written_by_driver": [
            place for effect, place in by_driver if effect == "dataset.stage" and MANIFEST not in place
        ],
        "scratch": (folder() / "graph.omni" / "__scratch").exists(),
        "export": hashlib.sha256(out.read_bytes()).hexdigest(),
        "lines": out.read_bytes().count(b"\n"),
    }


def run_killed_executor() -> dict[str, Any]:
    og.init(graph().uri, SCHEMA)
    counts = load_file("base.jsonl", LoadMode.APPEND, KillingSource)
    return {"counts": counts, "killed": (folder() / "killed").exists()}


def run_all_and_killed_executor() -> dict[str, Any]:
    """Run both scenarios on one session, the second one in a folder of its own."""
    seen = {"all": run_all()}
    os.environ["SCENARIO_FOLDER"] = str(folder() / "killed-executor")
    return {**seen, "killed_executor": run_killed_executor()}


def run_wait() -> dict[str, Any]:
    og.init(graph().uri, SCHEMA)
    load_file("base.jsonl", LoadMode.APPEND, WaitingSource)
    raise AssertionError


def main() -> None:
    run: Callable[[], dict[str, Any]] = globals()[f"run_{sys.argv[1]}"]
    sys.stdout.write(json.dumps(run()))


if __name__ == "__main__":
    from tests.pipeline import load_scenario  # so that workers know the functions by this name

    load_scenario.main()
