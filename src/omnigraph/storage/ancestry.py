"""Which version of a dataset another one was made from, along its Lance branches.

In: versions on any Lance branches. Out: the version where two of them part, or where a fork left an ancestor. A Lance
branch that is gone is a gap, behind which nothing is known. Nothing here writes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from omnigraph.base.errors import NotFoundError
from omnigraph.storage.dataset import Dataset, open_dataset
from omnigraph.storage.failures import substrate_errors
from omnigraph.storage.location import Location


@dataclass(frozen=True, slots=True)
class Place:
    """A version of a dataset on one of its Lance branches; None is Lance's main."""

    branch: str | None
    version: int


def find_parting(location: Location, left: Place, right: Place) -> Place | None:
    """The newest version that both were made from; None when a Lance branch on the way is gone."""
    if left.branch == right.branch:
        return Place(left.branch, min(left.version, right.version))
    branches = _branches(open_dataset(location))
    line = {place.branch: place.version for place in (left, *_origins(branches, left.branch))}
    for place in (right, *_origins(branches, right.branch)):
        if place.branch in line:
            return Place(place.branch, min(place.version, line[place.branch]))
    return None


def open_place(location: Location, place: Place) -> Dataset | None:
    """The dataset there, or None when that version is gone."""
    try:
        return open_dataset(location, branch=place.branch, version=place.version)
    except NotFoundError:
        return None


def fork_version(dataset: Dataset, branch: str | None, ancestor: str | None) -> int | None:
    """The version of `ancestor` that a Lance branch, or one it was made from, was made at; None if there is none."""
    origins = _origins(_branches(dataset), branch)
    return next((place.version for place in origins if place.branch == ancestor), None)


def _branches(dataset: Dataset) -> Any:
    with substrate_errors("list the Lance branches", dataset.uri):
        return dataset.native.branches.list()


def _origins(branches: Any, branch: str | None) -> Iterator[Place]:
    """What a Lance branch was made from, what that one was made from, and so on up to Lance's main or a gap."""
    at = branch
    for _ in range(len(branches)):
        found = None if at is None else branches.get(at)
        if found is None:
            return
        at = found["parent_branch"]
        yield Place(at, int(found["parent_version"]))
