"""SIGKILL at every failpoint of a wave: the next run requests at most one wave again, and finishes the work."""

from __future__ import annotations

import multiprocessing
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

import omnigraph as og
from omnigraph.base import failpoints
from omnigraph.embedding.provider import ConfiguredProvider
from omnigraph.embedding.settings import EmbeddingSettings, ProviderKind
from omnigraph.embedding.vectors import make_mock_vector
from omnigraph.graph.coordination.environment import WriteEnvironment
from omnigraph.graph.manifest.snapshot import MAIN
from omnigraph.pipeline.embed.run import EmbedRequest, EmbedResult, embed
from omnigraph.pipeline.spark.auto import AutoRunner, RunnerChoice
from omnigraph.storage.location import parse_location
from tests.embedding.provider_server import ProviderServer, running_provider
from tests.graph.crash.child import HitRecorder
from tests.graph.crash.observe import find_leftovers
from tests.waiting import SECONDS_MAX

SCHEMA: Final = 'node Note { k: String @key  vec: Vector(4)? @embed("k") }'
TEXTS: Final = [f"t{number}" for number in range(6)]
VECTORS: Final = {text: pytest.approx(make_mock_vector(text, 4), rel=1e-6) for text in TEXTS}
WAVE_ROWS: Final = 2
POINTS: Final = (
    "lease.acquire.before", "lease.acquire.after", "lease.collect.before", "check.done", "arm.before", "arm.after",
    "commit.before", "commit.after", "publish.before", "publish.after", "disarm.before", "disarm.after",
    "lease.release.before", "lease.release.after",
)  # fmt: skip
FORK_POINTS: Final = ("fork.before", "fork.after")
"""The points that only the first write of a branch passes."""
BRANCH: Final = "dev"
KILLS: Final = (
    *((MAIN, f"{point}@2") for point in POINTS),
    *((BRANCH, f"{point}@1") for point in (*FORK_POINTS, "commit.after", "publish.after")),
)
PROCESSES: Final = multiprocessing.get_context("forkserver")


@pytest.fixture(scope="module")
def server() -> Iterator[ProviderServer]:
    PROCESSES.set_forkserver_preload([__name__])
    with running_provider() as provider:
        yield provider


def run(uri: str, url: str, branch: str) -> EmbedResult:
    settings = EmbeddingSettings(
        kind=ProviderKind.OPENAI_COMPATIBLE, base_url=url, model="m", key_variable=None, concurrency=1
    )
    provider = ConfiguredProvider(settings, {})
    request = EmbedRequest(actor="tester", branch=branch, provider=provider, wave_rows=WAVE_ROWS)
    return embed(parse_location(uri), request, AutoRunner(RunnerChoice.LOCAL))


def run_until(hit: str, uri: str, url: str, branch: str) -> None:
    failpoints._actions = failpoints._parse(f"{hit}=kill")
    run(uri, url, branch)


def create(uri: str, branch: str) -> og.Graph:
    graph = og.init(uri, SCHEMA)
    graph.mutate("query m() { " + " ".join(f'insert Note {{ k: "{text}" }}' for text in TEXTS) + " }")
    return graph if branch == MAIN else graph.create_branch(branch)


def test_the_points_are_those_of_a_wave(
    tmp_path: Path, server: ProviderServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = create(str(tmp_path / "g.omni"), BRANCH)
    recorder = HitRecorder()
    monkeypatch.setattr(failpoints, "_actions", recorder)
    run(graph.uri, server.url, BRANCH)
    assert {hit.removesuffix("@2") for hit in recorder.hits if hit.endswith("@2")} == set(POINTS)
    assert {hit.partition("@")[0] for hit in recorder.hits} == {*POINTS, *FORK_POINTS}


@pytest.mark.parametrize(("branch", "hit"), KILLS)
def test_a_kill_costs_at_most_one_wave(tmp_path: Path, server: ProviderServer, branch: str, hit: str) -> None:
    uri = str(tmp_path / "g.omni")
    graph = create(uri, branch)
    server.requests.clear()
    process = PROCESSES.Process(target=run_until, args=(hit, uri, server.url, branch))
    process.start()
    process.join(SECONDS_MAX)
    assert process.exitcode == -signal.SIGKILL, f"{hit} was not reached"
    requested = [text for texts in server.texts for text in texts]
    assert requested == TEXTS[: len(requested)]
    server.requests.clear()
    run(uri, server.url, branch)
    again = [text for texts in server.texts for text in texts]
    assert again == TEXTS[len(TEXTS) - len(again) :]
    assert len(requested) + len(again) <= len(TEXTS) + WAVE_ROWS
    assert run(uri, server.url, branch).pending == 0
    rows = graph.query("query q() { match { $n: Note } return { $n.k as k, $n.vec as v } }").to_pylist()
    assert {row["k"]: row["v"] for row in rows} == VECTORS
    commits = [commit.operation for commit in graph.log() if commit.operation == "embed"]
    assert len(commits) == len(TEXTS) // WAVE_ROWS
    graph.mutate('query m() { insert Note { k: "later" } }')
    assert find_leftovers(parse_location(uri), WriteEnvironment()) == []
