"""Which graph a command uses, and how it reaches it: arguments, environment and operator file become one scope.

`resolve_scope` is pure: a store, a graph of a cluster, or a graph of a server. `StorageArguments` and `GraphArguments`
are the arguments of commands; they locate or open what the scope names. Before data of a graph that is not local is
deleted, `confirm_destruction` asks.
"""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import typer

from omnigraph.base.authorization import AllowAll, GraphGate
from omnigraph.base.errors import ConfirmationRequiredError, UsageError
from omnigraph.cli.command import GRAPH_KEY
from omnigraph.cli.errors import PASS_A_URI, PASS_STORAGE, ExitCode
from omnigraph.cli.hints import render_hint
from omnigraph.cli.options import Cluster, GraphId, Insecure, ProfileName, Server, StateArguments, Store, Uri
from omnigraph.client.operator_file import OperatorFile, Profile, read_operator_file
from omnigraph.storage.location import Location, Scheme, parse_location

if TYPE_CHECKING:
    from omnigraph import QueryLimits
    from omnigraph.api.graph import Graph
    from omnigraph.client.http import Connection
    from omnigraph.client.protocol import GraphClient
    from omnigraph.cluster.addressing import ClusterGraph

SUFFIX: Final = ".omni"
"""The usual suffix of graphs. Branches, commits and queries never have it."""

PROFILE_VARIABLE: Final = "OMNIGRAPH_PROFILE"
STORE_VARIABLE: Final = "OMNIGRAPH_STORE"

_SCOPE_KEY: Final = "omnigraph.scope"
"""Where the context of a command keeps its scope."""


@dataclass(frozen=True, slots=True)
class StoreScope:
    """A graph by its address in storage."""

    address: str


@dataclass(frozen=True, slots=True)
class ClusterScope:
    """A graph of a cluster, whose files this process reads and writes. Without a graph, the only one of the cluster."""

    address: str
    graph: str | None = None


@dataclass(frozen=True, slots=True)
class ServerScope:
    """A graph of a server. `name`: the name in the operator file. Without a graph, the only one of the server."""

    url: str
    name: str | None = None
    graph: str | None = None


Scope = StoreScope | ClusterScope | ServerScope


@dataclass(frozen=True, slots=True, kw_only=True)
class ScopeNames:
    """What the command line says about the graph."""

    uri: str | None = None
    store: str | None = None
    server: str | None = None
    cluster: str | None = None
    graph: str | None = None
    profile: str | None = None


def resolve_scope(names: ScopeNames, environment: Mapping[str, str], settings: OperatorFile) -> Scope | None:
    """Return the scope of a command; None if nothing names one.

    The first that applies: an address on the command line, `--profile`, `OMNIGRAPH_PROFILE`, `OMNIGRAPH_STORE`,
    `defaults` of the operator file.
    """
    addresses = {"URI": names.uri, "--store": names.store, "--server": names.server, "--cluster": names.cluster}
    passed = {flag: address for flag, address in addresses.items() if address is not None}
    if len(passed) > 1:
        raise UsageError(
            f"expected one graph, got {' and '.join(f'{flag} {address!r}' for flag, address in passed.items())}",
            code="scope_twice",
            hint="Pass only one of URI, `--store`, `--server` and `--cluster`.",
        )
    store = names.uri if names.uri is not None else names.store
    profile_name = names.profile or environment.get(PROFILE_VARIABLE)
    if passed:
        chosen = Profile(server=names.server, cluster=names.cluster, store=store)
    elif profile_name:
        chosen = find_profile(profile_name, settings)
    elif environment.get(STORE_VARIABLE):
        chosen = Profile(store=environment[STORE_VARIABLE])
    elif settings.defaults.is_empty:
        return None
    else:
        chosen = _require_valid(settings.defaults, "`defaults`", settings)
    return _scope_of(chosen, names.graph, settings)


def find_profile(name: str, settings: OperatorFile) -> Profile:
    """Return a profile of the operator file; raise if it does not exist or cannot be used."""
    if name not in settings.profiles:
        raise UsageError(
            f"unknown profile '{name}': expected {_one_of(settings.profiles)}",
            code="profile_unknown",
            hint="Run `omnigraph profile list`, or add the profile to the operator file.",
            facts={"path": str(settings.path)},
        )
    return _require_valid(settings.profiles[name], f"profile '{name}'", settings)


