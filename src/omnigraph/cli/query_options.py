"""Queries and their parameters from the words of a call: `--query FILE`, `-e TEXT`, `--params`, `--params-file`.

Reads files, stdin and JSON, with one clear error for each way that can fail. What the text says is not judged here.
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
    list[Path] | None,
    typer.Option("--query", metavar="FILE", help="A .gq file with queries; repeat it for more."),
]
QueryFile = Annotated[
    Path | None, typer.Option("--query", metavar="FILE", help="A .gq file with queries; - is stdin.")
]
QueryText = Annotated[str | None, typer.Option("-e", metavar="TEXT", help="The text of a query.")]
Params = Annotated[
    str | None, typer.Option("--params", metavar="JSON", help="The parameters, as one JSON object.")
]
ParamsFile = Annotated[
    Path | None,
    typer.Option("--params-file", metavar="FILE", help="A file with the parameters as JSON; - is stdin."),
]
QueryName = Annotated[
    str | None,
    typer.Argument(
        metavar="[NAME]", help="Which query of the text; not needed for the only one.", show_default=False
    ),
]

MaxMemory = Annotated[
    float | None,
    typer.Option(
        "--max-memory",
        metavar="MIB",
        callback=refuse_no_number,
        help="The memory that the query may hold; 2048 unless given.",
    ),
]
MaxSeconds = Annotated[
    float | None,
    typer.Option(
        "--max-seconds",
        metavar="SECONDS",
        help="The time that the query may take; 300 unless given, on Spark a day.",
    ),
]
MaxHops = Annotated[
    int | None,
    typer.Option(
        "--max-hops", metavar="N", help="How far a traversal without an upper bound, as {1,}, goes."
    ),
]

STDIN: Final = "-"
GIVEN_TEXT: Final = "-e"
"""What messages call a text that was given on the command line."""
_QUERY: Final = TextKind(limits.QUERY_TEXT_BYTES_MAX, QueryTextError, too_large="Q001", not_utf8="Q002")


@dataclass(frozen=True, slots=True)
class GivenQuery:
    """One query of one text, its parameters and its graph, as every command that takes a query is told them."""

    name: QueryName = None
    query: QueryFile = None
    text: QueryText = None
    store: Store = None
    params: Params = None
    params_file: ParamsFile = None

    def read(self, context: typer.Context) -> ReadQuery:
        """What the words mean; raise for whatever cannot be read."""
        if str(self.query) == str(self.params_file) == STDIN:
            raise UsageError(
                "--query and --params-file both read stdin, and there is one of it",
                code="usage",
                hint="give the text or the parameters in another way",
            )
        source, text = read_query(context.command_path, self.query, self.text)
        values = read_params(self.params, self.params_file)

        from omnigraph.api.arguments import NamedText

        named = NamedText.make(text, source)
        return ReadQuery(named, self.name, values, named_target(context, self.name, self.store))


@dataclass(frozen=True, slots=True)
class ReadQuery:
    """A text, which of its queries is meant, the parameters, and the graph."""

    text: NamedText
    name: str | None
    params: dict[str, Any] | None
    location: Location


@dataclass(frozen=True, slots=True)
class GivenMoment:
    """Which state of the graph is read."""

    branch: Branch = "main"
    commit: Commit = None
    version: Version = None
    at: At = None

    def open(self, location: Location, spark: str | None = None) -> tuple[Graph, str | int | datetime | None]:
        """Return the graph on the branch, and the state to read."""
        state = choose_state(self.commit, self.version, self.at)

        from omnigraph.api.graph import Graph

        return Graph(location, self.branch, read_only=True, spark=spark), state

    def requested_commit(self, head: str) -> str | None:
        """Return the commit that was read if the caller named one."""
        return None if self.commit is None else head


@dataclass(frozen=True, slots=True)
class GivenLimits:
    """What a query may take."""

    max_memory: MaxMemory = None
    max_seconds: MaxSeconds = None

    def limits(self, max_hops: int | None = None) -> QueryLimits:
        """The limits for the engine."""
        from omnigraph.engine.options import QueryLimits

        memory = None if self.max_memory is None else int(self.max_memory * 1024**2)
        return QueryLimits(memory, self.max_seconds, max_hops)


def read_query(command: str, file: Path | None, text: str | None) -> tuple[str, str]:
    """The one text that was given, as a pair of its name and itself."""
    if file is not None and text is not None:
        raise UsageError("--query and -e both give a text", code="query_twice", hint="leave one of them out")
    if text is not None:
        return GIVEN_TEXT, text
    if file is None:
        raise _missing(command)
    return str(file), read_query_file(file)


def read_queries(command: str, files: list[Path] | None, text: str | None) -> list[tuple[str, str]]:
    """All texts that were given, in order."""
    found = [(str(path), read_query_file(path)) for path in files or ()]
    if text is not None:
        found.append((GIVEN_TEXT, text))
    if not found:
        raise _missing(command)
    return found


def read_query_file(path: Path) -> str:
    """The text of a file. Its size is bounded here, its grammar is not judged."""
    return decode_text(_read(path, limits.QUERY_TEXT_BYTES_MAX, "query", "--query"), path, _QUERY)


def read_params(text: str | None, file: Path | None) -> dict[str, Any] | None:
    """The parameters, or None where none are given."""
    if text is not None and file is not None:
        raise UsageError(
            "--params and --params-file both give parameters",
            code="params_twice",
            hint="leave one of them out",
        )
    if file is not None:
        data = _read(file, limits.PARAMETERS_BYTES_MAX, "parameter", "--params-file")
        if len(data) > limits.PARAMETERS_BYTES_MAX:
            raise _bad_params(f"the file has more than {limits.PARAMETERS_BYTES_MAX} bytes")
        try:
            text = data.decode("utf-8")
        except UnicodeDecodeError as error:
            raise _bad_params("the file is not UTF-8") from error
    return None if text is None else _parse_params(text)


def _parse_params(text: str) -> dict[str, Any]:
    try:
        found = json.loads(text, object_pairs_hook=_members)
    except (ValueError, RecursionError) as error:
        reason = (
            f"{error.msg}, column {error.colno}" if isinstance(error, json.JSONDecodeError) else "too large"
        )
        raise _bad_params(f"they are no JSON: {reason}") from error
    if not isinstance(found, dict):
        raise _bad_params("they are JSON, but no object")
    return found


def _members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object of JSON; a name that is given twice means two things."""
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise _bad_params(f"'{twice}' is given twice")
    return found


def _bad_params(reason: str) -> UsageError:
    return UsageError(
        f"the parameters cannot be used: {reason}",
        code="params_malformed",
        hint='give one object, as in --params \'{"name": "Ada"}\'',
    )


def _missing(command: str) -> UsageError:
    return UsageError(
        f"`{command}` needs a query", code="query_text_missing", hint="pass --query FILE or -e TEXT"
    )


def _read(path: Path, bytes_max: int, what: str, flag: str) -> bytes:
    if str(path) == STDIN:
        return sys.stdin.buffer.read(bytes_max + 1)
    return read_bytes(path, bytes_max, what, flag)
