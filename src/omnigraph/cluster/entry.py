"""Makes the package `omnigraph.cluster` a function: the name is both a package and what programs call.

A file of its own, because the package is imported for each of its modules and must not import the others.
"""

from __future__ import annotations

import sys
from os import PathLike, fspath
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from omnigraph.cluster.project import Cluster


class CallablePackage(ModuleType):
    """A package that can be called."""

    def __call__(self, address: str | PathLike[str]) -> Cluster:
        """Return a cluster by the directory of its `cluster.yaml`, or by its root."""
        from omnigraph.cluster.project import Cluster

        return Cluster(fspath(address))


def make_callable(name: str) -> ModuleType:
    """Make an imported package callable, and return it."""
    package = sys.modules[name]
    package.__class__ = CallablePackage
    return package