def find_server(server: str, settings: OperatorFile) -> ServerScope:
    """Return a server by its name or address. An address belongs to the configured server with exactly that one."""
    if "://" not in server:
        if server not in settings.servers:
            raise UsageError(
                f"unknown server '{server}': expected {_one_of(settings.servers)}, or an address",
                code="server_unknown",
                hint="Pass `--server https://HOST`, or add the server to the operator file.",
                facts={"path": str(settings.path)},
            )
        return ServerScope(settings.servers[server].rstrip("/"), server)
    url = server.rstrip("/")
    names = (name for name, configured in settings.servers.items() if configured.rstrip("/") == url)
    return ServerScope(url, next(names, None))


def _scope_of(chosen: Profile, graph: str | None, settings: OperatorFile) -> Scope:
    if chosen.store is not None:
        if graph is not None:
            raise UsageError(
                f"`--graph {graph}` selects a graph of a server or a cluster, and '{chosen.store}' is one graph",
                code="graph_of_store",
                hint="Omit `--graph`, or pass `--server` or `--cluster` instead of the graph.",
            )
        return StoreScope(chosen.store)
    graph = graph if graph is not None else chosen.default_graph
    if chosen.cluster is not None:
        return ClusterScope(chosen.cluster, graph)
    assert chosen.server is not None, "a valid profile has a target"
    server = find_server(chosen.server, settings)
    defaults = settings.defaults
    if graph is None and defaults.server is not None and find_server(defaults.server, settings) == server:
        graph = defaults.default_graph
    return ServerScope(server.url, server.name, graph)


def _require_valid(profile: Profile, name: str, settings: OperatorFile) -> Profile:
    problem = profile.problem()
    if problem is not None:
        raise UsageError(
            f"{settings.path}: {name} is invalid: {problem}", code="profile_invalid", hint="Correct the file."
        )
    return profile


def _one_of(names: Mapping[str, object]) -> str:
    return f"one of {', '.join(sorted(names))}" if names else "a name of the operator file, which has none"


def scope_arguments(scope: Scope) -> tuple[str, ...]:
    """Return the scope as the arguments of a command."""
    graph = () if isinstance(scope, StoreScope) or scope.graph is None else ("--graph", scope.graph)
    match scope:
        case StoreScope(address):
            return (address,)
        case ClusterScope(address):
            return ("--cluster", address, *graph)
        case ServerScope(url, name):
            return ("--server", name or url, *graph)


def locate_cluster_graph(scope: ClusterScope) -> Location:
    """Return where a graph of a cluster is stored. Only the ledger of the cluster is read."""
    from omnigraph.cluster.addressing import find_graph

    return find_graph(scope.address, scope.graph).location


@dataclass(frozen=True, slots=True)
class ServedLocation:
    """A graph of a server, for messages."""

    url: str
    graph_id: str
    server: str | None
    is_local: bool = False

    @property
    def uri(self) -> str:
        """The address of the graph."""
        return f"{self.url}/graphs/{self.graph_id}"

    def __str__(self) -> str:
        return f"{self.url} graphs/{self.graph_id}"


@dataclass(frozen=True, slots=True)
class GraphConnection:
    """A graph that a command works with, in this process or through a server."""

    context: typer.Context
    location: Location | ServedLocation
    client: GraphClient
    state: Mapping[str, str]
    """The state to read, as members of a request."""

    def print_location(self) -> GraphConnection:
        """Print on stderr the graph that the command writes to."""
        print_location(self.context, self.location)
        return self

    def confirm(self, action: str, *, yes: bool) -> None:
        """Ask for confirmation before data is deleted."""
        confirm_destruction(self.context, self.location, action, yes=yes)


