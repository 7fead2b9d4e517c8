"""`omnigraph diff`, `commit changes` and `changes poll`: changed entities, as lines for people or as JSON.

The changes are written while they are read, so that memory does not grow with their number.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from itertools import chain
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from omnigraph.base.clock import format_timestamp
from omnigraph.cli.command import Capability, command
from omnigraph.cli.options import Branch, CommitId
from omnigraph.cli.output import RowsFormat, printable, write_lines
from omnigraph.cli.results import Json, choose_format
from omnigraph.cli.target import StorageArguments

if TYPE_CHECKING:
    import msgspec

    from omnigraph.types import ChangeFeed, CommitChanges, EntityChange
    from omnigraph.wire.changes import ChangeBlockOutput

Left = Annotated[str, typer.Argument(metavar="A", help="A branch or a commit.", show_default=False)]
Right = Annotated[str, typer.Argument(metavar="B", help="Another branch or commit.", show_default=False)]
Cursor = Annotated[
    str | None, typer.Option("--cursor", metavar="ID", help="Start after this commit. Default: the first commit.")
]
Limit = Annotated[int, typer.Option("--limit", metavar="N", min=1, help="Show at most N commits.")]

_SIGNS: Final = {"inserted": "+", "updated": "~", "deleted": "-"}


class ChangesFormat(StrEnum):
    """The formats for changes: lines for people, one JSON document, and lines of JSON."""

    TABLE = "table"
    JSON = "json"
    JSONL = "jsonl"


@dataclass(frozen=True, slots=True)
class ChangesOutput:
    """The output of these commands."""

    changes_format: Annotated[
        ChangesFormat | None, typer.Option("--format", help="The format of the changes. Default: lines for people.")
    ] = None
    as_json: Json = False

    def __post_init__(self) -> None:
        choose_format(self.changes_format, self.as_json)

    def write(self, *, document: Iterable[str], json_lines: Iterable[str], lines: Iterable[str]) -> None:
        """Print one of them. Only this one is read."""
        match choose_format(self.changes_format, self.as_json):
            case RowsFormat.JSON:
                write_lines(document, as_json=True)
            case RowsFormat.JSONL:
                write_lines(json_lines, as_json=True)
            case _:
                write_lines(lines)

    def write_changes(self, document: msgspec.Struct, changes: Iterable[EntityChange]) -> None:
        """Print changes. The document is complete except for its `changes`."""
        texts = map(_change_json, changes)
        lines = _document_lines(document, "changes", texts)
        self.write(document=lines, json_lines=texts, lines=map(_change_line, changes))


@command(
    "omnigraph diff main review/1 graph.omni",
    "omnigraph diff 01KA1F0Z5Q8W9V3N7R2T4Y6B8D main --store graph.omni --json",
    capability=Capability.ANY,
)
def diff(left: Left, right: Right, target: StorageArguments, output: ChangesOutput) -> None:
    """Show the changes from one branch or commit to another."""
    location = target.locate()

    from omnigraph.api.history import read_diff
    from omnigraph.wire.changes import DiffOutput

    states = read_diff(location, left, right)
    output.write_changes(DiffOutput(before=states.before, after=states.after, changes=[]), states.changes)


@command(
    "omnigraph commit changes 01KA1F0Z5Q8W9V3N7R2T4Y6B8D graph.omni",
    "omnigraph commit changes 01KA1F0Z5Q8W9V3N7R2T4Y6B8D --store graph.omni --format jsonl",
    capability=Capability.ANY,
)
def changes_of_commit(
    commit_id: CommitId, target: StorageArguments, *, branch: Branch = "main", output: ChangesOutput
) -> None:
    """Show the changes of a commit relative to its first parent, per entity.

    A commit that only reorganized files, such as a compaction, has no changes.
    """
    graph = target.open(branch)

    from omnigraph.wire.changes import CommitChangesOutput, cause_output

    commit = graph.get_commit(commit_id)
    output.write_changes(CommitChangesOutput(cause=cause_output(commit), changes=[]), graph.diff(commit.id))


@command(
    "omnigraph changes poll graph.omni",
    "omnigraph changes poll --cursor 01KA1F0Z5Q8W9V3N7R2T4Y6B8D --store graph.omni --format jsonl",
    capability=Capability.ANY,
)
def poll(
    target: StorageArguments,
    *,
    branch: Branch = "main",
    cursor: Cursor = None,
    limit: Limit = 100,
    output: ChangesOutput,
) -> None:
    """Show the commits of a branch after a cursor, oldest first, with their changes.

    The cursor is a commit id. The command prints the next cursor at the end; store it and pass it to the next call. A
    repeated cursor gives the same commits again. If `cleanup` deleted the data of a commit after the cursor,
    the command fails with `change_feed_gap`: export the branch and continue from the exported commit.
    """
    feed = target.open(branch).changes(cursor, limit=limit)

    from omnigraph.wire.changes import feed_output

    blocks = (_to_json(_block(commit_changes)) for commit_changes in feed.commits)
    output.write(
        document=_document_lines(feed_output(feed), "blocks", blocks),
        json_lines=_feed_json_lines(feed),
        lines=_feed_lines(feed),
    )


def _block(commit_changes: CommitChanges) -> ChangeBlockOutput:
    import msgspec

    from omnigraph.wire.changes import block_output, entity_change_output

    changes = list(map(entity_change_output, commit_changes.changes))
    return msgspec.structs.replace(block_output(commit_changes), changes=changes)


def _feed_json_lines(feed: ChangeFeed) -> Iterator[str]:
    """Yield one line per commit with its schema steps, one per change of it, and a last line with the cursor."""
    from omnigraph.wire.changes import block_output, feed_output

    for commit_changes in feed.commits:
        yield _to_json(_members_before(block_output(commit_changes), "changes"))
        yield from map(_change_json, commit_changes.changes)
    yield _to_json(_members_before(feed_output(feed), "blocks"))


def _feed_lines(feed: ChangeFeed) -> Iterator[str]:
    """Yield one line per commit, one per schema step and change of the commit, and a last line with the cursor."""
    for commit_changes in feed.commits:
        commit = commit_changes.commit
        yield printable(f"{commit.id}  {format_timestamp(commit.created_us)}  {commit.actor}  {commit.operation}")
        yield from (f"  schema: {printable(step.planned.step.describe())}" for step in commit_changes.schema_steps)
        yield from (f"  {_change_line(change)}" for change in commit_changes.changes)
    yield f"cursor {feed.cursor}" + (" (more)" if feed.has_more else "")


def _change_json(change: EntityChange) -> str:
    from omnigraph.wire.changes import entity_change_output

    return _to_json(entity_change_output(change))


def _change_line(change: EntityChange) -> str:
    """Return the kind of change, the entity, and the properties that differ. An edge has its endpoints and its id."""
    entity = change.after or change.before or {}
    name = f"{entity['from']} → {entity['to']} ({change.id})" if "from" in entity else change.id
    text = f"{_SIGNS[change.kind.value]} {change.table.partition(':')[2]} {name}"
    if change.before is None or change.after is None:
        return printable(text)
    before, after = _values(change.before), _values(change.after)
    names = [name for name in {**before, **after} if before.get(name) != after.get(name)]
    differences = (f"{name} {_shorten(before.get(name))} → {_shorten(after.get(name))}" for name in names)
    return printable(f"{text}: {', '.join(differences)}")


def _values(entity: dict[str, Any]) -> dict[str, Any]:
    endpoints = {name: entity[name] for name in ("from", "to") if name in entity}
    return {**endpoints, **entity["data"]}


def _shorten(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 40 else f"{text[:40]}…"


def _document_lines(document: msgspec.Struct, name: str, items: Iterable[str]) -> Iterator[str]:
    """Yield the lines of a document whose last member, `name`, is a list of `items`, which are JSON text."""
    opening = _to_json(_members_before(document, name), indent=2).removesuffix("\n}")
    yield f"{opening},\n  {json.dumps(name)}: ["
    before = None
    for item in chain(items, [None]):
        if before is not None:
            yield f"    {before}{'' if item is None else ','}"
        before = item
    yield "  ]\n}"


def _members_before(document: msgspec.Struct, name: str) -> dict[str, Any]:
    """Return the members of a document except `name`, the last one."""
    import msgspec

    return {key: value for key, value in msgspec.to_builtins(document).items() if key != name}


def _to_json(document: Any, indent: int | None = None) -> str:
    import msgspec

    return json.dumps(msgspec.to_builtins(document), indent=indent, ensure_ascii=False)
