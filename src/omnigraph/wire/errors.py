"""The JSON document of an error: what a command prints with `--json` and what HTTP sends. Pure.

In: an error, and its hint as the surface renders it. Out: the document with the members of every error, followed by the
facts of this one.
"""

from __future__ import annotations

from omnigraph.base.errors import Fact, OmnigraphError


def error_document(error: OmnigraphError, hint: str) -> dict[str, Fact]:
    """Return the document of an error. An empty hint, and `applied` of an error that is not of a write, are omitted."""
    document: dict[str, Fact] = {"error": error.message, "kind": error.kind.value, "error_code": error.code}
    if hint:
        document["hint"] = hint
    if error.applied is not None:
        document["applied"] = error.applied.value
    return {**document, **error.facts}