@dataclass(frozen=True, slots=True)
class LocatedGraph:
    """A graph in storage, and how a command names it. `id`: which of several graphs of a cluster."""

    location: Location
    arguments: tuple[str, ...]
    id: str | None = None

    @property
    def heading(self) -> tuple[str, ...]:
        """The line above the lines about the graph, if there are several."""
        return () if self.id is None else (f"graph {self.id}:",)


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageArguments:
    """The graph of a command that works on storage directly."""

    context: typer.Context
    uri: Uri = None
    store: Store = None
    cluster: Cluster = None
    graph: GraphId = None
    profile: ProfileName = None

    @property
    def names(self) -> ScopeNames:
        """What the command line says about the graph."""
        return ScopeNames(uri=self.uri, store=self.store, cluster=self.cluster, graph=self.graph, profile=self.profile)

    def find_scope(self) -> Scope | None:
        """Return the scope; None if nothing names a graph."""
        scope = resolve_scope(self.names, os.environ, read_settings(self.context))
        self.context.meta[_SCOPE_KEY] = scope
        self.context.meta[GRAPH_KEY] = None if scope is None else scope_arguments(scope)
        return scope

    def scope(self) -> Scope:
        """Return the scope; raise if nothing names a graph."""
        scope = self.find_scope()
        if scope is None:
            draws = self.graph is not None and self.context.command_path == "omnigraph log"
            hint = "Pass `--draw` to draw the commits." if draws else f"{PASS_A_URI} Or set {STORE_VARIABLE}."
            raise UsageError(_missing_graph(self.context), code="target_missing", hint=hint)
        return scope

    @property
    def arguments(self) -> tuple[str, ...] | None:
        """The graph as the arguments of a command; None if nothing names one."""
        scope = self.find_scope()
        return None if scope is None else scope_arguments(scope)

    def choose_actor(self, actor: str | None) -> str | None:
        """Return who writes: the actor of the command line, or that of the operator file, if there is one."""
        return choose_actor(self.context, actor)

    def locate(self) -> Location:
        """Return the location of the graph; raise if it is that of a server."""
        return _locate(self.context, self.scope())

    def locate_all(self) -> tuple[LocatedGraph, ...]:
        """Return the graph, or every graph of a cluster if none of them is named."""
        scope = self.scope()
        if not isinstance(scope, ClusterScope) or scope.graph is not None:
            return (LocatedGraph(_locate(self.context, scope), scope_arguments(scope)),)
        from omnigraph.cluster.addressing import find_graphs

        return tuple(
            LocatedGraph(graph.location, scope_arguments(ClusterScope(scope.address, graph.id)), graph.id)
            for graph in find_graphs(scope.address)
        )

    def locate_and_print(self) -> Location:
        """Return the location of the graph, and print it on stderr before it is opened."""
        location = self.locate()
        print_location(self.context, location)
        return location

    @property
    def gate(self) -> GraphGate:
        """The gate for writes of data: the deployed policy of a graph of a cluster; any other graph has none."""
        deployed = self.find_deployed()
        return AllowAll() if deployed is None else deployed.gate

    def bind(self, graph: Graph) -> Graph:
        """Return the opened graph; one of a cluster has its deployed policy and embedding provider."""
        deployed = self.find_deployed()
        return graph if deployed is None else deployed.bind(graph)

    def find_deployed(self) -> ClusterGraph | None:
        """Return the deployed graph of a cluster; None for any other graph."""
        scope = self.find_scope()
        if not isinstance(scope, ClusterScope):
            return None
        from omnigraph.cluster.addressing import find_graph

        return find_graph(scope.address, scope.graph)

    def open(self, branch: str = "main", *, spark: str | None = None) -> Graph:
        """Open the graph read-only."""
        location = self.locate()

        from omnigraph.api.graph import Graph

        return self.bind(Graph(location, branch=branch, read_only=True, spark=spark))


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphArguments(StorageArguments):
    """The graph of a command that works on storage or through a server."""

    server: Server = None
    insecure: Insecure = False

    @property
    def names(self) -> ScopeNames:
        """What the command line says about the graph."""
        return ScopeNames(
            uri=self.uri,
            store=self.store,
            server=self.server,
            cluster=self.cluster,
            graph=self.graph,
            profile=self.profile,
        )

    def scope(self) -> Scope:
        """Return the scope; raise if nothing names a graph, or if a flag has no meaning for a server."""
        scope = StorageArguments.scope(self)
        if isinstance(scope, ServerScope):
            require_flags_of_servers(self.context)
        return scope

    def connect(
        self,
        *,
        actor: str | None = None,
        limits: QueryLimits | None = None,
        state: StateArguments | None = None,
        read_only: bool = True,
    ) -> GraphConnection:
        """Return the graph as a client."""
        scope = self.scope()
        if isinstance(scope, ServerScope):
            location, served = _connect(scope, is_insecure=self.insecure)
            parameters = {} if state is None else state.parameters(served, is_served=True)
            return GraphConnection(self.context, location, served, parameters)
        storage = _locate(self.context, scope)
        as_of = None if state is None else state.as_of_of_branch()

        from omnigraph import QueryLimits
        from omnigraph.api.graph import Graph
        from omnigraph.client.local import LocalGraph

        graph = self.bind(Graph(storage, actor=self.choose_actor(actor), read_only=read_only))
        client = LocalGraph(
            graph=graph,
            uri=storage.uri,
            limits=limits or QueryLimits(),
            render_hint=lambda hint: render_hint(hint, scope_arguments(scope)),
            as_of=as_of,
        )
        parameters = {} if state is None else state.parameters(client, is_served=False)
        return GraphConnection(self.context, storage, client, parameters)


