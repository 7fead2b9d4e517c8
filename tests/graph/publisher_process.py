"""Publish in a process: `python -m tests.graph.publisher_process URI OPTIONS TIMES`; prints its commits as JSON."""

from __future__ import annotations

import json
import sys

from omnigraph.graph.manifest.publish import ManifestChange, publish
from omnigraph.graph.manifest.snapshot import read_snapshot
from omnigraph.storage.location import parse_location
from tests.graph.publishing import moved, new_draft, target_of
from tests.graph.writers import PERSON


def main(uri: str, options: str, times: str) -> None:
    location = parse_location(uri, json.loads(options))
    snapshot = read_snapshot(location)
    target, table = target_of(snapshot), snapshot.tables[PERSON]
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    sys.stdin.readline()
    made = []
    for _ in range(int(times)):
        table = moved(table)
        published = publish(target, ManifestChange(commit=new_draft(), tables=(table,)))
        assert published is not None
        made.append(published.id)
    sys.stdout.write(json.dumps(made) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
