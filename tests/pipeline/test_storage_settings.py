"""Workers use only the storage settings of the caller, and no secret is stored or printed.

Two S3 servers have the same bucket and a copy of the same graph. Spark was started with the settings of A, and every
command runs with those of B. This tests the first of two protections: workers write to the store of the driver. The
second one, the driver checks every staged file before it publishes it, is tested with `storage/durability.py`.
"""

from __future__ import annotations

import json
import sys
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import obstore
import pytest

import omnigraph as og
from omnigraph.storage.objects import open_s3_store
from tests.conftest import S3Server, running_s3_server
from tests.pipeline.process import ProcessEnvironment, processes_with
from tests.pipeline.test_clusters import small_executors

pytestmark = pytest.mark.xdist_group("spark")

SCHEMA = "node P { slug: String @key  n: I32? @index }\n"
SECRET = f"secret-{uuid.uuid4().hex}"
TOKEN = f"token-{uuid.uuid4().hex}"
COUNT = "query q() { match { $p: P } return { $p.slug as slug } }"


def variables(server: S3Server, secret: str = "other") -> dict[str, str]:
    return {
        "AWS_ACCESS_KEY_ID": "who",
        "AWS_SECRET_ACCESS_KEY": secret,
        "AWS_REGION": "us-east-1",
        "AWS_ENDPOINT_URL": server.endpoint,
    }


@dataclass(frozen=True, slots=True)
class TwoStores:
    """Two stores: Spark was started with the settings of A, the caller uses those of B."""

    world: ProcessEnvironment
    a: S3Server
    b: S3Server
    events: Path

    @property
    def env(self) -> dict[str, str]:
        return {**variables(self.b, SECRET), "AWS_SESSION_TOKEN": TOKEN}

    def omnigraph(self, *words: str) -> str:
        done = self.world.omnigraph(*words, "--quiet", env=self.env)
        assert (done.returncode, done.stderr) == (0, "")
        return done.stdout

    def graph(self, *slugs: str) -> str:
        """Create a graph in B, with a copy in A."""
        prefix = f"{uuid.uuid4().hex}/graph.omni"
        uri = f"s3://{self.b.bucket}/{prefix}"
        graph = og.init(uri, SCHEMA, storage_options=self.b.options)
        for slug in slugs:
            graph.mutate(f'query a() {{ insert P {{ slug: "{slug}" }} }}')
        for path in self.paths(self.b, prefix):
            data = obstore.get(self._store(self.b), path).bytes()
            obstore.put(self._store(self.a), path, bytes(data))
        return uri

    def slugs(self, uri: str) -> set[str]:
        """Return the slugs of the graph in B, read by this process."""
        graph = og.open(uri, storage_options=self.b.options)
        return {row["slug"] for row in graph.query(COUNT).to_pylist()}

    def paths(self, server: S3Server, prefix: str = "") -> set[str]:
        return {str(meta["path"]) for meta in obstore.list(self._store(server), prefix or None).collect()}

    def put(self, server: S3Server, path: str, *slugs: str) -> str:
        lines = [json.dumps({"type": "P", "data": {"slug": slug}}) for slug in slugs]
        obstore.put(self._store(server), path, "\n".join(lines).encode())
        return f"s3://{server.bucket}/{path}"

    def _store(self, server: S3Server) -> obstore.store.S3Store:
        return open_s3_store(replace(server.location("x"), uri=f"s3://{server.bucket}"))