@dataclass(frozen=True, slots=True)
class ServerArguments:
    """The server of a command that asks a server about itself."""

    context: typer.Context
    server: Server = None
    profile: ProfileName = None
    insecure: Insecure = False

    def connect(self) -> Connection:
        """Return the server; raise if nothing names one."""
        names = ScopeNames(server=self.server, profile=self.profile)
        scope = resolve_scope(names, os.environ, read_settings(self.context))
        if not isinstance(scope, ServerScope):
            raise UsageError(
                f"missing server: `{self.context.command_path}` requires a server",
                code="target_missing",
                hint="Pass `--server NAME` or `--server URL`.",
            )
        return open_connection(scope, is_insecure=self.insecure)


def open_connection(scope: ServerScope, *, is_insecure: bool) -> Connection:
    """Return a server with the token for it. Only here the libraries for HTTP are imported."""
    from omnigraph.client.credentials import find_token
    from omnigraph.client.http import Connection

    return Connection(scope.url, find_token(scope.name), is_insecure=is_insecure)


FLAGS_OF_STORAGE: Final = {
    "--spark-master": "The server decides where work runs: omit it.",
    "--runner": "The server decides where work runs: omit it.",
    "--engine": "The server decides where work runs: omit it.",
    "--with-indexes": "The server decides about indexes: omit it.",
    "--errors": "Omit it: the answer of the server has every error.",
    "--max-memory": "The server decides about limits: omit it.",
    "--max-seconds": "The server decides about limits: omit it.",
    "--max-hops": "The server decides about limits: omit it.",
    "--exact": "Write `exact=true` as an argument of the score.",
    "--as": "The token decides who writes: omit it, or log in as the other actor.",
    "--at": "Run `omnigraph commit list`, and pass a commit with `--commit`.",
    "--version": "Run `omnigraph commit list`, and pass a commit with `--commit`.",
    "--deep": "Omit it, or pass `--store URI` on a machine that reaches the storage.",
    "--log-file": "Omit it: the server has its own log.",
}
"""The flags that have no meaning for a server, and what to do instead."""


def require_flags_of_servers(context: typer.Context) -> None:
    """Raise if a flag of the command line has no meaning for a server."""
    for parameter in context.command.params:
        name = parameter.opts[0]
        source = context.get_parameter_source(parameter.name or "")
        if name in FLAGS_OF_STORAGE and source is not None and source.name == "COMMANDLINE":
            raise UsageError(
                f"`{context.command_path}` cannot use `{name}` with a server",
                code="actor_over_server" if name == "--as" else "flag_over_server",
                hint=FLAGS_OF_STORAGE[name],
            )


def _locate(context: typer.Context, scope: Scope) -> Location:
    match scope:
        case StoreScope(address):
            return locate(context, address)
        case ClusterScope():
            return locate_cluster_graph(scope)
        case ServerScope(url, name):
            raise UsageError(
                f"`{context.command_path}` cannot use server '{name or url}': it works on storage directly",
                code="server_unsupported",
                hint=PASS_STORAGE,
            )


