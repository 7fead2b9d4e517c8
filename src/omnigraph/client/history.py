"""The history of a graph in pages: commits, the feed of a branch, and the changes between states.

In: a graph and a request. Out: a page. A feed fixes the head that its first page saw, so that following its pages ends.
Nothing here writes.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import msgspec

from omnigraph.api.arguments import require_positive
from omnigraph.api.graph import Graph
from omnigraph.api.history import read_commit, read_history, read_log, read_log_names
from omnigraph.base.errors import UsageError
from omnigraph.base.ids import as_commit_id
from omnigraph.client.paging import (
    ChosenTypes,
    Cursor,
    DiffToken,
    FeedToken,
    LogToken,
    PageSize,
    decode_token,
    encode_token,
    filter_text,
    rejected,
    select_changes,
)
from omnigraph.graph.diff import diff_snapshots
from omnigraph.graph.feed import read_commit_diff, read_feed
from omnigraph.graph.manifest.lineage import make_lineage
from omnigraph.graph.manifest.refs import read_named_commit, read_reference
from omnigraph.graph.manifest.snapshot import MAIN, Snapshot, find_named_commit, read_snapshot
from omnigraph.wire.changes import (
    ChangeBlockOutput,
    ChangeFeedOutput,
    CommitChangesOutput,
    DiffOutput,
    block_output,
    cause_output,
)
from omnigraph.wire.commits import CommitListOutput, CommitOutput, LogOutput, commit_outputs, log_output

if TYPE_CHECKING:
    from omnigraph.graph.manifest.records import CommitRecord
    from omnigraph.wire import requests as wr

_FEED_COMMITS: int = 100
"""How many commits of a feed are read at once, and how many a page has at most."""


def list_commits(graph: Graph, limit: int) -> CommitListOutput:
    """Return the newest commits of the branch of a graph."""
    require_positive("limit", limit)
    return CommitListOutput(graph.branch, commit_outputs(read_history(graph.location, graph.branch, limit)))


def get_commit(graph: Graph, commit: str) -> CommitOutput:
    """Return a commit of any branch."""
    snapshot, record = _find(graph, commit)
    (document,) = commit_outputs(read_commit(graph.location, snapshot.branch.name, record.id))
    return document


def read_page_of_log(graph: Graph, parameters: wr.LogParameters) -> LogOutput:
    """Return a page of the commits of all branches."""
    require_positive("limit", parameters.limit)
    log = read_log(graph.location)
    first = _first_commit(read_snapshot(graph.location, MAIN))
    if parameters.page_token is not None:
        token = decode_token(parameters.page_token, LogToken, graph=first)
        ids = [commit.id for commit in log.commits]
        if token.after not in ids:
            raise rejected("its commit does not exist any more")
        log = replace(log, commits=log.commits[ids.index(as_commit_id(token.after)) + 1 :])
    page = log_output(log, read_log_names(graph.location, log, parameters.limit))
    if len(log.commits) <= parameters.limit:
        return page
    token = LogToken(graph=first, filter="", after=page.commits[-1].graph_commit_id)
    return msgspec.structs.replace(page, next_page_token=encode_token(token))


def poll_changes(graph: Graph, parameters: wr.FeedParameters, *, wide_as_text: bool = False) -> ChangeFeedOutput:
    """Return a page of the feed of a branch."""
    newest = graph.snapshot()
    graph_id, branch_id, chosen = _first_commit(newest), newest.branch.id, filter_text(parameters)
    token = _feed_position(newest, parameters, graph_id, chosen)
    # A type can be dropped while a consumer follows the feed.
    is_first = parameters.cursor is None and parameters.page_token is None
    types = _chosen_types(parameters, newest, require=is_first)
    size, after, skipped = PageSize.of(parameters.limit), token.after, token.skipped
    blocks: list[ChangeBlockOutput] = []
    while after != token.until and len(blocks) < _FEED_COMMITS and not size.is_full:
        feed = read_feed(graph.location, graph.branch, after, _FEED_COMMITS)
        for commit_changes in feed.commits:
            selected = select_changes(commit_changes.changes, parameters, types, wide_as_text=wide_as_text)
            changes, has_more = size.take(selected, skipped)
            if changes or not chosen or commit_changes.schema_steps:
                blocks.append(msgspec.structs.replace(block_output(commit_changes), changes=changes))
            if has_more:
                skipped += len(changes)
                break
            after, skipped = commit_changes.commit.id, 0
            if after == token.until or size.is_full:
                break
    if after == token.until:
        cursor = Cursor(graph=graph_id, filter=chosen, branch=branch_id, after=token.until)
        return ChangeFeedOutput(blocks=blocks, cursor=encode_token(cursor), caught_up=True)
    following = msgspec.structs.replace(token, after=after, skipped=skipped)
    return ChangeFeedOutput(blocks=blocks, next_page_token=encode_token(following))


def _feed_position(newest: Snapshot, parameters: wr.FeedParameters, graph_id: str, chosen: str) -> FeedToken:
    """Return where a page of a feed begins and ends."""
    selectors = [value for value in (parameters.page_token, parameters.cursor, parameters.start) if value is not None]
    if len(selectors) > 1:
        raise UsageError(
            "expected one of `cursor`, `start` and `page_token`, got several",
            code="feed_start_twice",
            hint="Pass only the `cursor` of the last page, or only the `next_page_token` of a page.",
        )
    if parameters.page_token is not None:
        token = decode_token(parameters.page_token, FeedToken, graph=graph_id, chosen=chosen)
        if token.branch != newest.branch.id:
            raise rejected("it belongs to another branch")
        return token
    after: str | None = newest.head
    if parameters.cursor is not None:
        cursor = decode_token(parameters.cursor, Cursor, graph=graph_id, chosen=chosen)
        if cursor.branch != newest.branch.id:
            raise rejected("it belongs to another branch")
        after = cursor.after
    elif parameters.start == "beginning":
        after = None
    elif parameters.start is not None and parameters.start.startswith("after:"):
        after = find_named_commit(newest, parameters.start.removeprefix("after:")).id
    elif parameters.start not in (None, "now"):
        raise UsageError(
            f"invalid start: expected now, beginning or after:ID, got '{parameters.start}'",
            code="feed_start_invalid",
            hint="Pass `beginning` for all changes, or `now` for those to come.",
        )
    return FeedToken(graph=graph_id, filter=chosen, branch=newest.branch.id, after=after, until=newest.head)


def commit_changes(
    graph: Graph, commit: str, parameters: wr.ChangeFilter, *, wide_as_text: bool = False
) -> CommitChangesOutput:
    """Return a page of what a commit changed."""
    snapshot, record = _find(graph, commit)
    graph_id, chosen = _first_commit(snapshot), filter_text(parameters)
    token = DiffToken(graph=graph_id, filter=chosen, before=None, after=record.id)
    token = _diff_position(parameters, token)
    commit_diff = read_commit_diff(graph.location, snapshot.branch.name, record.id)
    types = _chosen_types(parameters, snapshot, require=False)
    changes = select_changes(commit_diff, parameters, types, wide_as_text=wide_as_text)
    page, has_more = PageSize.of(parameters.limit).take(changes, token.skipped)
    return CommitChangesOutput(
        cause=cause_output(record), changes=page, next_page_token=_next_token(token, len(page), has_more)
    )


def diff_states(graph: Graph, parameters: wr.DiffParameters, *, wide_as_text: bool = False) -> DiffOutput:
    """Return a page of what differs between two branches or commits."""
    main = read_snapshot(graph.location, MAIN)
    graph_id, chosen = _first_commit(main), filter_text(parameters)
    left, right = parameters.before.strip(), parameters.after.strip()
    before, after = read_reference(graph.location, left), read_reference(graph.location, right)
    if parameters.page_token is not None:
        first_page = decode_token(parameters.page_token, DiffToken, graph=graph_id, chosen=chosen)
        before, after = _read_pinned(before, left, first_page.before), _read_pinned(after, right, first_page.after)
    token = DiffToken(graph=graph_id, filter=chosen, before=before.head, after=after.head)
    token = _diff_position(parameters, token)
    types = _chosen_types(parameters, before, after)
    changes = select_changes(diff_snapshots(before, after), parameters, types, wide_as_text=wide_as_text)
    page, has_more = PageSize.of(parameters.limit).take(changes, token.skipped)
    return DiffOutput(
        before=before.head, after=after.head, changes=page, next_page_token=_next_token(token, len(page), has_more)
    )


def _read_pinned(newest: Snapshot, name: str, commit: str | None) -> Snapshot:
    """Return the state that a reference had when the first page was read; raise if it never had that state.

    A caller can forge a token, and may only read the references of its request.
    """
    if commit == newest.head:
        return newest
    history = make_lineage(newest.head, newest.manifest.read_commits()).history()
    if commit is None or name != newest.branch.name or commit not in {record.id for record in history}:
        raise rejected("it belongs to other commits")
    return read_reference(newest.root, commit)


def _chosen_types(parameters: wr.ChangeFilter, *states: Snapshot, require: bool = True) -> ChosenTypes | None:
    if parameters.type is None:
        return None
    return ChosenTypes.of(parameters.type, [state.schema.catalog for state in states], require=require)


def _diff_position(parameters: wr.ChangeFilter, token: DiffToken) -> DiffToken:
    if parameters.page_token is None:
        return token
    sent = decode_token(parameters.page_token, DiffToken, graph=token.graph, chosen=token.filter)
    if (sent.before, sent.after) != (token.before, token.after):
        raise rejected("it belongs to other commits")
    return sent


def _next_token(token: DiffToken, delivered: int, has_more: bool) -> str | msgspec.UnsetType:
    if not has_more:
        return msgspec.UNSET
    return encode_token(msgspec.structs.replace(token, skipped=token.skipped + delivered))


def _find(graph: Graph, commit: str) -> tuple[Snapshot, CommitRecord]:
    """Return a commit of any branch, with the newest state of its branch."""
    return read_named_commit(graph.location, commit)


def _first_commit(newest: Snapshot) -> str:
    """Return the first commit of the graph, which identifies it."""
    history = make_lineage(newest.head, newest.manifest.read_commits()).history()
    return min(commit.id for commit in history)
