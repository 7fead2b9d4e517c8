"""What a caller says about conflicts: `--strategy`, and the file of `--resolve` with a decision per entity."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from omnigraph.base import limits
from omnigraph.base.errors import UsageError

Strategy = Annotated[
    list[str] | None,
    typer.Option(
        "--strategy",
        metavar="[KIND=]ours|theirs",
        help="Whose state wins in a conflict, the target's or the source's; for one kind or for all. Repeats.",
    ),
]
Resolve = Annotated[
    str | None,
    typer.Option(
        "--resolve",
        metavar="FILE",
        help='Decisions per entity: JSON with entity_kind, type_name, entity_id and "take": "ours" or "theirs".',
    ),
]


def read_strategy(words: list[str] | None) -> dict[str, str] | str | None:
    """One side for all kinds, or a side by kind."""
    found: dict[str, str] = {}
    for word in words or ():
        kind, equals, side = word.partition("=")
        if not equals:
            if len(words or ()) > 1:
                raise UsageError(
                    f"--strategy {word} is for every kind of conflict, and another is given too",
                    code="merge_strategy",
                    hint="name the kind of each, as --strategy divergent_update=theirs",
                )
            return word
        if found.setdefault(kind, side) != side:
            raise UsageError(
                f"--strategy is given twice for {kind}, as {found[kind]} and as {side}",
                code="merge_strategy",
                hint="give each kind one side",
            )
    return found or None


def read_decisions(path: str | None) -> dict[tuple[str, str], str]:
    """The decisions of a file: a list of them, or what `--dry-run --json` printed with `take` added.

    A conflict that was printed and has no `take` is left open.
    """
    if path is None:
        return {}
    try:
        document = json.loads(_read(path))
    except (ValueError, RecursionError) as error:
        raise _unusable(path, f"it is no JSON: {error}") from error
    entries = document.get("merge_conflicts") if isinstance(document, dict) else document
    if not isinstance(entries, list):
        raise _unusable(path, "it has no list of decisions")
    found: dict[tuple[str, str], str] = {}
    for entity, side in (_decision(path, entry) for entry in entries if not _is_open(entry)):
        if found.setdefault(entity, side) != side:
            raise _unusable(path, f"{' '.join(entity)} is decided both ways")
    return found


def _read(path: str) -> str:
    try:
        with Path(path).open("rb") as file:
            data = file.read(limits.DECISIONS_BYTES_MAX + 1)
    except FileNotFoundError as error:
        raise UsageError(
            f"there is no file '{path}' with decisions",
            code="merge_decisions",
            hint="`--dry-run --json` prints the conflicts; save them, add a take to each, and pass that file",
            facts={"path": path},
        ) from error
    except (OSError, ValueError) as error:
        raise _unusable(path, (getattr(error, "strerror", None) or str(error)).lower()) from error
    if len(data) > limits.DECISIONS_BYTES_MAX:
        raise _unusable(path, f"it has more than {limits.DECISIONS_BYTES_MAX} bytes")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise _unusable(path, "it is not UTF-8") from error


def _is_open(entry: Any) -> bool:
    return isinstance(entry, dict) and "kind" in entry and "take" not in entry


def _decision(path: str, entry: Any) -> tuple[tuple[str, str], str]:
    match entry:
        case {
            "entity_kind": ("node" | "edge") as kind,
            "type_name": str(type_name),
            "entity_id": str(entity_id),
            "take": str(side),
        }:
            return (f"{kind}:{type_name}", entity_id), side
        case _:
            raise _unusable(path, f"{json.dumps(entry)[:80]} is no decision")


def _unusable(path: str, why: str) -> UsageError:
    return UsageError(
        f"{path} cannot be used as decisions: {why}",
        code="merge_decisions",
        hint="write a list of "
        '{"entity_kind": "node", "type_name": "Person", "entity_id": "ada", "take": "ours"}',
        facts={"path": path},
    )