@pytest.fixture(scope="module")
def stores(spark_home: Path, s3_server: S3Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[TwoStores]:
    """Two stores, and a warm Spark server with the settings of the first and an event log."""
    world = ProcessEnvironment(tmp_path_factory.mktemp("settings-home"), tmp_path_factory.mktemp("settings"))
    events = tmp_path_factory.mktemp("events")
    conf = tmp_path_factory.mktemp("conf")
    noted = {"spark.eventLog.enabled": "true", "spark.eventLog.dir": str(events)}
    (conf / "spark-defaults.conf").write_text("".join(f"{name} {value}\n" for name, value in noted.items()))
    with running_s3_server(tmp_path_factory.mktemp("s3-b")) as b:
        started = {**variables(s3_server), "SPARK_CONF_DIR": str(conf), "SPARK_LOCAL_DIRS": str(world.folder)}
        assert world.omnigraph("spark", "start", env=started).returncode == 0
        try:
            yield TwoStores(world, s3_server, b, events)
        finally:
            assert world.omnigraph("spark", "stop").returncode == 0


def test_a_load_writes_to_the_store_of_the_caller(stores: TwoStores) -> None:
    uri = stores.graph("a")
    before = stores.paths(stores.a)
    (stores.world.folder / "people.jsonl").write_text('{"type":"P","data":{"slug":"b"}}\n')
    stores.omnigraph("load", "--data", "people.jsonl", uri)
    assert stores.slugs(uri) == {"a", "b"}
    assert stores.paths(stores.a) == before


def test_a_load_reads_from_the_store_of_the_caller(stores: TwoStores) -> None:
    uri = stores.graph()
    stores.put(stores.a, "in/people.jsonl", "wrong", "wrong-too")
    stores.omnigraph("load", "--data", stores.put(stores.b, "in/people.jsonl", "right"), uri)
    assert stores.slugs(uri) == {"right"}


def test_export_writes_to_the_store_of_the_caller(stores: TwoStores) -> None:
    uri = stores.graph("a")
    before = stores.paths(stores.a)
    stores.omnigraph("export", uri, "--out", "s3://graphs/out.jsonl")
    assert stores.paths(stores.a) == before
    assert "out.jsonl" in stores.paths(stores.b)


def test_optimize_and_a_query_on_spark_use_the_store_of_the_caller(stores: TwoStores) -> None:
    uri = stores.graph("a", "b")
    before = stores.paths(stores.a)
    graph = og.open(uri, storage_options=stores.b.options)
    graph.mutate('query a() { insert P { slug: "c" } }')
    stores.omnigraph("optimize", uri)
    assert stores.slugs(uri) == {"a", "b", "c"}
    printed = stores.omnigraph("query", "--engine", "spark", "--store", uri, "-e", COUNT, "--json")
    assert {row["slug"] for row in json.loads(printed)["rows"]} == {"a", "b", "c"}
    assert stores.paths(stores.a) == before


def test_the_data_source_uses_the_store_of_the_caller(stores: TwoStores) -> None:
    uri = stores.graph("a")
    graph = og.open(uri, storage_options=stores.b.options)
    graph.mutate('query a() { insert P { slug: "b" } }')
    before = stores.paths(stores.a)
    program = f"""
import json, omnigraph as og
spark = og.spark.session()
spark.dataSource.register(og.spark.OmnigraphDataSource)
frame = spark.read.format("omnigraph").option("uri", {uri!r}).option("type", "P").load()
read = sorted(row.slug for row in frame.select("slug").collect())
new = spark.createDataFrame([("c",)], "slug string")
new.write.format("omnigraph").option("uri", {uri!r}).option("type", "P").mode("append").save()
frame.explain(True)
"""
    process = stores.world.start(sys.executable, "-c", program + "print(json.dumps(read))", env=stores.env)
    printed, stderr = process.communicate()
    assert process.returncode == 0, stderr
    assert json.loads(printed.splitlines()[-1]) == ["a", "b"]
    assert SECRET not in printed + stderr
    assert TOKEN not in printed + stderr
    assert stores.slugs(uri) == {"a", "b", "c"}
    assert stores.paths(stores.a) == before


def test_no_secret_is_stored(stores: TwoStores) -> None:
    """After a load, the secret is not in the event log, Spark's log and files, or the arguments of a process."""
    uri = stores.graph()
    stores.omnigraph("load", "--data", stores.put(stores.b, "in/few.jsonl", "few"), uri)
    assert any(stores.events.iterdir())
    files = [
        path
        for folder in (stores.events, stores.world.home, stores.world.folder)
        for path in folder.rglob("*")
        if path.is_file()
    ]
    assert any(path.name == "spark.log" and path.stat().st_size for path in files)
    for path in files:
        data = path.read_bytes()
        assert SECRET.encode() not in data, path
        assert TOKEN.encode() not in data, path
    for pid in processes_with(f"SCENARIO_FOLDER={stores.world.folder}\0"):
        arguments = Path(f"/proc/{pid}/cmdline").read_text()
        assert SECRET not in arguments
        assert TOKEN not in arguments


@pytest.mark.soak  # the same code as on the warm server
def test_local_session_uses_the_current_variables(stores: TwoStores) -> None:
    """The variables were changed after Java was started."""
    uri = stores.graph()
    before = stores.paths(stores.a)
    program = f"""
import os, omnigraph as og
spark = og.spark.session("local[2]")
os.environ.update({stores.env!r})
og.open({uri!r}).load("s3://graphs/in/local.jsonl")
"""
    stores.put(stores.b, "in/local.jsonl", "x")
    process = stores.world.start(sys.executable, "-c", program, env=variables(stores.a))
    _, stderr = process.communicate()
    assert process.returncode == 0, stderr
    assert stores.slugs(uri) == {"x"}
    assert stores.paths(stores.a) == before


@pytest.mark.soak  # tests/storage/test_settings.py has the same rules without a cluster
def test_cluster_gets_names_and_reports_a_missing_variable(stores: TwoStores) -> None:
    """The executors of a local cluster have the variables of the process that started them, and then lack one."""
    uri = stores.graph()
    program = f"""
import json, os, omnigraph as og
from omnigraph.base.errors import OmnigraphError
spark = og.spark.session()
data = "s3://graphs/in/cluster.jsonl"
og.open({uri!r}).load(data)
os.environ["AWS_SESSION_TOKEN"] = "a-new-one"
try:
    og.open({uri!r}).load(data, mode="merge")
except OmnigraphError as error:
    print(json.dumps([error.code, error.message, error.hint]))
"""
    stores.put(stores.b, "in/cluster.jsonl", "x")
    env = {**variables(stores.b, SECRET), "MASTER": "local-cluster[1,1,1024]", **small_executors(stores.world)}
    process = stores.world.start(sys.executable, "-c", program, env=env)
    printed, stderr = process.communicate()
    assert process.returncode == 0, stderr
    code, message, hint = json.loads(printed)
    assert code == "worker_setting_missing"
    assert "AWS_SESSION_TOKEN" in message
    assert "AWS_SESSION_TOKEN" in hint
    assert stores.slugs(uri) == {"x"}
