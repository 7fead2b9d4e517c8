"""Helpers for the tests of repair: graphs, an external tool that changes them, and ways to inspect them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

from omnigraph.api.graph import Graph
from omnigraph.graph.branches import create_branch
from omnigraph.graph.manifest.records import TableRecord
from omnigraph.graph.manifest.snapshot import MAIN, read_snapshot
from omnigraph.maintenance.repair import RepairOptions, TableRepairStats, repair_all_tables
from omnigraph.storage.location import Location
from tests.graph.writers import PERSON, Change, create, run, triple
from tests.style.source import ROOT

DEV: Final = "dev"


@dataclass(frozen=True, slots=True)
class ExternalTool:
    """A process that changes tables with plain Lance."""

    process: subprocess.Popen[str]

    def act(self, name: str, location: Location, alias: str = PERSON, branch: str = MAIN) -> None:
        table = find_table(location, alias, branch)
        dataset = location.child(table.path)
        request = {
            "act": name,
            "path": dataset.lance_uri,
            "branch": table.pin.branch,
            "options": dataset.storage_options or {},
        }
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        assert self.process.stdout.readline().rstrip() == "done", name


@contextmanager
def external_tool_process() -> Iterator[ExternalTool]:
    command = [sys.executable, "-W", "ignore", "-m", "tests.maintenance.external_tool"]
    with subprocess.Popen(
        command, cwd=ROOT, env=dict(os.environ), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        yield ExternalTool(process)
        assert process.stdin is not None
        process.stdin.close()


def seed(location: Location, *branches: str) -> None:
    """Write rows `a`, `b`, `c` in three commits on main; each branch also gets `d`, and so owns its tables."""
    create(location)
    run(location, (*triple(["a", "b"])[1:], Change(PERSON, upsert=(("a", 1), ("b", 2)))))
    run(location, triple(["c"]))
    for name in branches:
        create_branch(location, name, "tester", read_snapshot(location))
        run(location, triple(["d"]), branch=name)


def find_table(location: Location, alias: str = PERSON, branch: str = MAIN) -> TableRecord:
    return read_snapshot(location, branch).tables[alias]


def repair(location: Location, *flags: str) -> dict[tuple[str, str], TableRepairStats]:
    """Run repair with these flags; return the rows by branch and table."""
    options: dict[str, Any] = dict.fromkeys(flags, True)
    rows = repair_all_tables(Graph(location), RepairOptions(**options))
    return {(row.branch, row.table_key): row for row in rows}
