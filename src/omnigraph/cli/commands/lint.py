"""`omnigraph lint`: check query files without running them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from omnigraph.base.display import format_count
from omnigraph.base.errors import Problem, UsageError
from omnigraph.cli.command import Capability, command
from omnigraph.cli.errors import ExitCode
from omnigraph.cli.options import StateArguments
from omnigraph.cli.query_options import MaxHops, QueryFiles, QueryText, read_queries
from omnigraph.cli.results import TextOutput
from omnigraph.cli.target import GraphArguments

if TYPE_CHECKING:
    from omnigraph.wire.results import LintOutput

Schema = Annotated[
    Path | None, typer.Option("--schema", metavar="FILE", help="Check against this .pg file instead of a graph.")
]


@command(
    "omnigraph lint --query people.gq --schema schema.pg",
    "omnigraph lint --query people.gq --query companies.gq graph.omni --json",
    "omnigraph lint -e 'query q() { match { $p: Person } return { $p.slug } }' graph.omni",
    capability=Capability.ANY,
)
def lint(
    target: GraphArguments,
    *,
    query: QueryFiles = None,
    text: QueryText = None,
    schema: Schema = None,
    state: StateArguments,
    max_hops: MaxHops = None,
    output: TextOutput,
) -> None:
    """Check query files without running them.

    Checks them against the schema of a graph or a schema file. Fails only on errors; a warning marks valid text that is
    probably not intended. --json also prints the parameters and columns of each query, and the types it reads and
    writes.
    """
    texts = read_queries(target.context.command_path, query, text)
    if schema is None:
        document = _check_on_graph(target, state, texts, max_hops)
    else:
        document = _check_with_file(schema, target, state, texts, max_hops)
    counts = (
        format_count(len(document.queries), "query", "queries"),
        format_count(len(document.errors), "error"),
        format_count(len(document.warnings), "warning"),
    )
    output.show(lambda: document, text=_render(document, dict(texts)), notices=[", ".join(counts)])
    if document.errors:
        raise typer.Exit(ExitCode.ERROR)


def _check_on_graph(
    target: GraphArguments, state: StateArguments, texts: list[tuple[str, str]], max_hops: int | None
) -> LintOutput:
    if target.find_scope() is None:
        state.as_of()
        raise UsageError(
            f"missing schema: `{target.context.command_path}` requires a schema file or a graph",
            code="schema_missing",
            hint="Pass `--schema FILE`, or a graph as `URI` or `--store URI`.",
        )

    from omnigraph import QueryLimits
    from omnigraph.wire.requests import LintFile, LintRequest

    connection = target.connect(state=state, limits=QueryLimits(hops=max_hops))
    files = [LintFile(name=source, text=text) for source, text in texts]
    return connection.client.lint(LintRequest(files=files, **connection.state))


def _check_with_file(
    schema: Path, target: GraphArguments, state: StateArguments, texts: list[tuple[str, str]], max_hops: int | None
) -> LintOutput:
    schema_text = _file_schema(schema, target, state)

    from omnigraph import QueryLimits
    from omnigraph.api.texts import NamedText
    from omnigraph.api.texts import lint as check_queries
    from omnigraph.wire.results import lint_output

    named_texts = [NamedText.make(query_text, source) for source, query_text in texts]
    return lint_output(check_queries(named_texts, schema_text, limits=QueryLimits(hops=max_hops)))


def _render(document: LintOutput, texts: Mapping[str, str]) -> str:
    """Return every problem with its line and caret, errors first."""
    rendered = []
    for problem in (*document.errors, *document.warnings):
        lines = texts[problem["source"]].split("\n")
        line = lines[problem["line"] - 1] if problem["line"] <= len(lines) else ""
        rendered.append(Problem(text=line, **problem).render() + "\n")
    return "".join(rendered)


def _file_schema(path: Path, target: GraphArguments, state: StateArguments) -> str:
    """Return the text of a schema file; raise if the arguments also select the schema of a graph."""
    flags = {"--commit": state.commit, "--version": state.version, "--at": state.time}
    names = target.names
    address = next((name for name in (names.uri, names.store, names.server, names.cluster) if name is not None), None)
    sources = [] if address is None else [f"the graph '{address}'"]
    sources += [f"`{flag}`" for flag, value in flags.items() if value is not None]
    sources += ["`--branch`"] if state.branch != "main" else []
    if sources:
        raise UsageError(
            f"`--schema` and {sources[0]} both select a schema: expected one of them",
            code="schema_twice",
            hint="Pass `--schema FILE` or a graph, not both.",
        )

    from omnigraph.api.texts import read_schema

    return read_schema(path)
