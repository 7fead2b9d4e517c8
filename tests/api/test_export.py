"""What an export says of itself is there without taking apart how it was done."""

from __future__ import annotations

from pathlib import Path

from omnigraph.api.export import ExportOutcome
from omnigraph.base.ids import CommitId
from omnigraph.pipeline.export.run import Exported
from omnigraph.pipeline.export.target import TargetKind
from omnigraph.pipeline.export.tasks import ExportFormat
from omnigraph.storage.location import parse_location


def test_an_outcome_tells_rows_and_files(tmp_path: Path) -> None:
    places = tuple(parse_location(str(tmp_path / name)) for name in ("a.jsonl", "b.jsonl"))
    exported = Exported({"node:Person": 2, "edge:Knows": 3}, CommitId("C"), places, 70)
    outcome = ExportOutcome(exported, TargetKind.FOLDER, ExportFormat.NDJSON)
    assert outcome.files == (f"{tmp_path.resolve()}/a.jsonl", f"{tmp_path.resolve()}/b.jsonl")
    assert (outcome.counts, outcome.total) == ({"node:Person": 2, "edge:Knows": 3}, 5)
    assert (outcome.commit, outcome.size_bytes) == ("C", 70)
