"""The plan of a load, before it starts."""

from __future__ import annotations

from pathlib import Path

from omnigraph.base.authorization import AllowAll
from omnigraph.graph.manifest.snapshot import MAIN
from omnigraph.pipeline.load.plan import LoadOptions, plan_load
from omnigraph.storage.location import parse_location


def test_rejects_are_written_with_the_settings_of_the_graph(tmp_path: Path) -> None:
    """The file can be in a store that is not configured in the environment."""
    root = parse_location("s3://bucket/graph.omni", {"aws_endpoint": "http://127.0.0.1:9"})
    rows = tmp_path / "rows.jsonl"
    rows.touch()
    options = LoadOptions(mode="append", actor="ada", gate=AllowAll(), rejects="s3://bucket/rejects.jsonl")
    rejects = plan_load(root, MAIN, str(rows), options).rejects
    assert rejects == parse_location("s3://bucket/rejects.jsonl", dict(root.options))
    assert rejects is not None
    assert ("aws_endpoint", "http://127.0.0.1:9") in rejects.options
