"""S3 goes away in the middle of a command: one sentence with a hint, nothing lost, and the next run works."""

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
from omnigraph.base import limits
from omnigraph.storage.files import list_files
from omnigraph.storage.location import Location
from tests.cli.process import OMNIGRAPH, SCHEMA, Outcome, assert_told, environment, omnigraph
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
    "load": ("load", "--data", "people.jsonl"),
    "optimize": ("optimize",),
    "export": ("export", "--force", "--out", "dump.jsonl"),
    "schema apply": ("schema", "apply", "--schema", "next.pg"),
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
    """The same, and a warm Spark whose workers have them too."""
    env = {**env, "OMNIGRAPH_HOME": str(tmp_path_factory.mktemp("warm")), "OMNIGRAPH_CLASS_ARCHIVE": "off"}
    subprocess.run([OMNIGRAPH, "spark", "start", "--quiet"], env=environment(env), check=True)
    try:
        yield env
    finally:
        subprocess.run([OMNIGRAPH, "spark", "stop", "--quiet"], env=environment(env), check=True)


@pytest.mark.parametrize("command", COMMANDS)
def test_s3_gone_in_the_middle(command: str, proxy: S3Proxy, env: dict[str, str], tmp_path: Path) -> None:
    check(command, proxy, env, tmp_path)


@pytest.mark.parametrize("command", ON_SPARK)
def test_s3_gone_amid_work_on_spark(
    command: str, proxy: S3Proxy, spark_env: dict[str, str], tmp_path: Path
) -> None:
    (tmp_path / "next.pg").write_text(NEXT_SCHEMA, encoding="utf-8")
    count = limits.SCHEMA_DRIVER_ROWS_MAX if command == "schema apply" else 50
    lines = (json.dumps({"type": "Person", "data": {"slug": f"p{n}", "age": n}}) + "\n" for n in range(count))
    (tmp_path / "people.jsonl").write_text("".join(lines), encoding="utf-8")
    check(command, proxy, spark_env, tmp_path)
    assert command != "export" or len((tmp_path / "dump.jsonl").read_text().splitlines()) == len(SLUGS)


@pytest.mark.parametrize("command", [name for name in ON_SPARK if name != "schema apply"])
def test_workers_that_do_not_know_where_s3_is(
    command: str, proxy: S3Proxy, env: dict[str, str], warm_spark: dict[str, str], tmp_path: Path
) -> None:
    """A warm Spark that was started without the variables: its workers look elsewhere, and not for ever."""
    (tmp_path / "people.jsonl").write_text('{"type": "Person", "data": {"slug": "p"}}\n', encoding="utf-8")
    place = made(proxy, command, tmp_path)
    before = state(place)
    tried = omnigraph(*ON_SPARK[command], place.uri, cwd=tmp_path, env={**env, **warm_spark})
    assert_told(tried)
    assert tried.exit_code == 1
    assert state(place) == before
    assert not (tmp_path / "dump.jsonl").exists()


def check(command: str, proxy: S3Proxy, env: dict[str, str], tmp_path: Path) -> None:
    """Take S3 away after a third of the requests of a whole run, and after two thirds."""

    def run(place: Location) -> Outcome:
        return omnigraph(*{**COMMANDS, **ON_SPARK}[command], place.uri, cwd=tmp_path, env=env)

    proxy.is_old = command == "cleanup"
    place = made(proxy, command, tmp_path)
    before = state(place)
    with proxy.fault(Fault(Mode.REFUSE, "", "", first_hit=EVERYTHING)) as counted:
        whole = run(place)
    assert whole.exit_code == 0, whole.stderr
    after = state(place)
    for numerator in (1, 2):
        place = made(proxy, command, tmp_path)
        first_hit = counted.hits * numerator // 3
        with proxy.fault(Fault(Mode.REFUSE, "", "", first_hit=first_hit, times=EVERYTHING)) as gone:
            tried = run(place)
        assert gone.acted
        assert_told(tried)
        if command == "load":
            # Finishes what was interrupted; a second load of rows that landed so would be refused for them.
            og.open(place.uri, storage_options=place.storage_options)
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


def made(proxy: S3Proxy, command: str, files: Path) -> Location:
    """A new graph with two branches; for repair, one whose files somebody else has rearranged.

    For a change of the schema one with so many people that Spark fills the new column.
    """
    place = proxy.server.location(f"{uuid.uuid4().hex}/graph.omni")
    graph = og.init(place.uri, SCHEMA, storage_options=place.storage_options)
    for slug in SLUGS:
        graph.mutate(f'query a() {{ insert Person {{ slug: "{slug}", age: 1 }} }}')
    branch = graph.create_branch("b", from_="main")
    branch.mutate('query a() { insert Person { slug: "of b" } }')
    if command == "schema apply":
        load_here(place, [str(files / "people.jsonl")])
    if command == "repair":
        tables = {"/".join(file.path.split("/")[:2]) for file in list_files(place) if "nodes/" in file.path}
        for table in tables:
            dataset = lance.dataset(place.child(table).uri, storage_options=place.storage_options)
            if dataset.count_rows():
                dataset.optimize.compact_files()
    return place


def state(place: Location) -> State:
    """The people, the schema and the branches, past the proxy."""
    graph = og.open(place.uri, read_only=True, storage_options=place.storage_options)
    people = sorted(map(str, graph.query(PEOPLE).to_pylist()))
    return people, graph.snapshot().schema.source, [found.record.name for found in graph.list_branches()]
