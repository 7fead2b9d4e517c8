"""`omnigraph.connect`: a graph of a server for Python programs, with the results that `Graph` returns.

In: texts and values. Out: the values of `omnigraph.types`, created from the documents of the server. A server does not
say what only storage has: `manifest_version` of a result is 0, a commit has no `branch_id` and `operation_id`, and a
change has no `wide_properties`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Final

import msgspec
import pyarrow as pa

from omnigraph.api.results import Result, ResultSource
from omnigraph.api.texts import build_schema, read_schema, source_name
from omnigraph.base.decoding import convert
from omnigraph.base.display import Displayed
from omnigraph.base.errors import NotFoundError, UsageError
from omnigraph.base.hints import action, hint
from omnigraph.base.ids import BranchId, CommitId
from omnigraph.client.credentials import find_token
from omnigraph.client.errors import conflict_of_document
from omnigraph.client.export import LinesRequest, export_lines
from omnigraph.client.http import Connection
from omnigraph.client.paging import head_of_cursor
from omnigraph.client.remote import HttpGraph, choose_graph
from omnigraph.client.values import change_value, commit_value, explained_step_value, load_counts_value, to_arrow
from omnigraph.engine.limits import Budget
from omnigraph.engine.mutation.stage import EntityCounts
from omnigraph.engine.mutation.text import MutationResult
from omnigraph.engine.operators.rows import result_schema
from omnigraph.engine.options import EngineOptions
from omnigraph.engine.prepare import ExplainResult
from omnigraph.engine.run import Stream
from omnigraph.graph.branch_list import BranchStatus
from omnigraph.graph.diff import EntityChange, EntityChanges
from omnigraph.graph.feed import NOT_IN_HISTORY, ChangeFeed, CommitChanges, SchemaStep, feed_gap
from omnigraph.graph.manifest.records import BranchParent, BranchRecord, CommitRecord, TableId
from omnigraph.graph.merge.request import make_resolution
from omnigraph.graph.merge.run import MergeOutcome, MergeResult, TableCounts
from omnigraph.graph.schema_change import HARD_DROPS
from omnigraph.graph.schema_plan import PlannedStep
from omnigraph.maintenance.indexed_load import LoadResult
from omnigraph.pipeline.export.run import ExportResult
from omnigraph.pipeline.export.target import TargetKind
from omnigraph.pipeline.export.tasks import ExportFormat
from omnigraph.pipeline.load.plan import require_mode
from omnigraph.query.checks.run import check_query
from omnigraph.query.parser import parse_queries
from omnigraph.query.plan import operators as op
from omnigraph.query.plan.statements import ReadPlan
from omnigraph.schema.catalog_json import catalog_from_json
from omnigraph.schema.evolution.diff import find_steps_by_id
from omnigraph.schema.evolution.steps import Cost, UpdateText
from omnigraph.wire import requests as wr

if TYPE_CHECKING:
    from types import TracebackType

    from omnigraph.schema.catalog import Catalog
    from omnigraph.wire.changes import ChangeBlockOutput, ChangeFeedOutput, CommitChangesOutput, DiffOutput
    from omnigraph.wire.commits import BranchOutput

_PAGE: Final = 1_000
"""How many changes one request asks for."""


def connect(url: str, graph: str | None = None, token: str | None = None, *, insecure: bool = False) -> RemoteGraph:
    """Return a graph of a server.

    Args:
        url: The address of the server, with any prefix of a proxy.
        graph: The id of the graph. Default: the only graph of the server.
        token: The token of the caller. Default: `OMNIGRAPH_BEARER_TOKEN`. It is not sent over plain HTTP to another
            machine.
        insecure: Send the token over plain HTTP to another machine anyway.

    Example:
        >>> og.connect(url).branch
        'main'
    """
    connection = Connection(url, token if token is not None else find_token(None), is_insecure=insecure)
    graph_id = graph if graph is not None else choose_graph(connection)
    return RemoteGraph(HttpGraph(connection=connection, graph_id=graph_id))


@dataclass(frozen=True, slots=True, repr=False)
class RemoteGraph(Displayed):
    """A graph of a server, on one branch. `connect` returns it; its methods return what those of `Graph` return.

    Example:
        >>> served
        RemoteGraph
          uri     http...graphs/default
          branch  main
    """

    client: HttpGraph
    branch: str = "main"
    """The branch that calls read and write."""
    _catalogs: dict[str, Catalog] = field(default_factory=dict, repr=False, compare=False)

    @property
    def uri(self) -> str:
        """The address of the graph."""
        return f"{self.client.connection.url}/{self.client.uri}"

    def _summary(self) -> Mapping[str, object]:
        return {"uri": self.uri, "branch": self.branch}

    @property
    def schema(self) -> str:
        """The schema of the newest state, as text."""
        return self.client.schema(self._state(None)).schema_source

    def close(self) -> None:
        """Close the connections to the server. A graph in a `with` statement is closed at its end.

        Example:
            >>> with og.connect(url) as served:
            ...     served.branch
            'main'
        """
        self.client.connection.close()

    def __enter__(self) -> RemoteGraph:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # Queries

    def query(
        self,
        text: str,
        params: Mapping[str, object] | None = None,
        *,
        name: str | None = None,
        as_of: str | None = None,
    ) -> Result:
        """Run a read query.

        Args:
            text: Text with one query or several.
            params: The values of its parameters.
            name: The query to run if the text has several.
            as_of: A commit. Default: the newest state of the branch.

        Example:
            >>> served.query("query q() { match { $p: Person } return { $p.slug } }").to_pylist()
            [{'p.slug': 'ada'}, {'p.slug': 'bob'}]
        """
        state = msgspec.to_builtins(self._state(as_of))
        request = wr.QueryRequest(query=text, name=name, params=_plain(params), **state)
        document = self.client.query(request)
        schema = self._result_schema(text, name, document.graph_commit_id)
        columns = [to_arrow([row[member.name] for row in document.rows], member.type) for member in schema]
        batch = pa.RecordBatch.from_arrays(columns, schema=schema)
        source = ResultSource(document.query_name, document.target.branch, 0, document.graph_commit_id)
        return Result(source, Stream(schema, iter([batch]), Budget(EngineOptions())))

    def mutate(
        self,
        text: str,
        params: Mapping[str, object] | None = None,
        *,
        name: str | None = None,
        if_commit: str | None = None,
    ) -> MutationResult:
        """Run a query that inserts, updates or deletes, as one commit. The token decides who writes.

        Args:
            text: Text with one query or several.
            params: The values of its parameters.
            name: The query to run if the text has several.
            if_commit: The full id of the commit that must be the newest of the branch; otherwise nothing is written.

        Example:
            >>> served.mutate('query add() { insert Person { slug: "eve" } }').affected_nodes
            1
        """
        request = wr.ChangeRequest(query=text, name=name, params=_plain(params), branch=self.branch)
        document = self.client.mutate(request, if_commit)
        return MutationResult(
            query_name=document.query_name,
            branch=document.branch,
            nodes=EntityCounts(**document.nodes),
            edges=EntityCounts(**document.edges),
            actor=document.actor_id,
            commit=None if document.commit is None else commit_value(document.commit),
        )

    def explain(
        self,
        text: str,
        params: Mapping[str, object] | None = None,
        *,
        name: str | None = None,
        as_of: str | None = None,
        analyze: bool = False,
    ) -> ExplainResult:
        """Return how a query would run; with `analyze`, run it and return how it ran.

        Example:
            >>> served.explain("query q() { match { $p: Person } return { $p.slug } }").query_name
            'q'
        """
        state = msgspec.to_builtins(self._state(as_of))
        request = wr.ExplainRequest(query=text, name=name, params=_plain(params), analyze=analyze, **state)
        document = self.client.explain(request)
        return ExplainResult(
            query_name=document.query_name,
            branch=document.target.branch or self.branch,
            commit=document.graph_commit_id,
            text=document.text,
            steps=tuple(map(explained_step_value, document.steps)),
        )

    # Data

    def load(
        self, data: str | PathLike[str] | BinaryIO | Iterable[Mapping[str, Any]], *, mode: str = "append"
    ) -> LoadResult:
        """Load lines of graph data as one commit, or raise with nothing written.

        Args:
            data: A file of NDJSON, an open binary file, or objects such as `{"type": "Person", "data": {…}}`. At most
                32 MiB.
            mode: `append`, `merge`, `patch` or `overwrite`, as in `Graph.load`.

        Example:
            >>> served.load([{"type": "Person", "data": {"slug": "eve"}}]).total
            1
        """
        require_mode(mode)
        parameters = convert({"branch": self.branch, "mode": mode}, wr.LoadParameters)
        document = self.client.load(parameters, _read_lines(data))
        types = {
            f"{kind}:{loaded.name}": loaded
            for kind, members in (("node", document.nodes), ("edge", document.edges))
            for loaded in members
        }
        return LoadResult(
            branch=document.branch,
            mode=document.mode,
            counts={alias: loaded.entities_loaded for alias, loaded in types.items()},
            actor=document.actor_id,
            commit=None if document.commit is None else commit_value(document.commit),
            dry_run=document.dry_run,
            branch_created=document.branch_created,
            base_branch=document.base_branch,
            runner=document.runner,
            changes={alias: load_counts_value(loaded) for alias, loaded in types.items()} if document.commit else {},
        )

    def export(
        self,
        out: str | PathLike[str] | BinaryIO,
        *,
        types: Iterable[str] | None = None,
        as_of: str | None = None,
        force: bool = False,
    ) -> ExportResult:
        """Write the graph as lines of graph data, to a file or an open binary file.

        Args:
            out: A file, compressed if it ends in `.gz` or `.zst`; or an open binary file.
            types: Types by name or alias. Default: all.
            as_of: A commit. Default: the newest state of the branch.
            force: Replace a file that exists.

        Example:
            >>> served.export("people.jsonl").total
            3
        """
        names = None if types is None else list(types)
        lines = LinesRequest(state=self._state(as_of), branch=self.branch, types=names, force=force)
        document = export_lines(self.client, lines, out)
        counts = {
            f"{kind}:{exported.name}": exported.entities_exported
            for kind, members in (("node", document.nodes), ("edge", document.edges))
            for exported in members
        }
        return ExportResult(
            counts=counts,
            commit=CommitId(document.graph_commit_id),
            files=tuple(document.files),
            size_bytes=document.size_bytes,
            kind=TargetKind.FILE if document.files else TargetKind.STREAM,
            format=ExportFormat.NDJSON,
        )

    # Branches

    def checkout(self, branch: str) -> RemoteGraph:
        """Return the graph on another branch.

        Example:
            >>> served.create_branch("review/1").branch
            'review/1'
            >>> served.checkout("review/1").branch
            'review/1'
        """
        self.client.snapshot(wr.StateParameters(branch=branch))
        return replace(self, branch=branch)

    def create_branch(self, name: str, *, from_: str | None = None) -> RemoteGraph:
        """Create a branch and return the graph on it. Nothing is copied.

        Args:
            name: The new branch.
            from_: The branch or commit to start from. Default: the branch of the graph.

        Example:
            >>> served.create_branch("review/1", from_="main").branch
            'review/1'
        """
        self.client.create_branch(wr.BranchCreateRequest(name=name, source=from_ or self.branch))
        return replace(self, branch=name)

    def list_branches(self) -> tuple[BranchStatus, ...]:
        """Return every branch, main first, with its newest commit and its distance from main.

        Example:
            >>> [status.record.name for status in served.list_branches()]
            ['main']
        """
        return tuple(self._branch_status(branch) for branch in self.client.list_branches().details)

    def delete_branch(self, name: str) -> None:
        """Delete a branch. Main, and a branch that another branch was created from, cannot be deleted.

        Example:
            >>> review = served.create_branch("review/1")
            >>> served.delete_branch("review/1")
        """
        self.client.delete_branch(name)

    def merge(
        self,
        source: str,
        *,
        strategy: str | Mapping[str, str] | None = None,
        resolve: Mapping[tuple[str, str], str] | None = None,
        dry_run: bool = False,
    ) -> MergeResult:
        """Merge a branch, or a commit of one, into the branch of the graph as one commit, or raise with every conflict.

        A conflict has no `ours` and `theirs`, and a dry run no `schema_steps` and no `source_head`.

        Args:
            source: The branch or commit to merge.
            strategy: `ours` (the state of this branch) or `theirs` (of the source), for every conflict or by kind.
            resolve: `ours` or `theirs` for single entities, by type (`Person` or `node:Person`) and id.
            dry_run: Write nothing and return the conflicts.

        Example:
            >>> review = served.create_branch("review/1")
            >>> served.merge("review/1").outcome.value
            'already_up_to_date'
        """
        resolution = make_resolution(strategy, resolve, lambda: build_schema(read_schema(f"{self.schema}\n")))
        decisions = [
            {"entity_kind": kind, "type_name": name, "entity_id": entity.id, "take": side.value}
            for entity, side in resolution.entities.items()
            for kind, _, name in [entity.table.partition(":")]
        ]
        members = {"source": source, "target": self.branch, "dry_run": dry_run, "strategy": strategy}
        request = convert({**members, "resolve": decisions or None}, wr.BranchMergeRequest)
        document = self.client.merge(request)
        commit = None if document.commit is None else commit_value(document.commit)
        steps = self._schema_steps(commit, document.schema_steps) if commit and document.schema_steps else ()
        return MergeResult(
            source=document.source,
            target=document.target,
            outcome=MergeOutcome(document.outcome),
            source_head=CommitId("") if commit is None or commit.merged_parent is None else commit.merged_parent,
            commit=commit,
            tables=tuple(TableCounts(table=row.pop("table_key"), **row) for row in document.tables),
            conflicts=tuple(map(conflict_of_document, document.merge_conflicts)),
            schema_steps=tuple(step.planned for step in steps),
        )

    # History

    def log(self, limit: int = 50) -> tuple[CommitRecord, ...]:
        """Return the newest commits of the branch, newest first.

        Example:
            >>> [commit.operation.value for commit in served.log()]
            ['mutate', 'init']
        """
        listed = self.client.list_commits(wr.CommitListParameters(branch=self.branch, limit=limit))
        return tuple(map(commit_value, listed.commits))

    def get_commit(self, commit: str) -> CommitRecord:
        """Return a commit of any branch, by its id or a unique part of it; `HEAD` is the newest of the branch.

        Example:
            >>> served.get_commit("HEAD").operation.value
            'mutate'
        """
        return self.log(1)[0] if commit == "HEAD" else commit_value(self.client.get_commit(commit))

    def diff(self, left: str, right: str | None = None) -> EntityChanges:
        """Return the changes from one branch or commit to another; with one commit, what it changed.

        Example:
            >>> sorted(change.id for change in served.diff("HEAD") if change.table == "node:Person")
            ['ada', 'bob']
        """
        if right is None:
            commit = self.get_commit(left).id

            def read_page(token: str | None) -> DiffOutput | CommitChangesOutput:
                return self.client.commit_changes(commit, wr.ChangeFilter(limit=_PAGE, page_token=token))
        else:
            before, after = left, right

            def read_page(token: str | None) -> DiffOutput | CommitChangesOutput:
                parameters = wr.DiffParameters(before=before, after=after, limit=_PAGE, page_token=token)
                return self.client.diff(parameters)

        def read() -> Iterator[EntityChange]:
            token: str | None = None
            while True:
                page = read_page(token)
                yield from map(change_value, page.changes)
                if not isinstance(page.next_page_token, str):
                    return
                token = page.next_page_token

        return EntityChanges(read)

    def changes(self, since: str | None = None, *, limit: int = 100) -> ChangeFeed:
        """Return the next commits of the branch with their changes, oldest first.

        Args:
            since: The cursor of an earlier call, which is a commit id. Default: the first commit.
            limit: How many commits at most.

        Example:
            >>> feed = served.changes()
            >>> [changes.commit.operation.value for changes in feed], feed.has_more
            (['init', 'mutate'], False)
        """
        start = "beginning" if since is None else f"after:{since}"
        try:
            page: ChangeFeedOutput = self.client.poll_changes(
                wr.FeedParameters(branch=self.branch, start=start, limit=_PAGE)
            )
        except NotFoundError as missing:
            if since is None or missing.code != "commit_missing":
                raise
            cursor = CommitId(since)
            raise feed_gap(self.branch, cursor, NOT_IN_HISTORY, cursor) from missing
        blocks: dict[str, list[ChangeBlockOutput]] = {}
        has_more = False
        while not has_more:
            for block in page.blocks:
                commit = block.cause.graph_commit_id
                has_more = commit not in blocks and len(blocks) == limit
                if has_more:
                    break
                blocks.setdefault(commit, []).append(block)
            if has_more or not isinstance(page.next_page_token, str):
                break
            following = wr.FeedParameters(branch=self.branch, limit=_PAGE, page_token=page.next_page_token)
            page = self.client.poll_changes(following)
        if has_more:
            newest = list(blocks)[-1]
        else:
            assert isinstance(page.cursor, str), "the last page has a cursor"
            newest = head_of_cursor(page.cursor)
        return ChangeFeed(tuple(map(self._commit_changes, blocks.values())), newest, has_more)

    def _state(self, as_of: str | None) -> wr.StateParameters:
        return wr.StateParameters(branch=self.branch) if as_of is None else wr.StateParameters(snapshot=as_of)

    def _result_schema(self, text: str, name: str | None, commit: str) -> pa.Schema:
        """Return the Arrow types of the columns. They depend on the schema of the commit, which is read once."""
        catalog = self._catalogs.get(commit)
        if catalog is None:
            source = self.client.schema(wr.StateParameters(snapshot=commit)).schema_source
            self._catalogs.clear()
            catalog = self._catalogs[commit] = build_schema(read_schema(f"{source}\n"))
        file = parse_queries(text, source_name(text, "<query>"))
        plan = check_query(file, name, catalog, None).plan
        if not isinstance(plan, ReadPlan) or not isinstance(plan.root, op.Project):
            raise UsageError(
                "the query is a mutation", code="query_is_mutation", hint=hint("Run it with {}.", action("mutate"))
            )
        return result_schema(plan.root)

    def _commit_changes(self, blocks: list[ChangeBlockOutput]) -> CommitChanges:
        """Return a commit of a feed. A feed has only its cause, so the commit is read, and its schema if it changed."""
        document = self.client.get_commit(blocks[0].cause.graph_commit_id)
        commit = commit_value(document)
        changes = tuple(change_value(change) for block in blocks for change in block.changes)
        moved = {TableId(move.table_id): move.table_key for move in document.tables if move.table_key is not None}
        names = {**moved, **{TableId(change.table_id): change.table for change in changes}}
        outputs = [step for block in blocks if isinstance(block.schema_steps, list) for step in block.schema_steps]
        steps = self._schema_steps(commit, outputs) if outputs else ()
        return CommitChanges(commit, steps, names, EntityChanges(lambda: iter(changes)))

    def _schema_steps(self, commit: CommitRecord, outputs: list[dict[str, Any]]) -> tuple[SchemaStep, ...]:
        """Return the steps of a commit: what changes is computed from its schemas, what it costs is in the feed."""
        assert commit.parent is not None, "the first commit has no schema steps"
        old, new = (
            catalog_from_json(msgspec.json.encode(self.client.schema(wr.StateParameters(snapshot=state)).catalog))
            for state in (commit.parent, commit.id)
        )
        steps = find_steps_by_id(old, new, hard=HARD_DROPS in commit.counts) or (UpdateText(),)
        return tuple(
            SchemaStep(
                PlannedStep(step, Cost(output["cost"]), output["rows"], output["filled_rows"]),
                None if output.get("table_id") is None else TableId(output["table_id"]),
            )
            for step, output in zip(steps, outputs, strict=True)
        )

    def _branch_status(self, branch: BranchOutput) -> BranchStatus:
        parent = None
        if branch.parent_branch is not None and branch.parent_commit_id is not None:
            parent = BranchParent(branch.parent_branch, BranchId(""), CommitId(branch.parent_commit_id))
        record = BranchRecord(
            name=branch.name,
            id=BranchId(branch.branch_id),
            lance_branch=None,
            parent=parent,
            creator=branch.actor_id,
            created_us=branch.created_at,
        )
        head = None if branch.graph_commit_id is None else commit_value(self.client.get_commit(branch.graph_commit_id))
        return BranchStatus(
            record=record, head=head, ahead=branch.ahead, behind=branch.behind, error=branch.error or ""
        )


def _plain(params: Mapping[str, object] | None) -> dict[str, Any] | None:
    return None if params is None else dict(params)


def _read_lines(data: str | PathLike[str] | BinaryIO | Iterable[Mapping[str, Any]]) -> bytes:
    if isinstance(data, str | PathLike):
        try:
            return Path(fspath(data)).read_bytes()
        except OSError as error:
            raise UsageError(
                f"cannot read '{fspath(data)}': {(error.strerror or str(error)).lower()}",
                code="input_missing",
                hint="Nothing was written. Pass a file that exists and that you may read.",
                facts={"data": fspath(data)},
            ) from error
    if hasattr(data, "read"):
        return bytes(data.read())
    return b"".join(msgspec.json.encode(item) + b"\n" for item in data)
