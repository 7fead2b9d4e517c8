"""What it costs to clean up 1,000 versions of a table, counted in Lance's own cleanup of the same datasets.

Ours looks for pending writes, drift, branches and snapshots, makes the list of files, and deletes exactly that. Lance's is
`cleanup_old_versions` on the manifest and on every table, one after another.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Final

import lance

import omnigraph
from bench.commit import SCHEMA, Compared, make_compared
from bench.harness import Ratio, report
from omnigraph.base.clock import SystemClock
from omnigraph.graph.commit import World
from omnigraph.graph.layout import EDGES, MANIFEST, NODES
from omnigraph.maintenance.cleanup import cleanup_all_tables
from omnigraph.maintenance.cleanup_options import CleanupPolicyOptions

VERSIONS: Final = 1_000
KEEP: Final = 10
ROUNDS: Final = 5
RATIO_MAX: Final = 1.5
