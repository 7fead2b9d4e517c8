"""The options of the Spark data source, and the errors for invalid ones."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from omnigraph.base.errors import UsageError
from omnigraph.graph.manifest.snapshot import MAIN
from omnigraph.pipeline.datasource.options import Purpose, read_options, write_options
from omnigraph.pipeline.load.change import LoadMode

GRAPH = {"uri": "graph.omni", "type": "Person"}
BAD: dict[str, tuple[Mapping[str, str], str]] = {
    "unknown": ({"colums": "id"}, "expected uri, type, branch, commit, version, asOf, columns, filter or storage.…"),
    "two states": ({"commit": "a", "asof": "2024-05-31T12:00:00Z"}, "expected one of"),
    "no version": ({"version": "-1"}, "expected a number, got '-1'"),
    "no offset": ({"asof": "2024-05-31T12:00:00"}, "2024-05-31T12:00:00Z"),
    "no moment": ({"asof": "yesterday"}, "2024-05-31T12:00:00Z"),
    "empty column": ({"columns": "id,,age"}, "Pass option 'columns' such as `id,name,age`."),
    "column twice": ({"columns": "id,id"}, "Pass option 'columns' such as `id,name,age`."),
    "two graphs": ({"path": "other.omni"}, "no path to `load()` or `save()`"),
    "of a write": ({"mode": "merge"}, "unknown option"),
    "of a stream": ({"startingcommit": "first"}, "unknown option"),
    "no type": ({"type": ""}, ".option('type', …)"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_read_options_name_what_to_pass(name: str) -> None:
    more, text = BAD[name]
    with pytest.raises(UsageError) as rejected:
        read_options({**GRAPH, **more}, Purpose.READ)
    assert text in f"{rejected.value.message}\n{rejected.value.hint}"


def test_options_of_a_read() -> None:
    raw_options = {
        "path": "s3://bucket/graph.omni",
        "type": "node:Person",
        "asof": "1970-01-01T02:00:00.000001+02:00",
        "columns": "id, age",
        "storage.aws_endpoint": "http://127.0.0.1:9",
    }
    options = read_options(raw_options, Purpose.READ)
    assert (options.type, options.branch, options.selector.time_us) == ("node:Person", MAIN, 1)
    assert options.columns == ("id", "age")
    assert dict(options.root.options)["aws_endpoint"] == "http://127.0.0.1:9"


def test_missing_graph_is_an_error() -> None:
    with pytest.raises(UsageError, match="missing option 'uri'"):
        read_options({"type": "Person"}, Purpose.READ)


def test_streaming_read_rejects_a_commit() -> None:
    with pytest.raises(UsageError, match="unknown option 'commit' of a streaming read"):
        read_options({**GRAPH, "commit": "a"}, Purpose.STREAM_READ)


MODES: dict[str, tuple[str | None, bool, LoadMode]] = {
    "nothing said": (None, False, LoadMode.APPEND),
    "append": ("append", False, LoadMode.APPEND),
    "merge": ("merge", False, LoadMode.MERGE),
    "patch": ("patch", False, LoadMode.PATCH),
    "save mode": (None, True, LoadMode.OVERWRITE),
    "both": ("overwrite", True, LoadMode.OVERWRITE),
}


@pytest.mark.parametrize("name", MODES)
def test_the_mode_of_a_write(name: str) -> None:
    word, overwrite, mode = MODES[name]
    raw_options = GRAPH if word is None else {**GRAPH, "mode": word}
    assert write_options(raw_options, Purpose.WRITE, overwrite=overwrite).mode is mode


@pytest.mark.parametrize(
    ("word", "overwrite", "hint"),
    [
        ("merge", True, "Pass `.mode('append')` to append or merge"),
        ("replace", True, "Pass `.option('mode', 'merge')`"),
        ("overwrite", False, "Pass `.mode('overwrite')`"),
        ("replace", False, "Pass `.option('mode', 'merge')`"),
    ],
)
def test_save_mode_and_option_must_agree(word: str, overwrite: bool, hint: str) -> None:
    with pytest.raises(UsageError) as refused:
        write_options({**GRAPH, "mode": word}, Purpose.WRITE, overwrite=overwrite)
    assert hint in refused.value.hint


def test_options_that_spark_adds_are_accepted() -> None:
    raw_options = {**GRAPH, "checkpointlocation": "there", "queryname": "copy", "actor": "ada"}
    assert write_options(raw_options, Purpose.STREAM_WRITE, overwrite=False).actor == "ada"
