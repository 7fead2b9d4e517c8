"""The options of commands that run a query: `--query`, `-e`, `--param`, `--params`, `--params-file` and limits.

In: arguments. Out: query text with the name of its source, parameters as values, and the graph. It reads files, stdin
and JSON; `--param` is read as the type that the query declares for it.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from omnigraph.base import limits
from omnigraph.base.errors import Fact, QueryTextError, ResourceLimit, UsageError
from omnigraph.base.text_files import TextKind, decode_text, read_bytes
from omnigraph.cli.options import Cluster, GraphId, Insecure, ProfileName, Server, Store, require_finite
from omnigraph.cli.results import PASS_ONLY_ONE
from omnigraph.cli.target import SUFFIX, ClusterScope, GraphArguments, ServerScope

if TYPE_CHECKING:
    from omnigraph.api.texts import NamedText
    from omnigraph.engine.options import QueryLimits

QueryFiles = Annotated[
    list[Path] | None, typer.Option("--query", metavar="FILE", help="A .gq file with queries; - is stdin. Repeatable.")
]
QueryFile = Annotated[Path | None, typer.Option("--query", metavar="FILE", help="A .gq file with queries; - is stdin.")]
QueryText = Annotated[str | None, typer.Option("-e", metavar="TEXT", help="The text of a query.")]
Params = Annotated[str | None, typer.Option("--params", metavar="JSON", help="The parameters, as one JSON object.")]
ParamsFile = Annotated[
    Path | None, typer.Option("--params-file", metavar="FILE", help="A file with the parameters as JSON; - is stdin.")
]
Param = Annotated[
    list[str] | None,
    typer.Option(
        "--param", metavar="NAME=VALUE", help="One parameter, read as the type that the query declares. Repeatable."
    ),
]
QueryName = Annotated[
    str | None,
    typer.Argument(
        metavar="[NAME]", help="Name of the query to run. Optional if the text has only one query.", show_default=False
    ),
]
GraphOrName = Annotated[
    str | None,
    typer.Argument(
        metavar="[URI]",
        help="The graph: an argument that contains /, ends in .omni or is a graph directory. Any other is NAME.",
        show_default=False,
    ),
]

MaxMemory = Annotated[
    float | None,
    typer.Option(
        "--max-memory", metavar="MIB", callback=require_finite, help="The memory limit of the query. Default: 2048."
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
    typer.Option("--max-hops", metavar="N", help="Maximum hops of a traversal without an upper bound, such as {1,}."),
]

Exact = Annotated[
    bool, typer.Option("--exact", help="Search exactly, without indexes: slower on large tables, never approximate.")
]

STDIN: Final = "-"
INLINE_QUERY: Final = "-e"
"""The source name of query text that was passed on the command line."""
_QUERY: Final = TextKind(
    bytes_max=limits.QUERY_TEXT_BYTES_MAX,
    error=QueryTextError,
    resource="query_text",
    too_large="Q001",
    not_utf8="Q002",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryArguments:
    """The arguments for one query: its name, its text, its graph and its parameters."""

    context: typer.Context
    name: QueryName = None
    uri: GraphOrName = None
    query: QueryFile = None
    text: QueryText = None
    store: Store = None
    server: Server = None
    cluster: Cluster = None
    graph: GraphId = None
    profile: ProfileName = None
    insecure: Insecure = False
    param: Param = None
    params: Params = None
    params_file: ParamsFile = None

    @property
    def words(self) -> tuple[str | None, str | None]:
        """The name of the query and the graph among the positional arguments."""
        return split_words([word for word in (self.name, self.uri) if word is not None], is_graph_directory)

    @property
    def query_name(self) -> str | None:
        """The name of the query to run."""
        return self.words[0]

    @property
    def target(self) -> GraphArguments:
        """The graph."""
        return GraphArguments(
            context=self.context,
            uri=self.words[1],
            store=self.store,
            server=self.server,
            cluster=self.cluster,
            graph=self.graph,
            profile=self.profile,
            insecure=self.insecure,
        )

    def read(self, *, is_run: bool = False) -> tuple[NamedText, dict[str, Any] | None]:
        """Return the text and the parameters; raise if one is missing or not readable.

        `is_run`: the text of a stored query of a server is empty, because the server has it.
        """
        if str(self.query) == str(self.params_file) == STDIN:
            raise UsageError(
                "`--query` and `--params-file` cannot both read stdin",
                code="usage",
                hint="Pass the query as `-e TEXT` or the parameters as `--params JSON`.",
            )
        if self.query is not None and self.text is not None:
            raise UsageError("`--query` and `-e` cannot be used together", code="query_twice", hint=PASS_ONLY_ONE)
        source, text = self._read_text(is_run=is_run)
        params = read_params(self.params, self.params_file)

        from omnigraph.api.texts import NamedText, check_syntax

        named = NamedText.make(text, source)
        check_syntax(named)
        return named, self._with_single_params(named, params)

    def _with_single_params(self, text: NamedText, params: dict[str, Any] | None) -> dict[str, Any] | None:
        """Return the parameters with those of `--param`."""
        if not self.param:
            return params
        from omnigraph.api.texts import read_text_params

        pairs = [split_param(argument) for argument in self.param]
        names = [name for name, _ in pairs] + [name.removeprefix("$") for name in params or ()]
        duplicate = next((name for name in names if names.count(name) > 1), None)
        if duplicate is not None:
            raise UsageError(
                f"duplicate parameter '{duplicate}': expected one value, got {names.count(duplicate)}",
                code="params_twice",
                hint=f"Pass `--param {duplicate}=VALUE` once.",
            )
        return {**(params or {}), **read_text_params(text, self.query_name, dict(pairs))}

    def _read_text(self, *, is_run: bool) -> tuple[str, str]:
        """Return the name of the text and the text: of a file, of the command line, or of a stored query."""
        if self.query is None and self.text is None:
            scope = self.target.find_scope()
            if is_run and isinstance(scope, ServerScope):
                if self.query_name is None:
                    raise _no_query(self.context.command_path, ())
                return self.query_name, ""
            if isinstance(scope, ClusterScope):
                from omnigraph.cluster.addressing import find_graph
                from omnigraph.cluster.serving import read_stored_query, stored_queries

                graph = find_graph(scope.address, scope.graph)
                if self.query_name is None:
                    raise _no_query(self.context.command_path, stored_queries(graph.ledger, graph.id) or None)
                text = read_stored_query(graph.store, graph.ledger, graph.id, self.query_name)
                return f"query.{graph.id}.{self.query_name}", text
        files = [] if self.query is None else [self.query]
        (pair,) = read_queries(self.context.command_path, files, self.text)
        return pair


def split_words(words: list[str], is_graph: Callable[[str], bool]) -> tuple[str | None, str | None]:
    """Return the name of a query and the address of a graph among positional arguments, in any order.

    A word that contains `/`, ends in `.omni` or names an existing graph directory is the graph. Any other word is the
    name of the query.
    """
    names: list[str] = []
    graphs: list[str] = []
    for word in words:
        (graphs if "/" in word or word.endswith(SUFFIX) or is_graph(word) else names).append(word)
    if len(graphs) > 1 or len(names) > 1:
        described = "two graphs" if len(graphs) > 1 else "two names of queries"
        raise UsageError(
            f"expected the name of a query and a graph, got {described}: '{words[0]}' and '{words[1]}'",
            code="scope_twice" if len(graphs) > 1 else "usage",
            hint="Pass the graph as `--store URI`, unless it contains `/`, ends in `.omni` or is a graph directory.",
        )
    return next(iter(names), None), next(iter(graphs), None)


def is_graph_directory(word: str) -> bool:
    """Return whether a local directory of this name is a graph."""
    return Path(word, "__manifest").is_dir()


@dataclass(frozen=True, slots=True)
class LimitArguments:
    """The arguments for the limits of a query."""

    max_memory: MaxMemory = None
    max_seconds: MaxSeconds = None

    def limits(self, max_hops: int | None = None, *, exact: bool = False) -> QueryLimits:
        """Return the limits for the engine."""
        from omnigraph.engine.options import QueryLimits

        memory = None if self.max_memory is None else int(self.max_memory * 1024**2)
        return QueryLimits(memory_bytes=memory, seconds=self.max_seconds, hops=max_hops, exact=exact)


def split_param(argument: str) -> tuple[str, str]:
    """Return the name and the text of `NAME=VALUE`. The name can start with `$`."""
    name, equals, value = argument.partition("=")
    name = name.strip().removeprefix("$")
    if not equals or not name:
        raise UsageError(
            f"invalid --param: expected NAME=VALUE, got '{argument}'",
            code="params_malformed",
            hint="Pass it as in `--param name=Ada`.",
        )
    return name, value


def read_queries(command: str, files: list[Path] | None, text: str | None) -> list[tuple[str, str]]:
    """Return the source names and query texts of all `--query` and of `-e`, in this order."""
    texts = [
        (str(path), decode_text(_read(path, limits.QUERY_TEXT_BYTES_MAX, "query", "query"), path, _QUERY))
        for path in files or ()
    ]
    if text is not None:
        texts.append((INLINE_QUERY, text))
    if not texts:
        raise _no_query(command)
    return texts


def _no_query(command: str, stored_names: Sequence[str] | None = None) -> UsageError:
    stored = "" if stored_names is None else ", or the name of a stored query"
    stored += f": {', '.join(stored_names)}" if stored_names else ""
    return UsageError(
        f"`{command}` needs a query", code="query_text_missing", hint=f"Pass `--query FILE` or `-e TEXT`{stored}."
    )


def read_params(text: str | None, file: Path | None) -> dict[str, Any] | None:
    """Return the parameters; None if there are none."""
    if text is not None and file is not None:
        raise UsageError(
            "`--params` and `--params-file` cannot be used together", code="params_twice", hint=PASS_ONLY_ONE
        )
    if file is not None:
        data = _read(file, limits.PARAMETERS_BYTES_MAX, "parameter", "params_file")
        if len(data) > limits.PARAMETERS_BYTES_MAX:
            reason = f"expected at most {limits.PARAMETERS_BYTES_MAX:,} bytes, got more"
            raise _bad_params(reason, file, ResourceLimit("parameters", limits.PARAMETERS_BYTES_MAX, "bytes"))
        try:
            text = data.decode("utf-8")
        except UnicodeDecodeError as error:
            raise _bad_params("expected UTF-8", file) from error
    return None if text is None else _parse_params(text, file)


def _parse_params(text: str, file: Path | None) -> dict[str, Any]:
    try:
        params = json.loads(text, object_pairs_hook=_members)
    except json.JSONDecodeError as error:
        reason = f"not valid JSON: {error.msg}, line {error.lineno}, column {error.colno}"
        raise _bad_params(reason, file) from error
    except _DuplicateNameError as error:
        raise _bad_params(f"duplicate name '{error.name}'", file) from error
    except RecursionError as error:
        raise _bad_params("nested too deeply", file) from error
    except ValueError as error:
        # Python limits the digits of an integer.
        raise _bad_params("a number has too many digits", file) from error
    if not isinstance(params, dict):
        raise _bad_params(f"expected a JSON object, got {json.dumps(params)[:40]}", file)
    return params


class _DuplicateNameError(Exception):
    """A JSON object has two members of one name."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name


def _members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return a JSON object; raise if a name is duplicate."""
    members = dict(pairs)
    if len(members) < len(pairs):
        names = [name for name, _ in pairs]
        duplicate = next(name for name in names if names.count(name) > 1)
        raise _DuplicateNameError(duplicate)
    return members


def _bad_params(reason: str, file: Path | None, limit: ResourceLimit | None = None) -> UsageError:
    source = "" if file is None else f" in '{file}'"
    facts: dict[str, Fact] = {"reason": reason} if file is None else {"reason": reason, "path": str(file)}
    return UsageError(
        f"invalid parameters{source}: {reason}",
        code="params_malformed",
        hint='Pass one JSON object, as in `--params \'{"name": "Ada"}\'`.',
        facts=facts if limit is None else {**facts, **limit.facts()},
    )


def _read(path: Path, bytes_max: int, content: str, argument: str) -> bytes:
    if str(path) == STDIN:
        return sys.stdin.buffer.read(bytes_max + 1)
    return read_bytes(path, bytes_max, content, argument)
