"""The options for merge conflicts: `--strategy`, and the file of `--resolve` with a decision per entity.

In: arguments and a JSON file. Out: the values that `Graph.merge` takes. Whether they match the conflicts is checked
by the merge.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from omnigraph.base import limits
from omnigraph.base.errors import ResourceLimit, UsageError

Strategy = Annotated[
    list[str] | None,
    typer.Option(
        "--strategy",
        metavar="[KIND=]ours|theirs",
        help="The state that wins a conflict: ours (target) or theirs (source), by kind or for all. Repeatable.",
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


@dataclass(frozen=True, slots=True)
class ResolutionArguments:
    """The arguments for conflicts: the sides that win."""

    strategy: Strategy = None
    resolve: Resolve = None

    def read(self) -> tuple[dict[str, str] | str | None, dict[tuple[str, str], str]]:
        """Return `strategy` and `resolve` of `Graph.merge`."""
        return _parse_strategy(self.strategy), _read_decisions(self.resolve)


def _parse_strategy(arguments: list[str] | None) -> dict[str, str] | str | None:
    """Return one side for all kinds, or a side by kind."""
    sides: dict[str, str] = {}
    for argument in arguments or ():
        kind, equals, side = argument.partition("=")
        if not equals:
            if len(arguments or ()) > 1:
                raise UsageError(
                    f"`--strategy {argument}` applies to every kind of conflict: expected no other `--strategy`",
                    code="merge_strategy",
                    hint="Pass a kind with each, as in `--strategy divergent_update=theirs`.",
                )
            return argument
        if sides.setdefault(kind, side) != side:
            raise UsageError(
                f"duplicate --strategy for {kind}: {sides[kind]} and {side}",
                code="merge_strategy",
                hint="Pass one side for each kind.",
            )
    return sides or None


def _read_decisions(path: str | None) -> dict[tuple[str, str], str]:
    """Return the decisions of a file: a list of them, or the output of `--dry-run --json` with `take` added.

    A conflict of that output without `take` is skipped.
    """
    if path is None:
        return {}
    try:
        document = json.loads(_read(path))
    except (ValueError, RecursionError) as error:
        raise _invalid_decisions(path, f"not valid JSON: {error}") from error
    entries = document.get("merge_conflicts") if isinstance(document, dict) else document
    if not isinstance(entries, list):
        raise _invalid_decisions(path, "expected a list of decisions")
    sides: dict[tuple[str, str], str] = {}
    for entity, side in (_decision(path, entry) for entry in entries if not _is_undecided(entry)):
        if sides.setdefault(entity, side) != side:
            raise _invalid_decisions(path, f"{' '.join(entity)} has two different decisions")
    return sides


def _read(path: str) -> str:
    try:
        with Path(path).open("rb") as file:
            data = file.read(limits.DECISIONS_BYTES_MAX + 1)
    except FileNotFoundError as error:
        raise UsageError(
            f"no file with decisions at '{path}'",
            code="merge_decisions",
            hint='Save the output of `--dry-run --json`, add `"take"` to each conflict, and pass that file.',
            facts={"path": path},
        ) from error
    except (OSError, ValueError) as error:
        raise _invalid_decisions(path, (getattr(error, "strerror", None) or str(error)).lower()) from error
    if len(data) > limits.DECISIONS_BYTES_MAX:
        limit = ResourceLimit("decisions", limits.DECISIONS_BYTES_MAX, "bytes")
        raise _invalid_decisions(path, f"expected at most {limits.DECISIONS_BYTES_MAX:,} bytes, got more", limit)
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise _invalid_decisions(path, "expected UTF-8") from error


def _is_undecided(entry: Any) -> bool:
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
            raise _invalid_decisions(path, f"expected a decision, got {json.dumps(entry)[:80]}")


def _invalid_decisions(path: str, reason: str, limit: ResourceLimit | None = None) -> UsageError:
    return UsageError(
        f"invalid decisions in '{path}': {reason}",
        code="merge_decisions",
        hint="Write a list of objects such as "
        '`{"entity_kind": "node", "type_name": "Person", "entity_id": "ada", "take": "ours"}`.',
        facts={"path": path} if limit is None else {"path": path, **limit.facts()},
    )
