"""The same embed in this process and on Spark, with a key: `python -m tests.pipeline.embed_scenario`.

Prints JSON: the rows and reports of both, the texts that the provider received, a text in a query on Spark, a provider
that fails, Ctrl-C during the second wave, and the pages of the Spark UI.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import msgspec
import urllib3

import omnigraph as og
from omnigraph.base.errors import OmnigraphError
from omnigraph.embedding.provider import find_provider
from omnigraph.pipeline.embed.run import EmbedRequest, embed
from omnigraph.pipeline.spark.auto import AutoRunner, RunnerChoice
from omnigraph.wire.results import embed_output
from tests.embedding.provider_server import ProviderHandler, ProviderServer, running_provider, texts_of
from tests.waiting import SECONDS_MAX

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCHEMA = 'node Note { k: String @key  text: String?  vec: Vector(8)? @embed("text") }'
ALL = "query q() { match { $n: Note } return { $n.k as k, $n.vec as v } order { $n.k } }"
NEAREST = """query q($t: String) {
  match { $n: Note } return { $n.k as k, $n.text as text, nearest($n.vec, $t) as far } order { far, $n.k } limit 5
}"""
SECOND_WAVE = ("text 20", "text 27", "text 34")
PAGES = ("jobs/", "stages/", "executors/", "environment/", "SQL/", "storage/")
ROWS = 60
VARYING = ("uri", "commits", "seconds", "runner")


def main() -> None:
    from omnigraph.pipeline.spark.session import session

    folder = Path(os.environ["SCENARIO_FOLDER"])
    conf = {
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": (folder / "events").as_uri(),
        "spark.eventLog.compress": "false",  # the test searches it for the key
        "spark.executorEnv.SCENARIO_KEY": os.environ["SCENARIO_KEY"],
        "spark.ui.enabled": "true",
        "spark.ui.port": "0",
    }
    (folder / "events").mkdir()
    spark = session("local[2]", conf=conf)
    document: dict[str, Any] = {}
    with running_provider() as provider:
        provider.always = _reject
        names = {
            "BASE_URL": provider.url,
            "MODEL": "m",
            "API_KEY_ENV": "SCENARIO_KEY",
            "BATCH": "7",
            "CONCURRENCY": "2",
            "TIMEOUT_MS": "600000",
            "DEADLINE_MS": "0",
        }
        os.environ.update({f"OMNIGRAPH_EMBED_{name}": value for name, value in names.items()})
        runners: tuple[Literal["local", "spark"], ...] = ("local", "spark")
        for runner in runners:
            graph = _create(folder / f"{runner}.omni", spark)
            result = graph.embed(runner=runner)
            output = msgspec.to_builtins(embed_output(graph.uri, result))
            document[runner] = {
                "runner": output["runner"],
                "report": {name: value for name, value in output.items() if name not in VARYING},
                "rows": graph.query(ALL).to_pylist(),
                "texts": _take_texts(provider),
                "nearest": graph.query(NEAREST, {"t": "text 7"}, runner=runner).to_pylist(),
                "query_texts": _take_texts(provider),
            }
        constant = og.EmbeddingProvider(lambda _: [1.0, *[0.0] * 7])
        nearest = 'query q() { match { $n: Note } return { $n.k as k } order { nearest($n.vec, "x") } limit 3 }'
        document["nearest"] = [
            replace(graph, provider=constant).query(nearest, runner=runner).to_pylist() for runner in runners
        ]
        document["requests"] = len(provider.requests)
        provider.always = _fail
        os.environ["OMNIGRAPH_EMBED_RETRY_ATTEMPTS"] = "1"
        try:
            graph.embed(runner="spark", missing=False)
        except OmnigraphError as error:
            document["failed"] = [error.code, error.facts.get("status"), str(error)]
        commits = len(graph.log())
        document["notes"] = _interrupt(graph, provider, spark)
        document["interrupted_commits"] = len(graph.log()) - commits
        document["pages"] = _read_pages(spark)
        spark.stop()
    sys.stdout.write(json.dumps(document))


def _take_texts(provider: ProviderServer) -> list[str]:
    """Return the texts that the provider has received, each request with the key."""
    assert {headers.get("Authorization") for _, headers, _ in provider.requests} == {
        "Bearer " + os.environ["SCENARIO_KEY"]
    }
    texts = sorted(text for texts in provider.texts for text in texts)
    provider.requests.clear()
    return texts


def _interrupt(graph: og.Graph, provider: ProviderServer, spark: SparkSession) -> list[str]:
    """Send Ctrl-C while the first requests of the second wave wait for their answers; return the notes of the error."""
    from omnigraph.pipeline.spark.session import spark_settings

    interrupted, ended = threading.Event(), threading.Event()
    main = threading.main_thread().ident
    assert main is not None

    def interrupt(_: ProviderHandler, body: dict[str, Any]) -> bool:
        if any(text in texts_of(body) for text in SECOND_WAVE):
            if not interrupted.is_set():
                interrupted.set()
                signal.pthread_kill(main, signal.SIGINT)
            ended.wait(SECONDS_MAX)
        return False

    provider.always = interrupt
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell ignores it in its background jobs
    request = EmbedRequest(actor="ada", provider=find_provider(os.environ), every_row=True, wave_rows=20)
    try:
        embed(graph.location, request, AutoRunner(RunnerChoice.SPARK, spark_settings(spark)))
    except KeyboardInterrupt as error:
        return error.__notes__
    finally:
        ended.set()
    raise AssertionError("the run was not interrupted")


def _read_pages(spark: SparkSession) -> dict[str, str]:
    """Return the pages of the Spark UI, and what its REST interface says about the environment."""
    url, application = spark.sparkContext.uiWebUrl, spark.sparkContext.applicationId
    paths = (*PAGES, f"api/v1/applications/{application}/environment")
    return {path: urllib3.request("GET", f"{url}/{path}", timeout=SECONDS_MAX).data.decode() for path in paths}


def _create(path: Path, spark: Any) -> og.Graph:
    og.init(path, SCHEMA, actor="ada")
    graph = og.open(path, actor="ada", spark=spark)
    file = path.with_suffix(".jsonl")
    lines = [{"type": "Note", "data": {"k": f"k{row:03}", "text": f"text {row % 40}"}} for row in range(ROWS)]
    file.write_text("".join(f"{json.dumps(line)}\n" for line in lines), encoding="utf-8")
    graph.load(file, runner="local")
    return graph


def _reject(handler: ProviderHandler, body: dict[str, Any]) -> bool:
    if "text 3" in texts_of(body):
        handler.answer(400, {"error": "not allowed"})
        return True
    return False


def _fail(handler: ProviderHandler, _: dict[str, Any]) -> bool:
    handler.answer(500, {"error": dict(handler.headers)})
    return True


if __name__ == "__main__":
    main()
