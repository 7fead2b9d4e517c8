"""Which names a branch may have. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from omnigraph.base import limits
from omnigraph.base.errors import ConflictError, UsageError
from omnigraph.graph.snapshot import MAIN

_SEGMENT: Final = re.compile(r"[a-z0-9_][a-z0-9._-]*")
_HINT: Final = (
    "use lower-case letters, digits, '.', '_' and '-', with '/' between segments, such as review/42"
)


def check_branch_name(name: str, live: Iterable[str]) -> None:
    """Raise unless `name` is well-formed, free, and neither above nor below a live branch in the path of names."""
    why = _why_malformed(name)
    if why is not None:
        raise UsageError(
            f"'{name}' is no branch name: {why}", code="branch_name", hint=_HINT, facts={"branch": name}
        )
    for other in live:
        if name == other:
            raise ConflictError(
                f"there is already a branch '{name}'",
                code="branch_exists",
                hint="choose another name, or delete that branch first",
                facts={"branch": name},
            )
        if name.startswith(f"{other}/") or other.startswith(f"{name}/"):
            raise ConflictError(
                f"'{name}' and the branch '{other}' would lie inside each other",
                code="branch_nested",
                hint="choose a name that is not an ancestor path of a live branch",
                facts={"branch": name, "other": other},
            )


def _why_malformed(name: str) -> str | None:
    if not name or len(name.encode()) > limits.BRANCH_NAME_BYTES_MAX:
        return f"it has {len(name.encode())} bytes, 1 to {limits.BRANCH_NAME_BYTES_MAX} are allowed"
    if name.lower() == MAIN:
        return "main is always there" if name == MAIN else "it reads like main, which is always there"
    for segment in name.split("/"):
        if not _SEGMENT.fullmatch(segment):
            return f"the segment '{segment}' {_why_not_a_segment(segment)}"
        if segment.startswith("__") or ".." in segment or segment.endswith(".lock"):
            return f"the segment '{segment}' is reserved"
    return None


def _why_not_a_segment(segment: str) -> str:
    if not segment:
        return "is empty"
    if segment[0] in ".-":
        return f"starts with '{segment[0]}'"
    if _SEGMENT.fullmatch(segment.lower()):
        return "has upper-case letters"
    strange = next(one for one in segment if not _SEGMENT.fullmatch(f"a{one}"))
    return f"has {strange!r}, which is not allowed"
