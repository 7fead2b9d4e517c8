"""The words that the Spark data source takes, and what it says to others."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from omnigraph.base.errors import UsageError
from omnigraph.graph.manifest.snapshot import MAIN
from omnigraph.pipeline.datasource.options import Purpose, read_options, write_options
from omnigraph.pipeline.load.change import LoadMode

GRAPH = {"uri": "graph.omni", "type": "Person"}
BAD: dict[str, tuple[Mapping[str, str], str]] = {
    "unknown": (
        {"colums": "id"},
        "the options are uri, type, branch, commit, version, asOf, columns, filter",
    ),
    "two states": ({"commit": "a", "asof": "2024-05-31T12:00:00Z"}, "give one of"),
    "no version": ({"version": "-1"}, "pass a number"),
    "no offset": ({"asof": "2024-05-31T12:00:00"}, "2024-05-31T12:00:00Z"),
    "no moment": ({"asof": "yesterday"}, "2024-05-31T12:00:00Z"),
    "empty column": ({"columns": "id,,age"}, "as id,name,age"),
    "column twice": ({"columns": "id,id"}, "as id,name,age"),
    "two graphs": ({"path": "other.omni"}, "nothing to load() or save()"),
    "of a write": ({"mode": "merge"}, "the options are"),
    "of a stream": ({"startingcommit": "first"}, "the options are"),
    "no type": ({"type": ""}, ".option('type', …)"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_options_of_a_read_say_what_to_pass(name: str) -> None:
    more, hint = BAD[name]
    with pytest.raises(UsageError) as refused:
        read_options({**GRAPH, **more}, Purpose.READ)
    assert hint in refused.value.hint


def test_options_of_a_read() -> None:
    given = {
        "path": "s3://bucket/graph.omni",
        "type": "node:Person",
        "asof": "1970-01-01T02:00:00.000001+02:00",
        "columns": "id, age",
        "storage.aws_endpoint": "http://127.0.0.1:9",
    }
    options = read_options(given, Purpose.READ)
    assert (options.type, options.branch, options.when.time_us) == ("node:Person", MAIN, 1)
    assert options.columns == ("id", "age")
    assert dict(options.root.options)["aws_endpoint"] == "http://127.0.0.1:9"


def test_a_graph_must_be_named() -> None:
    with pytest.raises(UsageError, match="no graph is named"):
        read_options({"type": "Person"}, Purpose.READ)


def test_a_streaming_read_is_of_no_single_state() -> None:
    with pytest.raises(UsageError, match="a streaming read has no option 'commit'"):
        read_options({**GRAPH, "commit": "a"}, Purpose.STREAM_READ)


MODES: dict[str, tuple[str | None, bool, LoadMode]] = {
    "nothing said": (None, False, LoadMode.APPEND),
    "append": ("append", False, LoadMode.APPEND),
    "merge": ("merge", False, LoadMode.MERGE),
    "save mode": (None, True, LoadMode.OVERWRITE),
    "both": ("overwrite", True, LoadMode.OVERWRITE),
}


@pytest.mark.parametrize("name", MODES)
def test_the_mode_of_a_write(name: str) -> None:
    word, overwrite, mode = MODES[name]
    given = GRAPH if word is None else {**GRAPH, "mode": word}
    assert write_options(given, Purpose.WRITE, overwrite=overwrite).mode is mode


@pytest.mark.parametrize(
    ("word", "overwrite", "hint"),
    [
        ("merge", True, "pass .mode('append') to merge"),
        ("overwrite", False, "pass .mode('overwrite')"),
        ("replace", False, "pass append or merge"),
    ],
)
def test_save_mode_and_option_must_agree(word: str, overwrite: bool, hint: str) -> None:
    with pytest.raises(UsageError) as refused:
        write_options({**GRAPH, "mode": word}, Purpose.WRITE, overwrite=overwrite)
    assert hint in refused.value.hint


def test_what_spark_adds_to_a_streaming_write_is_no_mistake() -> None:
    given = {**GRAPH, "checkpointlocation": "there", "queryname": "copy", "actor": "ada"}
    assert write_options(given, Purpose.STREAM_WRITE, overwrite=False).actor == "ada"
