"""The same embed in this process and on Spark, with a key: `python -m tests.pipeline.embed_scenario`.

Prints JSON with the rows and reports of both, and the texts that the provider received.
"""

from __future__ import annotations

import json
import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import msgspec

import omnigraph as og
from omnigraph.base.errors import OmnigraphError
from omnigraph.wire.results import embed_output
from tests.embedding.provider_server import ProviderHandler, running_provider, texts_of

SCHEMA = 'node Note { k: String @key  text: String?  vec: Vector(8)? @embed("text") }'
ROWS = 60
VARYING = ("uri", "commits", "seconds", "runner")


def main() -> None:
    from omnigraph.pipeline.spark.session import session

    folder = Path(os.environ["SCENARIO_FOLDER"])
    conf = {"spark.eventLog.enabled": "true", "spark.eventLog.dir": (folder / "events").as_uri()}
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
                "rows": graph.query(
                    "query q() { match { $n: Note } return { $n.k as k, $n.vec as v } order { $n.k } }"
                ).to_pylist(),
                "texts": sorted(text for texts in provider.texts for text in texts),
                "keys": sorted({headers.get("Authorization", "") for _, headers, _ in provider.requests}),
            }
            provider.requests.clear()
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
    spark.stop()
    sys.stdout.write(json.dumps(document))


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
