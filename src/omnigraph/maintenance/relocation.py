"""Fix the location of a graph that was moved or copied: its branches become usable where the graph is now.

In: a graph whose recorded location differs from where it is read. Out: what was rewritten, or would be. Lance branches
contain absolute paths; this rewrites them in every version file, so that the history of branches is readable too, and
then records the new location. It holds the lease of the graph and of main. Each file is replaced as a whole, and a
rewritten file is skipped, so after a crash the same call completes the rest; until then branches stay unusable. Files
at the old location are neither read nor changed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import compress
from typing import Final

from omnigraph.base import limits
from omnigraph.base.display import Displayed
from omnigraph.base.errors import FormatError
from omnigraph.graph.coordination.environment import WriteEnvironment
from omnigraph.graph.coordination.lease import hold_lease
from omnigraph.graph.manifest.snapshot import is_moved, read_snapshot
from omnigraph.graph.manifest.stamp import record_root
from omnigraph.maintenance.target import GraphTarget
from omnigraph.storage.files import list_files, read_bytes, write_file
from omnigraph.storage.lance.base_paths import is_below, read_base_paths, replace_base_paths
from omnigraph.storage.location import Location
from omnigraph.storage.objects import ObjectStore

_BRANCH_VERSION: Final = re.compile(r"(.+?/tree/.+)/_versions/\d+\.manifest")


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class LocationFix(Displayed):
    """What a fix of the location rewrote, or would rewrite."""

    recorded: str
    """The location that the graph recorded."""
    uri: str
    """The location of the graph now."""
    lance_branches: int = 0
    """The Lance branches, of tables and of the manifest, with files to rewrite."""
    files: int = 0
    """The version files to rewrite."""
    applied: bool = False
    """Whether they were rewritten; False for a preview and for a graph that was not moved."""

    @property
    def is_needed(self) -> bool:
        """Whether the graph is elsewhere than it recorded."""
        return self.recorded not in ("", self.uri)

    def _summary(self) -> Mapping[str, object]:
        return {
            "recorded": self.recorded,
            "uri": self.uri,
            "lance_branches": self.lance_branches,
            "files": self.files,
            "applied": self.applied,
        }


def fix_location(
    graph: GraphTarget, *, dry_run: bool = True, environment: WriteEnvironment | None = None
) -> LocationFix:
    """Rewrite the references of the branches of a moved or copied graph, or only count them.

    Args:
        graph: The graph, opened where it is now.
        dry_run: Whether to only return what would be rewritten.
        environment: Replaces the clock and the lease terms.
    """
    root = graph.location
    if dry_run:
        return _plan(root)[0]
    environment = environment or WriteEnvironment()
    store = ObjectStore(root)
    with hold_lease(store, None, "fix location", environment.terms) as lease, lease.renewing():
        main = read_snapshot(root, storage_format=environment.storage_format)
        with hold_lease(store, main.branch.id, "fix location", environment.terms):
            fix, paths = _plan(root)
            if not fix.is_needed:
                return fix
            for path in paths:
                lease.hold()
                _rewrite(root, path, fix.recorded)
            newest = read_snapshot(root, storage_format=environment.storage_format)
            record_root(newest.manifest.dataset, root.uri)
    return replace(fix, applied=True)


def _plan(root: Location) -> tuple[LocationFix, list[str]]:
    main = read_snapshot(root).manifest
    if not is_moved(main, root):
        return LocationFix(recorded=main.root_uri, uri=root.uri), []
    versions = [file.path for file in list_files(root) if _BRANCH_VERSION.fullmatch(file.path)]
    with ThreadPoolExecutor(limits.INPUT_PLAN_THREADS) as threads:
        paths = list(compress(versions, threads.map(lambda path: _needs_rewrite(root, path, main.root_uri), versions)))
    branches = {match[1] for path in paths if (match := _BRANCH_VERSION.fullmatch(path))}
    fix = LocationFix(recorded=main.root_uri, uri=root.uri, lance_branches=len(branches), files=len(paths))
    return fix, paths


def _needs_rewrite(root: Location, path: str, recorded: str) -> bool:
    bases = read_base_paths(_read(root, path), path)
    outside = [base for base in bases if not (is_below(base, recorded) or is_below(base, root.uri))]
    if outside:
        raise FormatError(
            f"'{path}' references files outside of the graph: expected a path below {recorded}, got {outside[0]}",
            code="base_outside",
            hint="Nothing was changed. Export the branch at its original location, and load it here.",
            facts={"uri": root.uri, "base": outside[0]},
        )
    return any(not is_below(base, root.uri) for base in bases)


def _rewrite(root: Location, path: str, recorded: str) -> None:
    data = replace_base_paths(_read(root, path), recorded, root.uri, path)
    with write_file(root.child(path)) as file:
        file.write(data)


def _read(root: Location, path: str) -> bytes:
    data = b""
    while len(block := read_bytes(root.child(path), len(data), limits.LOAD_BLOCK_BYTES)) == limits.LOAD_BLOCK_BYTES:
        data += block
    return data + block
