"""Deletes a graph with all its files. Only `cluster apply` calls it, for a graph whose deletion was approved.

In: a location. It waits for running writers by taking the lease of the graph and of every branch, and deletes the
newest version of `__manifest` before any table, so that no process opens half a graph. A crash before that leaves the
graph, a crash after it leaves files without a graph, and a second run deletes them.
"""

from __future__ import annotations

from pathlib import Path

from omnigraph.base.errors import OmnigraphError
from omnigraph.base.failpoints import Failpoint, failpoint
from omnigraph.graph.coordination.environment import WriteEnvironment
from omnigraph.graph.coordination.lease import acquire_lease
from omnigraph.graph.manifest.layout import LOCKS, MANIFEST
from omnigraph.graph.manifest.newest import forget_graph
from omnigraph.graph.manifest.snapshot import MAIN, read_snapshot
from omnigraph.storage.lance.layout import manifest_version
from omnigraph.storage.location import Location
from omnigraph.storage.objects import ObjectStore


def delete_graph(root: Location) -> None:
    """Delete the graph and every file below its root; do nothing if there is none."""
    environment = WriteEnvironment()
    store = ObjectStore(root)
    try:
        branches = read_snapshot(root, MAIN, storage_format=environment.storage_format).state.branches
    except OmnigraphError as error:
        if error.code not in ("graph_missing", "not_a_graph", "manifest_damaged"):
            raise
        branches = None  # an earlier run deleted the manifest
    if branches is not None:
        # The leases are never released: a writer that waits for one must not continue on a graph that is deleted.
        graph_lease = acquire_lease(store, None, "delete graph", environment.terms)
        with graph_lease.renewing():
            leases = [
                acquire_lease(store, branch.id, "delete graph", environment.terms) for branch in branches.values()
            ]
            for lease in (graph_lease, *leases):
                lease.hold()
            _delete_manifest(store)
    paths = [entry.path for entry in store.list("", with_links=False)]
    for path in sorted(paths, key=lambda path: (path.startswith(f"{LOCKS}/"), path)):
        failpoint(Failpoint.CLUSTER_DELETE_FILES_BEFORE)
        store.delete(path)
    store.remove_empty_directories("")
    if root.is_local and Path(root.uri).is_dir() and not any(Path(root.uri).iterdir()):
        Path(root.uri).rmdir()
    forget_graph(root)


def _delete_manifest(store: ObjectStore) -> None:
    """Delete the versions of main, the newest one last: until then the graph is complete, after it there is none."""
    versions = [entry.path for entry in store.list(f"{MANIFEST}/_versions")]
    numbers = ((manifest_version(path.removeprefix(f"{MANIFEST}/")), path) for path in versions)
    for _, path in sorted((number, path) for number, path in numbers if number is not None):
        failpoint(Failpoint.CLUSTER_DELETE_BEFORE)
        store.delete(path)
