"""What a text means that names a commit: `HEAD`, a whole id, or enough of an id that no other commit has it. Pure.

In: the text, the head, and the ids it may be. Out: an id. An id begins with its time, so commits that were made close
together begin alike, and ends with random digits: its end names a commit as well as its beginning, and in fewer digits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from omnigraph.base import limits
from omnigraph.base.errors import UsageError
from omnigraph.base.ids import ULID_LENGTH, CommitId, as_commit_id

HEAD: Final = "HEAD"


def is_whole(text: str) -> bool:
    """Whether the text can only be an id, so that nobody has to look which one it means."""
    return len(text) == ULID_LENGTH


def name_commit(text: str, head: CommitId, read_ids: Callable[[], Iterable[CommitId]]) -> CommitId:
    """The id that the text means; when no commit has it, what was typed, for messages. Ids are read if they must be."""
    if text == HEAD:
        return head
    if is_whole(text) or len(text) < limits.COMMIT_NAME_LENGTH_MIN or not text.isalnum():
        return as_commit_id(text)
    part = text.upper()
    found = sorted({one for one in read_ids() if one.startswith(part) or one.endswith(part)}, reverse=True)
    if len(found) > 1:
        raise _ambiguous(text, found)
    return found[0] if found else CommitId(text)


def _ambiguous(text: str, found: list[CommitId]) -> UsageError:
    shown = found[: limits.COMMIT_NAMES_SHOWN_MAX]
    more = f" and {len(found) - len(shown)} more" if len(found) > len(shown) else ""
    return UsageError(
        f"{len(found)} commits begin or end with '{text}': {', '.join(shown)}{more}",
        code="commit_ambiguous",
        hint="give more of the id; its last digits differ most",
        facts={"commit": text, "candidates": list(shown)},
    )
