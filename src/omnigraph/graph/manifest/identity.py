"""Detect that a branch is not the one that this process read before: its graph was replaced, as by a restored backup.

In: the head of the newest manifest of a branch, each time it is read. Out: the identity of the branch, which is part
of the key of all cached values. Ids of commits are random and their rows are never deleted. So a manifest without the
head that was read before is not a later state of the same branch, and gets a new identity. The first commit and the
incarnations of tables do not suffice, because a backup has the same ones. Nothing here reads or writes storage.
"""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from dataclasses import dataclass
from typing import Final, NewType

from omnigraph.base import limits
from omnigraph.base.ids import CommitId
from omnigraph.storage.location import Location

BranchIdentity = NewType("BranchIdentity", str)


def new_identity() -> BranchIdentity:
    """Return an identity that no branch has, in any process."""
    return BranchIdentity(os.urandom(16).hex())


@dataclass(frozen=True, slots=True)
class SeenHead:
    """The newest head of a branch that this process has read, and the identity of the branch."""

    head: CommitId
    identity: BranchIdentity


class SeenHeads:
    """The heads that a process has read, by the location of the graph and the Lance branch of the manifest.

    If there are too many, the oldest is forgotten. Its branch gets a new identity, so nothing that was cached is used
    again.
    """

    def __init__(self, heads_max: int = limits.SEEN_HEADS_MAX) -> None:
        self._heads_max = heads_max
        self._heads: OrderedDict[tuple[Location, str | None], SeenHead] = OrderedDict()
        self._lock = threading.Lock()

    def find(self, root: Location, lance_branch: str | None) -> SeenHead | None:
        """Return the head that was read last. Call this before opening the newest manifest, which is then not older."""
        with self._lock:
            return self._heads.get((root, lance_branch))

    def note(
        self, key: tuple[Location, str | None], head: CommitId, before: SeenHead | None, *, is_later: bool
    ) -> BranchIdentity | None:
        """Record the head of the newest manifest and return the identity of its branch.

        `before` is what `find` returned. `is_later`: the manifest has the commit of `before`. Return None if another
        thread recorded another head since `find`: read again and compare with that head.
        """
        with self._lock:
            current = self._heads.get(key)
            if current is not None and current.head == head:
                self._heads.move_to_end(key)
                return current.identity
            if current is not before:
                return None
            identity = before.identity if before is not None and is_later else new_identity()
            self._heads[key] = SeenHead(head, identity)
            self._heads.move_to_end(key)
            if len(self._heads) > self._heads_max:
                self._heads.popitem(last=False)
            return identity

    def forget_all(self) -> None:
        """Forget every head, also while another thread holds the lock: a forked process has only one thread."""
        self._lock = threading.Lock()
        self._heads = OrderedDict()


SEEN_HEADS: Final = SeenHeads()
"""The heads that this process has read."""
os.register_at_fork(after_in_child=SEEN_HEADS.forget_all)
