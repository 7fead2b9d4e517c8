"""Whether a graph belongs to a cluster, which then decides about its existence and its schema.

One probe, only for paths of the form `<root>/graphs/<id>.omni`: the ledger of the cluster is next to `graphs/`.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Final

from omnigraph.base.errors import RefusedError
from omnigraph.base.hints import action, hint
from omnigraph.storage.location import Location
from omnigraph.storage.objects import ObjectStore

_MANAGED: Final = re.compile(r"(?P<root>.+)/graphs/(?P<id>[A-Za-z][A-Za-z0-9-]{0,63})\.omni")


def require_unmanaged(location: Location) -> None:
    """Raise if a cluster manages the graph at a location."""
    match = _MANAGED.fullmatch(location.uri)
    if match is None or not ObjectStore(replace(location, uri=match["root"], root="")).list("__cluster/state"):
        return
    raise RefusedError(
        f"the graph '{match['id']}' at {location} is managed by the cluster at {match['root']}",
        code="graph_is_managed",
        hint=hint("Nothing was changed. Edit the files of the cluster, then run {}.", action("cluster apply")),
        facts={"uri": location.uri, "cluster": match["root"], "graph": match["id"]},
    )
