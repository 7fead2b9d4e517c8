"""Two processes publish on one branch: no commit is lost or duplicated, and the history is linear."""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import ExitStack

import pytest

from omnigraph.graph.manifest.lineage import make_lineage
from omnigraph.graph.manifest.snapshot import read_snapshot
from omnigraph.storage.location import Location
from tests.graph.publishing import make_graph
from tests.style.source import ROOT
from tests.waiting import SECONDS_MAX


@pytest.mark.parametrize(("store", "times"), [("local", 100), ("s3", 8)])
def test_every_commit_is_in_the_lineage_once(request: pytest.FixtureRequest, store: str, times: int) -> None:
    location = request.getfixturevalue(f"{store}_location")
    assert isinstance(location, Location)
    first = make_graph(location)
    made = _run_two(location, times)
    snapshot = read_snapshot(location)
    commits = snapshot.manifest.read_commits()
    history = list(make_lineage(snapshot.head, commits).history())
    sys.stdout.write(f"{store}: {len(made)} acknowledged, {len(commits)} rows, {len(history)} in the line\n")
    assert len(made) == len(set(made)) == 2 * times
    assert sorted(commit.id for commit in commits) == sorted([*made, first.head])
    assert sorted(commit.id for commit in history) == sorted([*made, first.head])
    parents = [commit.parent for commit in commits]
    assert len(set(parents)) == len(parents)
    hints = [commit.manifest_hint.version for commit in history]
    assert hints == sorted(set(hints), reverse=True)


def _run_two(location: Location, times: int) -> list[str]:
    """Return the commits that two processes published; they start at the same time."""
    command = [sys.executable, "-m", "tests.graph.publisher_process", location.uri]
    command += [json.dumps(dict(location.options)), str(times)]
    with ExitStack() as stack:
        started = [
            stack.enter_context(
                subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            )
            for _ in range(2)
        ]
        for process in started:
            stack.callback(process.kill)
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
        for process in started:
            assert process.stdin is not None
            process.stdin.write("go\n")
            process.stdin.flush()
        answers = [process.communicate(timeout=SECONDS_MAX)[0] for process in started]
    return [commit for answer in answers for commit in json.loads(answer)]
