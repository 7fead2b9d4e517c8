"""The types of ids, and functions that create new ones.

ULIDs are upper-case Crockford text, as stored. Type ids and incarnations are 16 lower-case hex digits: a type id is a
counter and never reused; an incarnation is 64 random bits, so two branches that add a type at the same time never share
a path.
"""

from __future__ import annotations

import secrets
from typing import Final, NewType

CommitId = NewType("CommitId", str)
OperationId = NewType("OperationId", str)
BranchId = NewType("BranchId", str)
TypeId = NewType("TypeId", str)
Incarnation = NewType("Incarnation", str)
PropertyId = NewType("PropertyId", int)
SchemaHash = NewType("SchemaHash", str)

ULID_LENGTH: Final = 26


def as_commit_id(text: str) -> CommitId:
    """Return user input in the stored form of an id; text that cannot be an id is unchanged, for messages."""
    return CommitId(text.upper() if len(text) == ULID_LENGTH and text.isascii() else text)


def new_ulid() -> str:
    """Return a new ULID, upper-case Crockford."""
    from ulid import ULID  # imports pydantic, which reads do not need

    return str(ULID())


def new_incarnation() -> Incarnation:
    """Return 64 random bits as 16 lower-case hex digits."""
    return Incarnation(secrets.token_hex(8))


def type_id_from_number(number: int) -> TypeId:
    """Return the type id of a number of the type counter."""
    return TypeId(f"{number:016x}")
