"""A forked process can use what its parent's threads had locked: it starts with locks and caches of its own."""

from __future__ import annotations

import subprocess
import sys

from tests.waiting import SECONDS_MAX

_PROGRAM = f"""
import os, signal
from omnigraph.base import ids
from omnigraph.engine.cache import SHARED_CACHE, TableKey
from omnigraph.graph.manifest.identity import SEEN_HEADS, new_identity
from omnigraph.storage.location import parse_location

key = (TableKey(new_identity(), "t", None, 1), "rows")
root = parse_location("memory://x/graph.omni")
SHARED_CACHE.put(key, "value", 1)
SEEN_HEADS.note((root, None), ids.CommitId("c"), None, is_later=False)
before = ids.new_ulid()
for value in (ids._ulids, SHARED_CACHE, SEEN_HEADS):
    value._lock.acquire()  # as a thread of the parent does
child = os.fork()
if child == 0:
    signal.alarm({SECONDS_MAX:.0f})
    assert ids.new_ulid() != before
    assert SHARED_CACHE.get(key, str) is None
    assert SHARED_CACHE.nbytes == 0
    assert SEEN_HEADS.find(root, None) is None
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
"""


def test_locks_and_caches_of_the_parent_are_not_used() -> None:
    ended = subprocess.run([sys.executable, "-c", _PROGRAM], capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
