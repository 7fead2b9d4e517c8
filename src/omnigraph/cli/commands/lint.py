"""`omnigraph lint`: what is wrong with query files, without running them."""

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
    Path | None, typer.Option("--schema", metavar="FILE", help="Check against this .pg file, not a graph.")
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
    at: At = None,
    max_hops: MaxHops = None,
    as_json: Json = False,
) -> None:
    """Check query files without running them.

    Against the schema of a graph, or a schema file. Fails only on errors; warnings are things that are allowed and
    probably not meant. With --json also the parameters and columns of each query, and the types it reads and writes.
    """
    texts = read_queries(context.command_path, query, text)
    if schema is not None:
        states = {"--commit": commit, "--version": version, "--at": at}
        _refuse_graph(uri or store, branch, [flag for flag, value in states.items() if value is not None])
        catalog = _catalog_of_file(schema)
    else:
        state = choose_state(commit, version, at)
        catalog = _graph(context, uri, store, branch).snapshot(state).schema.catalog

    from omnigraph.query.checks.run import CheckOptions
    from omnigraph.query.lint import lint_queries

    report = lint_queries(texts, catalog, CheckOptions(GivenLimits().limits(max_hops).hops))
    if as_json:
        write_json(report.to_json())
    else:
        _show(report, quiet=context.obj.quiet)
    if not report.is_valid:
        raise typer.Exit(ExitCode.ERROR)


def _refuse_graph(graph: str | None, branch: str, states: list[str]) -> None:
    given = [f"the graph '{graph}'"] if graph else states or (["--branch"] if branch != "main" else [])
    if given:
        raise UsageError(
            f"--schema and {given[0]} both say what to check against",
            code="schema_twice",
            hint="pass a schema file or a graph",
        )


def _catalog_of_file(path: Path) -> Catalog:
    from omnigraph.base.text_files import read_schema_file
    from omnigraph.schema.build import build_catalog
    from omnigraph.schema.parser import parse_schema

    return build_catalog(parse_schema(read_schema_file(path), str(path)))


def _graph(context: typer.Context, uri: str | None, store: str | None, branch: str) -> Graph:
    if uri is None and store is None:
        raise UsageError(
            f"`{context.command_path}` needs a schema",
            code="schema_missing",
            hint="pass --schema FILE, or a graph as URI or --store URI",
        )
    location = resolve_target(context, uri, store)

    from omnigraph.api.graph import Graph

    return Graph(location, branch, read_only=True)


def _show(report: LintReport, *, quiet: bool) -> None:
    if report.errors or report.warnings:
        write_text(report.render())
    if not quiet:
        counts = ((report.queries, "query", "queries"), (report.errors, "error", "errors"))
        told = [f"{len(found)} {one if len(found) == 1 else many}" for found, one, many in counts]
        warnings = len(report.warnings)
        told.append(f"{warnings} warning{'' if warnings == 1 else 's'}")
        sys.stderr.write(f"{', '.join(told)}\n")


COMMAND = CommandSource(
    "lint",
    lint,
    (
        "omnigraph lint --query people.gq --schema schema.pg",
        "omnigraph lint --query people.gq --query companies.gq graph.omni --json",
        "omnigraph lint -e 'query q() { match { $p: Person } return { $p.slug } }' graph.omni",
    ),
)
