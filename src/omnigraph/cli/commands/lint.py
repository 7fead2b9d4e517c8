"""`omnigraph lint`: check query files without running them."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from omnigraph.base.errors import UsageError
from omnigraph.cli.command import CommandSource
from omnigraph.cli.errors import ExitCode
from omnigraph.cli.options import At, Branch, Commit, Json, Store, Uri, Version
from omnigraph.cli.output import write_json, write_text
from omnigraph.cli.query_options import GivenLimits, MaxHops, QueryFiles, QueryText, read_queries
from omnigraph.cli.state import choose_state
from omnigraph.cli.target import resolve_target

if TYPE_CHECKING:
    from omnigraph.api.graph import Graph
    from omnigraph.query.lint import LintReport
    from omnigraph.schema.catalog import Catalog

Schema = Annotated[
    Path | None, typer.Option("--schema", metavar="FILE", help="Check against this .pg file instead of a graph.")
]


def lint(
    context: typer.Context,
    uri: Uri = None,
    store: Store = None,
    query: QueryFiles = None,
    text: QueryText = None,
    schema: Schema = None,
    branch: Branch = "main",
    commit: Commit = None,
    version: Version = None,
    timestamp: At = None,
    max_hops: MaxHops = None,
    as_json: Json = False,
) -> None:
    """Check query files without running them.

    Checks them against the schema of a graph or a schema file. Fails only on errors; a warning marks valid text that is
    probably not intended. --json also prints the parameters and columns of each query, and the types it reads and
    writes.
    """
    texts = read_queries(context.command_path, query, text)
    if schema is not None:
        states = {"--commit": commit, "--version": version, "--at": timestamp}
        _reject_graph(uri or store, branch, [f"`{flag}`" for flag, value in states.items() if value is not None])
        catalog = _read_catalog(schema)
    else:
        state = choose_state(commit, version, timestamp)
        catalog = _open_graph(context, uri, store, branch).snapshot(state).schema.catalog

    from omnigraph.query.lint import lint_queries

    report = lint_queries(texts, catalog, GivenLimits().limits(max_hops).hops)
    if as_json:
        write_json(report.to_json())
    else:
        _show(report, quiet=context.obj.quiet)
    if not report.is_valid:
        raise typer.Exit(ExitCode.ERROR)


def _reject_graph(graph: str | None, branch: str, states: list[str]) -> None:
    sources = [f"the graph '{graph}'"] if graph else states or (["`--branch`"] if branch != "main" else [])
    if sources:
        raise UsageError(
            f"`--schema` and {sources[0]} both select a schema: expected one of them",
            code="schema_twice",
            hint="Pass `--schema FILE` or a graph, not both.",
        )


def _read_catalog(path: Path) -> Catalog:
    from omnigraph.base.text_files import read_schema_file
    from omnigraph.schema.build import build_catalog
    from omnigraph.schema.parser import parse_schema

    return build_catalog(parse_schema(read_schema_file(path), str(path)))


def _open_graph(context: typer.Context, uri: str | None, store: str | None, branch: str) -> Graph:
    if uri is None and store is None:
        raise UsageError(
            f"missing schema: `{context.command_path}` requires a schema file or a graph",
            code="schema_missing",
            hint="Pass `--schema FILE`, or a graph as `URI` or `--store URI`.",
        )
    location = resolve_target(context, uri, store)

    from omnigraph.api.graph import Graph

    return Graph(location, branch, read_only=True)


def _show(report: LintReport, *, quiet: bool) -> None:
    if report.errors or report.warnings:
        write_text(report.render())
    if not quiet:
        queries = len(report.queries)
        counts = [
            f"{queries} {'query' if queries == 1 else 'queries'}",
            *(
                f"{len(messages)} {word}{'' if len(messages) == 1 else 's'}"
                for messages, word in ((report.errors, "error"), (report.warnings, "warning"))
            ),
        ]
        sys.stderr.write(f"{', '.join(counts)}\n")


COMMAND = CommandSource(
    "lint",
    lint,
    (
        "omnigraph lint --query people.gq --schema schema.pg",
        "omnigraph lint --query people.gq --query companies.gq graph.omni --json",
        "omnigraph lint -e 'query q() { match { $p: Person } return { $p.slug } }' graph.omni",
    ),
)
