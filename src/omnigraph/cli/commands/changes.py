"""`omnigraph diff`, `commit changes` and `changes poll`: changed entities, as lines for people or as JSON.

The changes are read in pages and written while they are read, so that memory does not grow with their number.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import chain
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from omnigraph.base.clock import format_timestamp
from omnigraph.base.errors import UsageError
from omnigraph.cli.command import Capability, command
from omnigraph.cli.options import Branch, CommitId, require_finite
from omnigraph.cli.output import RowsFormat, printable, write_lines
from omnigraph.cli.query_options import is_graph_directory
from omnigraph.cli.results import Json, choose_format
from omnigraph.cli.target import SUFFIX, GraphArguments

if TYPE_CHECKING:
    import msgspec

    from omnigraph.client.protocol import GraphClient
    from omnigraph.wire.changes import (
        ChangeBlockOutput,
        CommitChangesOutput,
        DiffOutput,
        EntityChangeOutput,
        EntityStateOutput,
    )
    from omnigraph.wire.requests import FeedParameters

Left = Annotated[str, typer.Argument(metavar="A", help="A branch or a commit.", show_default=False)]
Right = Annotated[str, typer.Argument(metavar="B", help="Another branch or commit.", show_default=False)]
Cursor = Annotated[
    str | None, typer.Option("--cursor", metavar="ID", help="Start after this commit: the cursor of an earlier call.")
]
Start = Annotated[
    str | None,
    typer.Option(
        "--start",
        metavar="now|beginning|after:ID",
        help="Where to start without a cursor. Default: now.",
        show_default=False,
    ),
]
Wait = Annotated[
    float,
    typer.Option(
        "--wait", metavar="SECONDS", min=0, callback=require_finite, help="Wait for a commit if there is none."
    ),
]
Limit = Annotated[
    int | None,
    typer.Option("--limit", metavar="N", min=1, help="Show at most N commits. Default: 100.", show_default=False),
]
Follow = Annotated[
    bool,
    typer.Option(
        "--follow", help="Then wait for later commits and show them, until Ctrl-C. Not with --json, --wait or --limit."
    ),
]

_SIGNS: Final = {"insert": "+", "update": "~", "delete": "-"}
_PAGE: Final = 1_000
"""How many changes one request asks for."""
_LIMIT: Final = 100
_FOLLOW_SECONDS: Final = 20.0
"""How long one request of `--follow` waits for a commit."""


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

    @property
    def format(self) -> RowsFormat:
        """The chosen format."""
        return choose_format(self.changes_format, self.as_json)

    def write(self, *, document: Iterable[str], json_lines: Iterable[str], lines: Iterable[str]) -> None:
        """Print one of them. Only this one is read."""
        match self.format:
            case RowsFormat.JSON:
                write_lines(document, as_json=True)
            case RowsFormat.JSONL:
                write_lines(json_lines, as_json=True)
            case _:
                write_lines(lines)

    def write_changes(
        self, first: DiffOutput | CommitChangesOutput, read_page: Callable[[str], DiffOutput | CommitChangesOutput]
    ) -> None:
        """Print the changes of a page and of those that follow it."""
        changes = _changes(first, read_page)
        texts = map(_to_json, changes)
        head = {key: value for key, value in _members(first).items() if key not in ("changes", "next_page_token")}
        lines = _document_lines(head, "changes", texts, dict)
        self.write(document=lines, json_lines=texts, lines=map(_change_line, changes))


@command(
    "omnigraph diff main review/1 graph.omni",
    "omnigraph diff 01KA1F0Z5Q8W9V3N7R2T4Y6B8D main --store graph.omni --json",
    capability=Capability.ANY,
)
def diff(left: Left, right: Right, target: GraphArguments, output: ChangesOutput) -> None:
    """Show the changes from one branch or commit to another. A graph directory may also be the first argument."""
    if target.uri is not None and _is_graph(left) and not _is_graph(target.uri):
        left, right, target = right, target.uri, replace(target, uri=left)
    client = target.connect().client

    from omnigraph.wire.requests import DiffParameters

    def read_page(token: str | None) -> DiffOutput:
        return client.diff(DiffParameters(before=left, after=right, limit=_PAGE, page_token=token))

    output.write_changes(read_page(None), read_page)


def _is_graph(word: str) -> bool:
    """Return whether the word looks like a graph. `/` does not decide it: branches have names such as `review/1`."""
    return "://" in word or word.endswith(SUFFIX) or is_graph_directory(word)


@command(
    "omnigraph commit changes 01KA1F0Z5Q8W9V3N7R2T4Y6B8D graph.omni",
    "omnigraph commit changes 01KA1F0Z5Q8W9V3N7R2T4Y6B8D --store graph.omni --format jsonl",
    capability=Capability.ANY,
)
def changes_of_commit(
    commit_id: CommitId, target: GraphArguments, *, branch: Branch = "main", output: ChangesOutput
) -> None:
    """Show the changes of a commit relative to its first parent, per entity.

    A commit that only reorganized files, such as a compaction, has no changes.
    """
    client = target.connect().client
    commit = resolve_head(client, branch, commit_id)

    from omnigraph.wire.requests import ChangeFilter

    def read_page(token: str | None) -> CommitChangesOutput:
        return client.commit_changes(commit, ChangeFilter(limit=_PAGE, page_token=token))

    output.write_changes(read_page(None), read_page)


def resolve_head(client: GraphClient, branch: str, commit_id: str) -> str:
    """Return the commit: `HEAD` is the newest one of the branch, and other names are those of any branch."""
    if commit_id != "HEAD" or branch == "main":
        return commit_id

    from omnigraph.wire.requests import CommitListParameters

    return client.list_commits(CommitListParameters(branch=branch, limit=1)).commits[0].graph_commit_id


@command(
    "omnigraph changes poll graph.omni --start beginning",
    "omnigraph changes poll --cursor 01KA1F0Z5Q8W9V3N7R2T4Y6B8D --store graph.omni --format jsonl",
    "omnigraph changes poll --cursor 01KA1F0Z5Q8W9V3N7R2T4Y6B8D --store graph.omni --wait 30",
    "omnigraph changes poll --follow graph.omni --format jsonl",
    capability=Capability.ANY,
)
def poll(
    target: GraphArguments,
    *,
    branch: Branch = "main",
    cursor: Cursor = None,
    start: Start = None,
    wait: Wait = 0,
    limit: Limit = None,
    follow: Follow = False,
    output: ChangesOutput,
) -> None:
    """Show the commits of a branch after a cursor, oldest first, with their changes.

    The cursor is a commit id. The command prints the next cursor at the end; store it and pass it to the next call. A
    repeated cursor gives the same commits again. If `cleanup` deleted the data of a commit after the cursor,
    the command fails with `change_feed_gap`: export the branch and continue from the exported commit.
    """
    if cursor is not None and start is not None:
        raise UsageError(
            "`--cursor` and `--start` cannot be used together", code="feed_start_twice", hint="Pass only one of them."
        )
    if follow and output.format is RowsFormat.JSON:
        raise UsageError(
            "`--follow` and `--json` cannot be used together: a JSON document must end, but `--follow` does not",
            code="usage",
            hint="Pass `--format jsonl` instead of `--json`.",
        )
    if follow and (wait or limit is not None):
        flag = "--wait" if wait else "--limit"
        raise UsageError(
            f"`--follow` and `{flag}` cannot be used together: `--follow` waits for every later commit",
            code="usage",
            hint="Pass only one of them.",
        )
    client = target.connect().client
    wait = _FOLLOW_SECONDS if follow else wait

    import msgspec

    from omnigraph.wire.requests import FeedParameters

    parameters = FeedParameters(
        branch=branch, start=f"after:{cursor}" if cursor is not None else start or "now", limit=_PAGE, wait=wait or None
    )
    while True:
        feed = _Feed(client, parameters, limit or _LIMIT)
        if not follow:
            break
        if feed.has_blocks:
            output.write(document=(), json_lines=_feed_json_lines(feed), lines=_feed_lines(feed))
        parameters = msgspec.structs.replace(parameters, start=f"after:{feed.end()['cursor']}")
    output.write(
        document=_document_lines({}, "blocks", map(_to_json, feed.whole_blocks()), feed.end),
        json_lines=_feed_json_lines(feed),
        lines=_feed_lines(feed),
    )


class _Feed:
    """The commits of a branch after a start, read in pages; at the end, the next cursor."""

    def __init__(self, client: GraphClient, parameters: FeedParameters, limit: int) -> None:
        self._client, self._parameters, self._limit = client, parameters, limit
        self._page = client.poll_changes(parameters)
        self._next_cursor: str | None = None

    @property
    def has_blocks(self) -> bool:
        """Whether the first page has commits."""
        return bool(self._page.blocks)

    def blocks(self) -> Iterator[ChangeBlockOutput]:
        """Yield the blocks. The changes of a large commit are divided into several blocks."""
        commits, last = 0, None
        for block in self._read_blocks():
            commit = block.cause.graph_commit_id
            if commit != last:
                if commits == self._limit:
                    self._next_cursor = last
                    return
                commits += 1
            last = commit
            yield block

    def whole_blocks(self) -> Iterator[ChangeBlockOutput]:
        """Yield one block for each commit."""
        import msgspec

        before: ChangeBlockOutput | None = None
        for block in self.blocks():
            if before is not None and before.cause == block.cause:
                before = msgspec.structs.replace(before, changes=[*before.changes, *block.changes])
                continue
            if before is not None:
                yield before
            before = block
        if before is not None:
            yield before

    def end(self) -> dict[str, Any]:
        """Return the cursor, and whether it is the newest commit. Call it after the blocks were read."""
        if self._next_cursor is not None:
            return {"cursor": self._next_cursor}

        from omnigraph.client.paging import head_of_cursor

        assert isinstance(self._page.cursor, str), "the last page has a cursor"
        return {"cursor": head_of_cursor(self._page.cursor), "caught_up": True}

    def _read_blocks(self) -> Iterator[ChangeBlockOutput]:
        import msgspec

        yield from self._page.blocks
        while isinstance(self._page.next_page_token, str):
            following = msgspec.structs.replace(
                self._parameters, start=None, wait=None, page_token=self._page.next_page_token
            )
            self._page = self._client.poll_changes(following)
            yield from self._page.blocks


def _changes(
    first: DiffOutput | CommitChangesOutput, read_page: Callable[[str], DiffOutput | CommitChangesOutput]
) -> Iterator[EntityChangeOutput]:
    page = first
    yield from page.changes
    while isinstance(page.next_page_token, str):
        page = read_page(page.next_page_token)
        yield from page.changes


def _feed_json_lines(feed: _Feed) -> Iterator[str]:
    """Yield one line per commit with its schema steps, one per change of it, and a last line with the cursor."""
    last = None
    for block in feed.blocks():
        if block.cause != last:
            yield _to_json({key: value for key, value in _members(block).items() if key != "changes"})
        last = block.cause
        yield from map(_to_json, block.changes)
    yield _to_json(feed.end())


def _feed_lines(feed: _Feed) -> Iterator[str]:
    """Yield one line per commit, one per schema step and change of the commit, and a last line with the cursor."""
    last = None
    for block in feed.blocks():
        cause = block.cause
        if cause != last:
            time = format_timestamp(cause.authored_at)
            yield printable(f"{cause.graph_commit_id}  {time}  {cause.actor_id}  {cause.operation}")
            steps = block.schema_steps if isinstance(block.schema_steps, list) else ()
            yield from (f"  schema: {printable(step['text'])}" for step in steps)
        last = cause
        yield from (f"  {_change_line(change)}" for change in block.changes)
    end = feed.end()
    yield f"cursor {end['cursor']}" + ("" if "caught_up" in end else " (more)")


def _change_line(change: EntityChangeOutput) -> str:
    """Return the kind of change, the entity, and the properties that differ. An edge has its endpoints and its id."""
    before, after = _values(change.before), _values(change.after)
    entity = after or before or {}
    name = (
        f"{entity['from']} → {entity['to']} ({change.id})" if "from" in entity and change.kind == "edge" else change.id
    )
    text = f"{_SIGNS[change.op]} {change.type.name} {name}"
    if before is None or after is None:
        return printable(text)
    names = [name for name in {**before, **after} if before.get(name) != after.get(name)]
    differences = (f"{name} {_shorten(before.get(name))} → {_shorten(after.get(name))}" for name in names)
    return printable(f"{text}: {', '.join(differences)}")


def _values(state: EntityStateOutput | msgspec.UnsetType) -> dict[str, Any] | None:
    """Return the endpoints and properties of an entity; None if it did not exist."""
    import msgspec

    if isinstance(state, msgspec.UnsetType):
        return None
    return {**(_members(state).get("endpoints") or {}), **state.properties}


def _shorten(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 40 else f"{text[:40]}…"


def _document_lines(
    head: Mapping[str, Any], name: str, items: Iterable[str], end: Callable[[], Mapping[str, Any]]
) -> Iterator[str]:
    """Yield the lines of a document: members, a list of items that are JSON text, and what is known after them."""
    yield "{"
    yield from (f"  {line}," for line in _member_lines(head))
    yield f"  {json.dumps(name)}: ["
    before = None
    for item in chain(items, [None]):
        if before is not None:
            yield f"    {before}{'' if item is None else ','}"
        before = item
    tail = list(_member_lines(end()))
    yield "  ]" + ("," if tail else "")
    yield from (f"  {line}{',' if number < len(tail) else ''}" for number, line in enumerate(tail, start=1))
    yield "}"


def _member_lines(members: Mapping[str, Any]) -> Iterator[str]:
    for key, value in members.items():
        text = json.dumps(value, indent=2, ensure_ascii=False).replace("\n", "\n  ")
        yield f"{json.dumps(key)}: {text}"


def _members(document: Any) -> dict[str, Any]:
    import msgspec

    return dict(msgspec.to_builtins(document))


def _to_json(document: Any) -> str:
    import msgspec

    return json.dumps(msgspec.to_builtins(document), ensure_ascii=False)
