"""`omnigraph serve`: serve a graph over HTTP."""

from __future__ import annotations

import os
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from omnigraph.base.errors import MachineError, UsageError
from omnigraph.cli.command import Capability, command
from omnigraph.cli.hints import render_command
from omnigraph.cli.target import StorageArguments

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
    Path | None,
    typer.Option("--policy", metavar="FILE", help="A policy that decides who may do what, instead of --access."),
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


@command(
    "omnigraph serve graph.omni --unauthenticated",
    "OMNIGRAPH_SERVER_BEARER_TOKEN=secret omnigraph serve graph.omni --access write",
    "OMNIGRAPH_SERVER_BEARER_TOKENS_FILE=tokens.json omnigraph serve s3://bucket/graph.omni --bind 0.0.0.0:8080",
    "OMNIGRAPH_SERVER_BEARER_TOKENS_FILE=tokens.json omnigraph serve graph.omni --policy team.policy.yaml",
    capability=Capability.DIRECT,
)
def serve(
    target: StorageArguments,
    *,
    bind: Bind = "127.0.0.1:8080",
    access: AccessOption = TokenAccess.READ,
    policy: PolicyOption = None,
    unauthenticated: Unauthenticated = False,
    tls_certificate: TlsCertificate = None,
    tls_key: TlsKey = None,
    root_path: RootPath = "",
    cors_origins: CorsOrigins = None,
    no_pages: NoPages = False,
    metrics_public: MetricsPublic = False,
    log_format: LogFormatOption = LogFormat.TEXT,
    grace_seconds: Grace = 25,
) -> None:
    """Serve a graph over HTTP until SIGTERM or Ctrl-C.

    Clients send a token, from OMNIGRAPH_SERVER_BEARER_TOKEN (actor default) or from an object with a token for each
    actor in OMNIGRAPH_SERVER_BEARER_TOKENS_JSON or the file OMNIGRAPH_SERVER_BEARER_TOKENS_FILE. SIGHUP reads the file
    and the policy again. Prints one line, OMNIGRAPH_LISTEN_ADDR=HOST:PORT, when it listens. The log is on stderr.
    """
    location = target.locate()
    if (tls_certificate is None) != (tls_key is None):
        raise UsageError(
            "`--tls-cert` and `--tls-key` must be used together", code="usage", hint="Pass both, or neither."
        )
    try:
        from omnigraph.server.boot import AccessState
        from omnigraph.server.process import ServerSettings, run_server
    except ModuleNotFoundError as missing:
        if (missing.name or "").startswith("omnigraph"):
            raise
        raise MachineError(
            f"the server needs the package {missing.name}, which is not installed",
            code="server_extra_missing",
            hint="Run `pip install 'omnigraph[server]'`.",
        ) from missing
    origins = cors_origins or os.environ.get("OMNIGRAPH_SERVER_CORS_ORIGIN", "").split(",")
    settings = ServerSettings(
        store=location,
        bind=bind,
        access=AccessState(access.value),
        is_unauthenticated=unauthenticated,
        policy=policy,
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
