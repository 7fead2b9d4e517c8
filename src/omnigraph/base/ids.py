"""The types of ids, and functions that create new ones.

ULIDs are upper-case Crockford text, as stored. Type ids and incarnations are 16 lower-case hex digits: a type id is a
counter and never reused; an incarnation is 64 random bits, so two branches that add a type at the same time never share
a path.
"""

from __future__ import annotations

import os
import secrets
import time
from threading import Lock
from typing import Final, NewType

CommitId = NewType("CommitId", str)
OperationId = NewType("OperationId", str)
BranchId = NewType("BranchId", str)
TypeId = NewType("TypeId", str)
Incarnation = NewType("Incarnation", str)
PropertyId = NewType("PropertyId", int)
SchemaHash = NewType("SchemaHash", str)

ULID_LENGTH: Final = 26
CROCKFORD: Final = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"


def as_commit_id(text: str) -> CommitId:
    """Return user input in the stored form of an id; text that cannot be an id is unchanged, for messages."""
    return CommitId(text.upper() if len(text) == ULID_LENGTH and text.isascii() else text)


def is_ulid(text: str) -> bool:
    """Return whether text is a full id in the stored form."""
    return len(text) == ULID_LENGTH and text[0] <= "7" and all(character in CROCKFORD for character in text)


class _Ulids:
    """Makes ULIDs: 48 bits of the time in milliseconds, then 80 random bits. Those of one millisecond ascend."""

    def __init__(self) -> None:
        self.forget_newest()

    def forget_newest(self) -> None:
        """Begin again with new random bits. A forked process does so: a thread that it lacks may hold the lock."""
        self._lock = Lock()
        self._newest = 0

    def next(self) -> int:
        with self._lock:
            ulid = time.time_ns() // 1_000_000 << 80 | secrets.randbits(80)
            is_same_time = ulid >> 80 == self._newest >> 80
            self._newest = self._newest + 1 + secrets.randbits(40) if is_same_time else ulid
            return self._newest


_ulids: Final = _Ulids()
os.register_at_fork(after_in_child=_ulids.forget_newest)


def new_ulid() -> str:
    """Return a new ULID, upper-case Crockford. Within a process and a millisecond they ascend."""
    return crockford_text(_ulids.next(), ULID_LENGTH)


def crockford_text(number: int, length: int) -> str:
    """Return a number in the base 32 of Crockford, upper-case, with this number of digits."""
    return "".join(CROCKFORD[(number >> (5 * position)) & 31] for position in reversed(range(length)))


def new_incarnation() -> Incarnation:
    """Return 64 random bits as 16 lower-case hex digits."""
    return Incarnation(secrets.token_hex(8))


def type_id_from_number(number: int) -> TypeId:
    """Return the type id of a number of the type counter."""
    return TypeId(f"{number:016x}")