def _connect(scope: ServerScope, *, is_insecure: bool) -> tuple[ServedLocation, GraphClient]:
    """Return the graph of a server."""
    from omnigraph.client.remote import HttpGraph, choose_graph

    connection = open_connection(scope, is_insecure=is_insecure)
    graph_id = scope.graph if scope.graph is not None else choose_graph(connection)
    location = ServedLocation(scope.url, graph_id, scope.name)
    return location, HttpGraph(connection=connection, graph_id=graph_id)


def read_settings(context: typer.Context) -> OperatorFile:
    """Return the settings of the operator file; print its warnings the first time that a command asks."""
    key = "omnigraph.settings"
    if key not in context.meta:
        settings = read_operator_file()
        context.meta[key] = settings
        if not context.obj.quiet:
            sys.stderr.writelines(f"warning: {warning}\n" for warning in settings.warnings)
    settings = context.meta[key]
    assert isinstance(settings, OperatorFile)
    return settings


def choose_actor(context: typer.Context, actor: str | None) -> str | None:
    """Return the actor of the command line, or that of the operator file, if there is one."""
    return actor if actor is not None else read_settings(context).actor


def locate(context: typer.Context, address: str) -> Location:
    """Return the location of an address; raise if a command cannot use it."""
    if address.lower().startswith(("http://", "https://")):
        command = context.command_path
        has_servers = any("--server" in parameter.opts for parameter in context.command.params)
        raise UsageError(
            f"'{address}' is the address of a server: expected storage"
            if has_servers
            else f"`{command}` cannot use the server address '{address}': it works on storage directly",
            code="uri_is_server",
            hint=f"Pass it as `--server {shlex.quote(address)}`." if has_servers else PASS_A_URI,
        )
    location = parse_location(address)
    if location.scheme is Scheme.MEMORY:
        raise UsageError(
            f"`{context.command_path}` cannot use '{address}': a graph in memory is deleted when its process ends",
            code="uri_is_memory",
            hint=PASS_A_URI,
        )
    return location


def print_location(context: typer.Context, location: Location | ServedLocation) -> None:
    """Print on stderr the graph that a command will use."""
    if context.obj.quiet:
        return
    match location, context.meta.get(_SCOPE_KEY):
        case ServedLocation(), _:
            access = f"server {location.server}" if location.server else "server"
        case _, ClusterScope():
            access = "cluster, direct"
        case _:
            access = "direct, local" if location.is_local else "direct, remote"
    sys.stderr.write(f"{context.command_path} → {location} ({access})\n")


def confirm_destruction(context: typer.Context, location: Location | ServedLocation, action: str, *, yes: bool) -> None:
    """Ask for confirmation before data is deleted. Raise without a terminal; exit if the user declines."""
    if location.is_local or yes:
        return
    can_ask = not context.obj.json and not context.obj.quiet and sys.stdin.isatty() and sys.stderr.isatty()
    if can_ask:
        if _ask(f"{action} deletes data at {location}. Continue?"):
            return
        sys.stderr.write("cancelled: nothing was changed\n")
        raise typer.Exit(ExitCode.REFUSED)
    raise ConfirmationRequiredError(
        f"{action} deletes data at {location}: expected a confirmation",
        code="confirmation_missing",
        hint="Nothing was changed. Pass `--yes` to confirm.",
        facts={"uri": location.uri},
    )


def _ask(question: str) -> bool:
    """Return whether the answer is yes. The end of the input means no. A signal ends the command."""
    try:
        return typer.confirm(question, err=True)
    except typer.Abort as aborted:
        sys.stderr.write("\n")
        if isinstance(aborted.__context__, KeyboardInterrupt):  # Typer raises Abort for both
            raise KeyboardInterrupt from aborted
        return False


def _missing_graph(context: typer.Context) -> str:
    """Return the message, and name an argument that looks like a graph."""
    message = f"missing graph: `{context.command_path}` requires a graph"
    for parameter in context.command.params:
        value = context.params.get(parameter.name or "")
        if parameter.param_type_name == "argument" and isinstance(value, str) and value.endswith(SUFFIX):
            return f"{message}, but '{value}' was read as its {parameter.human_readable_name}"
    return message
