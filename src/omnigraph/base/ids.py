"""Names for the ids that travel through the rooms, and how new ones are made.

ULIDs are upper-case Crockford text, as stored. Type ids and incarnations are 16 lower-case hex digits: a type
id counts up and is never reused; an incarnation is 64 random bits, so that two branches that add a type at the
same moment never share a path.
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
    """What a user typed, as ids are stored; what cannot be an id stays as it was typed, for messages."""
    return CommitId(text.upper() if len(text) == ULID_LENGTH and text.isascii() else text)


def new_ulid() -> str:
    """A fresh ULID, upper-case Crockford."""
    from ulid import ULID  # it loads pydantic, which no read needs

    return str(ULID())


def new_incarnation() -> Incarnation:
    """64 random bits as 16 lower-case hex digits."""
    return Incarnation(secrets.token_hex(8))


def type_id_from_number(number: int) -> TypeId:
    """The text form of the type counter."""
    return TypeId(f"{number:016x}")
