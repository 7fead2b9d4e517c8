"""A read-only open writes nothing and works in a read-only directory, also while a killed write is pending."""

from __future__ import annotations

import os
import pickle
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

import omnigraph
from omnigraph.graph.manifest.layout import RECOVERY
from omnigraph.storage.location import parse_location
from omnigraph.storage.objects import ObjectStore
from tests.graph.crash.killer import Killer
from tests.graph.crash.observe import read_tree
from tests.graph.writers import Contents, read_contents, snapshot_contents
from tests.style.source import ROOT

NOBODY = 65534
READ = """
import os, pickle, sys
import omnigraph
from tests.graph.writers import snapshot_contents
uid = int(sys.argv[2])
if uid:
    os.setgid(uid)
    os.setuid(uid)
graph = omnigraph.open(sys.argv[1], read_only=True)
result = snapshot_contents(graph.snapshot()), len(list(graph.log(None)))
try:
    open(sys.argv[1] + "/probe", "w")
except OSError:
    sys.stdout.buffer.write(pickle.dumps(result))
"""


@pytest.mark.parametrize("point", ["arm.after", "commit.before", "publish.before", "disarm.before"])
def test_read_only_open_changes_no_file(point: str, killer: Killer) -> None:
    location = killer.prepare_graph("load")
    killer.kill("load", location, point)
    before = read_tree(location)
    graph = omnigraph.open(location.uri, read_only=True)
    snapshot_contents(graph.snapshot())
    list(graph.log(None))
    assert read_tree(location) == before
    assert ObjectStore(location).list(RECOVERY)


def test_graph_in_a_read_only_directory_can_be_read(killer: Killer) -> None:
    """Another process without write permission reads it; it has another user id if the tests run as root."""
    made = killer.prepare_graph("load")
    killer.kill("load", made, "commit.before", 2)
    expected = read_contents(made)
    folder = Path(tempfile.mkdtemp(prefix="omnigraph-read-only-"))
    folder.chmod(0o755)
    root = folder / "graph.omni"
    shutil.copytree(made.uri, root)
    location = parse_location(str(root))
    before = read_tree(location)
    _allow_writing(root, False)
    try:
        assert _read_as_other_user(root) == expected
    finally:
        _allow_writing(root, True)
    assert read_tree(location) == before
    shutil.rmtree(folder)


def _read_as_other_user(root: Path) -> Contents:
    uid = NOBODY if os.geteuid() == 0 else 0
    command = [sys.executable, "-c", READ, str(root), str(uid)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, check=False)
    assert done.stdout, done.stderr.decode()
    contents, commits = pickle.loads(done.stdout)
    assert commits == 3
    assert isinstance(contents, dict)
    return contents


def _allow_writing(root: Path, allowed: bool) -> None:
    for path in (root, *root.rglob("*")):
        mode = path.stat().st_mode | 0o444 | (0o111 if path.is_dir() else 0)
        path.chmod(mode | 0o200 if allowed else mode & ~0o222)
