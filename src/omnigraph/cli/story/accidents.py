"""What happens to a graph from outside, for real: another tool writes to a table, a writer is killed, time passes.

Each accident is another process, or a change of the files, as it would be in life. They leave the graph in the state
that the next command of the story has to deal with.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

from omnigraph.base.errors import InvariantError
from omnigraph.base.failpoints import ENVIRONMENT_VARIABLE, Failpoint
from omnigraph.cli.output import write_text

_FOREIGN_DELETE = 'import sys, lance; lance.dataset(sys.argv[1]).delete("salary > 150000")'


def foreign_delete(place: Path, table_path: str) -> None:
    """A program that knows Lance and nothing of Omnigraph deletes the well paid."""
    subprocess.run(
        [sys.executable, "-c", _FOREIGN_DELETE, str(place / "graph.omni" / table_path)], check=True
    )


def killed_mutation(place: Path, query: str) -> None:
    """A writer that gets SIGKILL after its tables are committed and before they are published."""
    environment = {**os.environ, ENVIRONMENT_VARIABLE: f"{Failpoint.PUBLISH_BEFORE}=kill"}
    command = [sys.executable, "-m", "omnigraph.cli.main", "mutate", "--store", "graph.omni", "-e", query]
    ended = subprocess.run(command, cwd=place, env=environment, capture_output=True, check=False)
    if ended.returncode >= 0:
        raise InvariantError("the writer outlived its end", code="demo_writer_survived")
    write_text("Killed")


def pass_weeks(place: Path, weeks: int) -> None:
    """Make every file as old as if it had been written weeks ago; cleanup goes by the age of files."""
    moment = time.time() - weeks * 7 * 86_400
    for path in (place / "graph.omni").rglob("*"):
        if path.is_file():
            os.utime(path, (moment, moment))
