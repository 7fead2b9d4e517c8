"""The options of commands that run a query: `--query FILE`, `-e TEXT`, `--params`, `--params-file`, state and limits.

In: arguments. Out: query text with the name of its source, parameters as values, and the graph. It reads files, stdin
and JSON, and never parses query text.
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from omnigraph.base import limits
from omnigraph.base.errors import QueryTextError, UsageError
from omnigraph.base.text_files import TextKind, decode_text, read_bytes
from omnigraph.cli.options import At, Branch, Commit, Store, Version, refuse_no_number
from omnigraph.cli.state import choose_state
from omnigraph.cli.target import named_target
from omnigraph.storage.location import Location

if TYPE_CHECKING:
    from datetime import datetime

    from omnigraph.api.arguments import NamedText
    from omnigraph.api.graph import Graph
    from omnigraph.engine.options import QueryLimits

QueryFiles = Annotated[
    list[Path] | None, typer.Option("--query", metavar="FILE", help="A .gq file with queries. Can be repeated.")
]
QueryFile = Annotated[Path | None, typer.Option("--query", metavar="FILE", help="A .gq file with queries; - is stdin.")]
QueryText = Annotated[str | None, typer.Option("-e", metavar="TEXT", help="The text of a query.")]
Params = Annotated[str | None, typer.Option("--params", metavar="JSON", help="The parameters, as one JSON object.")]
ParamsFile = Annotated[
    Path | None, typer.Option("--params-file", metavar="FILE", help="A file with the parameters as JSON; - is stdin.")
]
QueryName = Annotated[
    str | None,
    typer.Argument(
        metavar="[NAME]", help="The query of the text to run. Not needed if there is only one.", show_default=False
    ),
]

MaxMemory = Annotated[
    float | None,
    typer.Option(
        "--max-memory", metavar="MIB", callback=refuse_no_number, help="The memory limit of the query. Default: 2048."
    ),
]
MaxSeconds = Annotated[
    float | None,
    typer.Option(
        "--max-seconds", metavar="SECONDS", help="The time limit of the query. Default: 300, on Spark one day."
    ),
]
MaxHops = Annotated[
    int | None,
    typer.Option("--max-hops", metavar="N", help="The upper bound of traversals that have none, such as {1,}."),
]

STDIN: Final = "-"
GIVEN_TEXT: Final = "-e"
"""The source name of query text that was passed on the command line."""
_QUERY: Final = TextKind(limits.QUERY_TEXT_BYTES_MAX, QueryTextError, too_large="Q001", not_utf8="Q002")


@dataclass(frozen=True, slots=True)
class GivenQuery:
    """The arguments for one query: its text, its name, its parameters and its graph."""

    name: QueryName = None
    query: QueryFile = None
    text: QueryText = None
    store: Store = None
    params: Params = None
    params_file: ParamsFile = None

    def read(self, context: typer.Context) -> ReadQuery:
        """Read the text and the parameters; raise if one is missing or not readable."""
        if str(self.query) == str(self.params_file) == STDIN:
            raise UsageError(
                "--query and --params-file cannot both read stdin",
                code="usage",
                hint="Pass the query as `-e TEXT` or the parameters as `--params JSON`.",
            )
        source, text = read_query(context.command_path, self.query, self.text)
        values = read_params(self.params, self.params_file)

        from omnigraph.api.arguments import NamedText

        named = NamedText.make(text, source)
        return ReadQuery(named, self.name, values, named_target(context, self.name, self.store))


@dataclass(frozen=True, slots=True)
class ReadQuery:
    """Query text, the name of the query to run, its parameters, and the graph."""

    text: NamedText
    name: str | None
    params: dict[str, Any] | None
    location: Location


@dataclass(frozen=True, slots=True)
class GivenMoment:
    """The arguments for the state of the graph to read."""

    branch: Branch = "main"
    commit: Commit = None
    version: Version = None
    time: At = None

    def open(self, location: Location, spark: str | None = None) -> tuple[Graph, str | int | datetime | None]:
        """Return the graph on the branch, and the state to read."""
        state = choose_state(self.commit, self.version, self.time)

        from omnigraph.api.graph import Graph

        return Graph(location, self.branch, read_only=True, spark=spark), state

    def requested_commit(self, head: str) -> str | None:
        """Return the commit that was read if the caller named one."""
        return None if self.commit is None else head


@dataclass(frozen=True, slots=True)
class GivenLimits:
    """The arguments for the limits of a query."""

    max_memory: MaxMemory = None
    max_seconds: MaxSeconds = None

    def limits(self, max_hops: int | None = None) -> QueryLimits:
        """Return the limits for the engine."""
        from omnigraph.engine.options import QueryLimits

        memory = None if self.max_memory is None else int(self.max_memory * 1024**2)
        return QueryLimits(memory, self.max_seconds, max_hops)


def read_query(command: str, file: Path | None, text: str | None) -> tuple[str, str]:
    """Return the name of the source and the query text of `--query` or `-e`."""
    if file is not None and text is not None:
        raise UsageError("--query and -e exclude each other", code="query_twice", hint="Omit one of them.")
    if text is not None:
        return GIVEN_TEXT, text
    if file is None:
        raise _missing(command)
    return str(file), read_query_file(file)


def read_queries(command: str, files: list[Path] | None, text: str | None) -> list[tuple[str, str]]:
    """Return the source names and query texts of all `--query` and of `-e`, in this order."""
    texts = [(str(path), read_query_file(path)) for path in files or ()]
    if text is not None:
        texts.append((GIVEN_TEXT, text))
    if not texts:
        raise _missing(command)
    return texts


def read_query_file(path: Path) -> str:
    """Return the query text of a file; raise if it is too large. The text is not parsed."""
    return decode_text(_read(path, limits.QUERY_TEXT_BYTES_MAX, "query", "--query"), path, _QUERY)


def read_params(text: str | None, file: Path | None) -> dict[str, Any] | None:
    """Return the parameters; None if there are none."""
    if text is not None and file is not None:
        raise UsageError("--params and --params-file exclude each other", code="params_twice", hint="Omit one of them.")
    if file is not None:
        data = _read(file, limits.PARAMETERS_BYTES_MAX, "parameter", "--params-file")
        if len(data) > limits.PARAMETERS_BYTES_MAX:
            raise _bad_params(f"expected at most {limits.PARAMETERS_BYTES_MAX:,} bytes, got more")
        try:
            text = data.decode("utf-8")
        except UnicodeDecodeError as error:
            raise _bad_params("expected UTF-8") from error
    return None if text is None else _parse_params(text)


def _parse_params(text: str) -> dict[str, Any]:
    try:
        params = json.loads(text, object_pairs_hook=_members)
    except (ValueError, RecursionError) as error:
        reason = f"{error.msg}, column {error.colno}" if isinstance(error, json.JSONDecodeError) else "too large"
        raise _bad_params(f"not valid JSON: {reason}") from error
    if not isinstance(params, dict):
        raise _bad_params(f"expected a JSON object, got {json.dumps(params)[:40]}")
    return params


def _members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return a JSON object; raise if a name is duplicate."""
    members = dict(pairs)
    if len(members) < len(pairs):
        names = [name for name, _ in pairs]
        duplicate = next(name for name in names if names.count(name) > 1)
        raise _bad_params(f"duplicate name '{duplicate}'")
    return members


def _bad_params(reason: str) -> UsageError:
    return UsageError(
        f"invalid parameters: {reason}",
        code="params_malformed",
        hint='Pass one JSON object, as in `--params \'{"name": "Ada"}\'`.',
    )


def _missing(command: str) -> UsageError:
    return UsageError(f"`{command}` needs a query", code="query_text_missing", hint="Pass `--query FILE` or `-e TEXT`.")


def _read(path: Path, bytes_max: int, what: str, flag: str) -> bytes:
    if str(path) == STDIN:
        return sys.stdin.buffer.read(bytes_max + 1)
    return read_bytes(path, bytes_max, what, flag)
