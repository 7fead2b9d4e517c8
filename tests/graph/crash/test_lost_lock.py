"""Without its lock files a branch starts again with epoch 1; no write is lost or partially visible."""

from __future__ import annotations

from pathlib import Path

from omnigraph.api.graph import open as open_graph
from omnigraph.base.failpoints import Failpoint
from omnigraph.graph.manifest.snapshot import read_snapshot
from omnigraph.storage.objects import ObjectStore
from tests.graph.crash.killer import Killer
from tests.graph.writers import apply, read_contents, run, triple


def test_intent_is_recovered_after_its_lock_was_deleted(killer: Killer) -> None:
    location = killer.prepare_graph("load")
    before = read_contents(location)
    killer.kill("load", location, Failpoint.PUBLISH_BEFORE)
    for lock in Path(location.uri, "__locks").rglob("*.json"):
        lock.unlink()
    changes = triple(["after"])
    run(location, changes)
    contents = read_contents(location)
    assert all("after" in rows for rows in contents.values())
    recovered = [record.action for record in read_snapshot(location).manifest.read_recoveries()]
    assert recovered == ["rolled_forward"], "the next writer rolls the write forward first and keeps its rows"
    assert {alias: set(rows) - {"after"} for alias, rows in contents.items()} != {
        alias: set(rows) for alias, rows in before.items()
    }
    assert ObjectStore(location).list("__recovery") == ()
    open_graph(location.uri)
    assert read_contents(location) == contents
    more = triple(["more"])
    run(location, more)
    assert read_contents(location) == apply(contents, more)
