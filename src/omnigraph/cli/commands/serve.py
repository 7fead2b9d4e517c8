"""`omnigraph serve`: serve a graph over HTTP."""

from __future__ import annotations

import os
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Final

import typer

from omnigraph.base.errors import MachineError, UsageError
from omnigraph.cli.command import Capability, command
from omnigraph.cli.hints import render_command
from omnigraph.cli.target import ClusterScope, Scope, StorageArguments

Bind = Annotated[str, typer.Option("--bind", metavar="HOST:PORT", help="Where to listen; port 0 chooses a free port.")]


class TokenAccess(StrEnum):
    """What a token may do."""

    READ = "read"
    WRITE = "write"


class LogFormat(StrEnum):
    """The format of the log on stderr."""

    TEXT = "text"
    JSON = "json"


AccessOption = Annotated[TokenAccess, typer.Option("--access", help="What every token may do.")]
PolicyOption = Annotated[
    list[Path] | None,
    typer.Option(
        "--policy", metavar="FILE", help="A policy that decides who may do what, instead of --access. Repeatable."
    ),
]
Unauthenticated = Annotated[
    bool, typer.Option("--unauthenticated", help="Require no token, and allow everything to everyone.")
]
TlsCertificate = Annotated[Path | None, typer.Option("--tls-cert", metavar="FILE", help="The certificate for HTTPS.")]
TlsKey = Annotated[Path | None, typer.Option("--tls-key", metavar="FILE", help="The key of the certificate.")]
RootPath = Annotated[
    str, typer.Option("--root-path", metavar="/PREFIX", help="The prefix that a reverse proxy removes from addresses.")
]
CorsOrigins = Annotated[
    list[str] | None,
    typer.Option("--cors-origin", metavar="URL", help="Allow pages of this origin to use the server. Repeatable."),
]
NoPages = Annotated[bool, typer.Option("--no-ui", help="Serve no web pages.")]
MetricsPublic = Annotated[bool, typer.Option("--metrics-public", help="Require no token for /metrics.")]
LogFormatOption = Annotated[LogFormat, typer.Option("--log-format", help="The format of the log on stderr.")]
Grace = Annotated[
    int,
    typer.Option("--shutdown-grace-seconds", metavar="N", min=0, help="How long running requests may take to finish."),
]


RequireAllGraphs = Annotated[
    bool, typer.Option("--require-all-graphs", help="Do not start if a graph of the cluster cannot be served.")
]
ReloadSeconds = Annotated[
    float,
    typer.Option("--reload-seconds", metavar="N", min=0, help="How often to read the ledger of a cluster; 0: never."),
]
CLUSTER_VARIABLE: Final = "OMNIGRAPH_CLUSTER"


@command(
    "omnigraph serve graph.omni --unauthenticated",
    "OMNIGRAPH_SERVER_BEARER_TOKEN=secret omnigraph serve graph.omni --access write",
    "OMNIGRAPH_SERVER_BEARER_TOKENS_FILE=tokens.json omnigraph serve s3://bucket/graph.omni --bind 0.0.0.0:8080",
    "OMNIGRAPH_SERVER_BEARER_TOKENS_FILE=tokens.json omnigraph serve graph.omni --policy team.policy.yaml",
    "OMNIGRAPH_SERVER_BEARER_TOKENS_FILE=tokens.json omnigraph serve --cluster s3://bucket/clusters/brain",
    capability=Capability.DIRECT,
)
def serve(
    target: StorageArguments,
    *,
    bind: Bind = "127.0.0.1:8080",
    access: AccessOption = TokenAccess.READ,
    policies: PolicyOption = None,
    unauthenticated: Unauthenticated = False,
    tls_certificate: TlsCertificate = None,
    tls_key: TlsKey = None,
    root_path: RootPath = "",
    cors_origins: CorsOrigins = None,
    no_pages: NoPages = False,
    metrics_public: MetricsPublic = False,
    log_format: LogFormatOption = LogFormat.TEXT,
    grace_seconds: Grace = 25,
    require_all_graphs: RequireAllGraphs = False,
    reload_seconds: ReloadSeconds = 5.0,
) -> None:
    """Serve a graph, or the graphs of a cluster, over HTTP until SIGTERM or Ctrl-C.

    Clients send a token, from OMNIGRAPH_SERVER_BEARER_TOKEN (actor default) or from an object with a token for each
    actor in OMNIGRAPH_SERVER_BEARER_TOKENS_JSON or the file OMNIGRAPH_SERVER_BEARER_TOKENS_FILE. SIGHUP reads the file
    and the policy again. With --cluster, or OMNIGRAPH_CLUSTER, it serves what was applied, with stored queries and
    policies, and follows the ledger: a new revision needs no restart. Prints one line, OMNIGRAPH_LISTEN_ADDR=HOST:PORT,
    when it listens. The log is on stderr.
    """
    scope = _find_scope(target)
    cluster = scope if isinstance(scope, ClusterScope) else None
    location = target.locate() if cluster is None else None
    if cluster is not None and (policies or cluster.graph is not None):
        raise UsageError(
            "a cluster declares its graphs and policies: `--policy` and `--graph` cannot be used with it",
            code="usage",
            hint="Omit them.",
        )
    if (tls_certificate is None) != (tls_key is None):
        raise UsageError(
            "`--tls-cert` and `--tls-key` must be used together", code="usage", hint="Pass both, or neither."
        )
    missing = find_missing_package()
    if missing is not None:
        raise missing
    from omnigraph.server.boot import AccessState
    from omnigraph.server.process import ServerSettings, run_server

    origins = cors_origins or os.environ.get("OMNIGRAPH_SERVER_CORS_ORIGIN", "").split(",")
    from omnigraph.cluster.addressing import find_root

    settings = ServerSettings(
        store=location,
        cluster=None if cluster is None else find_root(cluster.address),
        requires_all_graphs=require_all_graphs,
        reload_seconds=reload_seconds,
        bind=bind,
        access=AccessState(access.value),
        is_unauthenticated=unauthenticated,
        policies=tuple(policies or ()),
        tls_certificate=tls_certificate,
        tls_key=tls_key,
        root_path=root_path,
        cors_origins=tuple(origin.strip() for origin in origins if origin.strip()),
        has_pages=not no_pages,
        has_public_metrics=metrics_public,
        logs_json=log_format is LogFormat.JSON,
        grace_seconds=grace_seconds,
        render_hint=lambda fix: render_command(fix, "GRAPH"),
    )
    raise typer.Exit(run_server(settings))


def find_missing_package() -> MachineError | None:
    """Return the error of a machine without the extra `server`; None if the server can run."""
    try:
        import omnigraph.server.process  # noqa: F401  # it imports every package that the server needs
    except ModuleNotFoundError as missing:
        if (missing.name or "").startswith("omnigraph"):
            raise
        return MachineError(
            f"the server needs the package {missing.name}, which is not installed",
            code="server_extra_missing",
            hint="Run `pip install 'omnigraph[server]'`.",
        )
    return None


def _find_scope(target: StorageArguments) -> Scope:
    """Return the graph or the cluster; the variable names a cluster if nothing else names one."""
    scope = target.find_scope()
    cluster = os.environ.get(CLUSTER_VARIABLE)
    return ClusterScope(cluster) if scope is None and cluster else target.scope()
