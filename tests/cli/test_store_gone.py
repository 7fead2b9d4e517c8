"""S3 goes away amid a command that needs no Spark: one sentence with a hint, nothing lost, the next run works."""

from __future__ import annotations

import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import lance
import pytest

import omnigraph as og
from omnigraph.storage.files import list_files
from omnigraph.storage.location import Location
from tests.cli.process import SCHEMA, Outcome, assert_told, omnigraph
from tests.conftest import S3Server
from tests.s3_proxy import Fault, Mode, S3Proxy

pytestmark = pytest.mark.soak

PEOPLE = "query q() { match { $p: Person } return { $p.slug, $p.age } }"
COMMANDS = {
    "mutate": ("mutate", "-e", 'query a() { insert Person { slug: "new" } }', "--store"),
    "repair": ("repair", "--confirm"),
    "cleanup": ("cleanup", "--keep", "1", "--confirm", "--yes"),
    "branch create": ("branch", "create", "new", "--store"),
    "branch merge": ("branch", "merge", "b"),
    "query": ("query", "-e", PEOPLE, "--store"),
}
EVERYTHING = sys.maxsize
State = tuple[list[str], str, list[str]]


@pytest.fixture(scope="module")
def proxy(s3_server: S3Server) -> Iterator[S3Proxy]:
    with S3Proxy(s3_server).running() as proxy:
        yield proxy


@pytest.fixture(scope="module")
def env(proxy: S3Proxy) -> dict[str, str]:
    """The variables with which a process reaches S3 through the proxy."""
    env = {name.upper(): value for name, value in proxy.server.options.items()}
    return {**env, "AWS_ENDPOINT": proxy.endpoint, "AWS_ENDPOINT_URL": proxy.endpoint}


@pytest.mark.parametrize("command", COMMANDS)
def test_s3_gone_in_the_middle(command: str, proxy: S3Proxy, env: dict[str, str], tmp_path: Path) -> None:
    def run(place: Location) -> Outcome:
        return omnigraph(*COMMANDS[command], place.uri, cwd=tmp_path, env=env)

    proxy.is_old = command == "cleanup"
    place = made(proxy, command)
    before = state(place)
    with proxy.fault(Fault(Mode.REFUSE, "", "", first_hit=EVERYTHING)) as counted:
        whole = run(place)
    assert whole.exit_code == 0, whole.stderr
    after = state(place)
    for numerator in (1, 2):
        place = made(proxy, command)
        first_hit = counted.hits * numerator // 3
        with proxy.fault(Fault(Mode.REFUSE, "", "", first_hit=first_hit, times=EVERYTHING)) as gone:
            tried = run(place)
        assert gone.acted
        assert_told(tried)
        left = state(place)
        assert left in (before, after)
        if before != after and "known" not in tried.stderr:
            assert (left == after) == (tried.exit_code == 0)
        if left == before:
            again = run(place)
            assert again.exit_code == 0, again.stderr
        assert state(place) == after
        doctor = omnigraph("doctor", place.uri, cwd=tmp_path, env=env)
        assert doctor.exit_code == 0, doctor.stdout


def made(proxy: S3Proxy, command: str) -> Location:
    """A new graph with two branches; for repair, one whose files somebody else has rearranged."""
    place = proxy.server.location(f"{uuid.uuid4().hex}/graph.omni")
    how = og.OpenOptions(place.storage_options)
    graph = og.init(place.uri, SCHEMA, options=how)
    for slug in ("ada", "grace"):
        graph.mutate(f'query a() {{ insert Person {{ slug: "{slug}", age: 1 }} }}')
    branch = graph.branch("b", create_from="main")
    branch.mutate('query a() { insert Person { slug: "of b" } }')
    if command == "repair":
        tables = {"/".join(file.path.split("/")[:2]) for file in list_files(place) if "nodes/" in file.path}
        for table in tables:
            dataset = lance.dataset(place.child(table).uri, storage_options=place.storage_options)
            if dataset.count_rows():
                dataset.optimize.compact_files()
    return place


def state(place: Location) -> State:
    """The people, the schema and the branches, past the proxy."""
    graph = og.open(place.uri, read_only=True, options=og.OpenOptions(place.storage_options))
    people = sorted(map(str, graph.query(PEOPLE).rows()))
    return people, graph.snapshot().schema.source, [found.record.name for found in graph.branches()]
