"""S3 stops during a command: one error with a hint, no data is lost, and the next run works."""

from __future__ import annotations

import json
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import lance
import pytest

import omnigraph as og
from omnigraph.storage.files import list_files
from omnigraph.storage.location import Location
from tests.cli.process import OMNIGRAPH, SCHEMA, CommandResult, assert_success_or_one_error, environment, omnigraph
from tests.conftest import S3Server
from tests.pipeline.in_place import load_here
from tests.s3_proxy import Fault, Mode, S3Proxy

pytestmark = [pytest.mark.soak, pytest.mark.xdist_group("spark")]

PEOPLE = "query q() { match { $p: Person } return { $p.slug, $p.age } }"
COMMANDS = {
    "mutate": ("mutate", "-e", 'query a() { insert Person { slug: "new" } }', "--store"),
    "repair": ("repair", "--confirm"),
    "cleanup": ("cleanup", "--keep", "1", "--confirm", "--yes"),
    "branch create": ("branch", "create", "new", "--store"),
    "branch merge": ("branch", "merge", "b"),
    "query": ("query", "-e", PEOPLE, "--store"),
}
ON_SPARK = {
    "load": ("load", "--runner", "spark", "--data", "people.jsonl"),
    "optimize": ("optimize", "--runner", "spark"),
    "export": ("export", "--runner", "spark", "--force", "--out", "dump.jsonl"),
    "schema apply": ("schema", "apply", "--runner", "spark", "--schema", "next.pg"),
}
NEXT_SCHEMA = SCHEMA.replace("age: I32?", "age: I32?\n  rank: I32 @default(1)")
SLUGS = ("ada", "grace")
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


@pytest.fixture(scope="module")
def spark_env(env: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """The same variables, and a running Spark server whose workers have them too."""
    env = {**env, "OMNIGRAPH_HOME": str(tmp_path_factory.mktemp("warm")), "OMNIGRAPH_CLASS_ARCHIVE": "off"}
    subprocess.run([OMNIGRAPH, "spark", "start", "--quiet"], env=environment(env), check=True)
    try:
        yield env
    finally:
        subprocess.run([OMNIGRAPH, "spark", "stop", "--quiet"], env=environment(env), check=True)


@pytest.mark.parametrize("command", COMMANDS)
def test_s3_stops_during_a_command(command: str, proxy: S3Proxy, env: dict[str, str], tmp_path: Path) -> None:
    check(command, proxy, env, tmp_path)


@pytest.mark.parametrize("command", ON_SPARK)
def test_s3_stops_during_work_on_spark(command: str, proxy: S3Proxy, spark_env: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "next.pg").write_text(NEXT_SCHEMA, encoding="utf-8")
    count = 50
    lines = (json.dumps({"type": "Person", "data": {"slug": f"p{n}", "age": n}}) + "\n" for n in range(count))
    (tmp_path / "people.jsonl").write_text("".join(lines), encoding="utf-8")
    check(command, proxy, spark_env, tmp_path)
    assert command != "export" or len((tmp_path / "dump.jsonl").read_text().splitlines()) == len(SLUGS)


@pytest.mark.parametrize("command", [name for name in ON_SPARK if name != "schema apply"])
def test_workers_without_the_address_of_s3(
    command: str, proxy: S3Proxy, env: dict[str, str], warm_spark: dict[str, str], tmp_path: Path
) -> None:
    """Workers of a Spark server that was started without the variables use another address, and time out."""
    (tmp_path / "people.jsonl").write_text('{"type": "Person", "data": {"slug": "p"}}\n', encoding="utf-8")
    location = create_graph(proxy, command, tmp_path)
    before = state(location)
    first = omnigraph(*ON_SPARK[command], location.uri, cwd=tmp_path, env={**env, **warm_spark})
    assert_success_or_one_error(first)
    assert first.exit_code == 1
    assert state(location) == before
    assert not (tmp_path / "dump.jsonl").exists()


def check(command: str, proxy: S3Proxy, env: dict[str, str], tmp_path: Path) -> None:
    """Stop S3 after one third of the requests of a complete run, and after two thirds."""

    def run(location: Location) -> CommandResult:
        return omnigraph(*{**COMMANDS, **ON_SPARK}[command], location.uri, cwd=tmp_path, env=env)

    proxy.is_old = command == "cleanup"
    location = create_graph(proxy, command, tmp_path)
    before = state(location)
    with proxy.fault(Fault(Mode.REFUSE, "", "", first_hit=EVERYTHING)) as counted:
        complete = run(location)
    assert complete.exit_code == 0, complete.stderr
    after = state(location)
    for numerator in (1, 2):
        location = create_graph(proxy, command, tmp_path)
        first_hit = counted.hits * numerator // 3
        with proxy.fault(Fault(Mode.REFUSE, "", "", first_hit=first_hit, times=EVERYTHING)) as fault:
            first = run(location)
        assert fault.acted
        assert_success_or_one_error(first)
        if command == "load":
            # Recovers the interrupted load. If that published its rows, a second load would fail because they exist.
            og.open(location.uri, storage_options=location.storage_options)
        current = state(location)
        assert current in (before, after)
        if before != after and "known" not in first.stderr:
            assert (current == after) == (first.exit_code == 0)
        if current == before:
            again = run(location)
            assert again.exit_code == 0, again.stderr
        assert state(location) == after
        doctor = omnigraph("doctor", location.uri, cwd=tmp_path, env=env)
        assert doctor.exit_code == 0, doctor.stdout


def create_graph(proxy: S3Proxy, command: str, files: Path) -> Location:
    """Create a graph with two branches. For `repair`, another tool has compacted its files.

    For `schema apply`, it has enough people that Spark fills the new column.
    """
    location = proxy.server.location(f"{uuid.uuid4().hex}/graph.omni")
    graph = og.init(location.uri, SCHEMA, storage_options=location.storage_options)
    for slug in SLUGS:
        graph.mutate(f'query a() {{ insert Person {{ slug: "{slug}", age: 1 }} }}')
    branch = graph.create_branch("b", from_="main")
    branch.mutate('query a() { insert Person { slug: "of b" } }')
    if command == "schema apply":
        load_here(location, [str(files / "people.jsonl")])
    if command == "repair":
        tables = {"/".join(file.path.split("/")[:2]) for file in list_files(location) if "nodes/" in file.path}
        for table in tables:
            dataset = lance.dataset(location.child(table).uri, storage_options=location.storage_options)
            if dataset.count_rows():
                dataset.optimize.compact_files()
    return location


def state(location: Location) -> State:
    """Return the people, the schema and the branches, read without the proxy."""
    graph = og.open(location.uri, read_only=True, storage_options=location.storage_options)
    people = sorted(map(str, graph.query(PEOPLE).to_pylist()))
    return people, graph.snapshot().schema.source, [status.record.name for status in graph.list_branches()]
