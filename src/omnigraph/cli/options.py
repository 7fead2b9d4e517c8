"""Arguments and options that several commands share, so that each has one name and one meaning."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from math import isfinite
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from omnigraph.base.actors import require_actor_name
from omnigraph.base.errors import OmnigraphError, UsageError
from omnigraph.base.progress import JsonLines, log_event

if TYPE_CHECKING:
    from omnigraph.client.protocol import GraphClient


class LogFile(logging.FileHandler):
    """Appends lines until a write fails. A failed write is a warning: it does not make the command fail."""

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802  # the name in logging
        failure = sys.exc_info()[1]
        if not isinstance(failure, OSError):
            super().handleError(record)
            return
        self.setLevel(logging.CRITICAL + 1)
        sys.stderr.write(
            f"warning: the log is incomplete, writing the log file failed: {failure.strerror or failure}\n"
        )

    def close(self) -> None:
        with suppress(OSError):  # closing writes the failed lines again
            super().close()


def log_to_file(context: typer.Context, path: str | None) -> str | None:
    """Log to the file until the command ends; raise if it is not writable. This is the callback of the flag."""
    if path is None:
        return None
    try:
        handler = LogFile(path, encoding="utf-8")
    except OSError as error:
        raise UsageError(
            f"log file '{path}' is not writable: {error.strerror or error}",
            code="log_file",
            hint="Pass another path as `--log-file FILE`.",
        ) from error
    context.with_resource(_log_until_end(handler))
    return path


@contextmanager
def _log_until_end(handler: logging.Handler) -> Iterator[None]:
    """Log to the handler; at the end also the error of the command."""
    handler.setFormatter(JsonLines())
    logger = logging.getLogger("omnigraph")
    logger.setLevel(logging.INFO)
    logger.addHandler(handler)
    try:
        yield
    except typer.Exit as exit_request:
        if isinstance(error := exit_request.__cause__, OmnigraphError):
            facts = {"error_code": error.code, "error": error.render()}
            log_event(logger, "failed", level=logging.ERROR, in_result=True, **facts)
        raise
    except KeyboardInterrupt:
        log_event(logger, "interrupted", level=logging.ERROR, in_result=True)
        raise
    finally:
        logger.removeHandler(handler)
        logger.setLevel(logging.NOTSET)
        handler.close()


def require_finite(parameter: typer.CallbackParam, value: float | None) -> float | None:
    """Return the number; raise if it is infinite or NaN. NaN passes the range checks of Typer."""
    if value is not None and not isfinite(value):
        raise UsageError(
            f"invalid {parameter.opts[0]}: expected a finite number, got {value}",
            code="usage",
            hint=f"Pass a number, as in `{parameter.opts[0]} 10`.",
        )
    return value


Uri = Annotated[
    str | None,
    typer.Argument(
        metavar="[URI]", help="The graph: a local path, file:///path or s3://bucket/prefix.", show_default=False
    ),
]
Store = Annotated[str | None, typer.Option("--store", metavar="URI", help="The graph. The same as URI.")]
Server = Annotated[
    str | None,
    typer.Option("--server", metavar="NAME|URL", help="Use a graph of this server: its address, or its name."),
]
Cluster = Annotated[
    str | None, typer.Option("--cluster", metavar="DIR|URI", help="Use a graph of this cluster, in its storage.")
]
GraphId = Annotated[str | None, typer.Option("--graph", metavar="ID", help="Which graph of the server or the cluster.")]
ProfileName = Annotated[
    str | None, typer.Option("--profile", metavar="NAME", help="Use the graph of this profile of the operator file.")
]
Insecure = Annotated[
    bool, typer.Option("--insecure", help="Send the token over plain HTTP to a host that is not this machine.")
]
Branch = Annotated[str, typer.Option("--branch", metavar="NAME", help="Read this branch.")]
TargetBranch = Annotated[str, typer.Option("--branch", metavar="NAME", help="Write to this branch.")]
Commit = Annotated[
    str | None,
    typer.Option("--commit", metavar="ID", help="Read the state of this commit: its id, a unique part of it, or HEAD."),
]
CommitId = Annotated[
    str, typer.Argument(metavar="ID", help="The commit: its id, a unique part of it, or HEAD.", show_default=False)
]
Version = Annotated[
    int | None, typer.Option("--version", metavar="N", min=1, help="Read this version of the branch's manifest.")
]
At = Annotated[
    str | None,
    typer.Option("--at", metavar="TIME", help="Read the state at this time: 2026-05-31T12:00:00Z, or 2026-05-31."),
]
Actor = Annotated[
    str | None,
    typer.Option(
        "--as",
        metavar="ACTOR",
        callback=require_actor_name,
        help="Who writes. Default: the actor of the operator file, or your login name.",
    ),
]
Yes = Annotated[bool, typer.Option("--yes", help="Delete data of a graph that is not local, without a question.")]
SparkMaster = Annotated[
    str | None,
    typer.Option("--spark-master", metavar="URL", help="Run on this Spark master instead of a local session."),
]
RunnerName = Annotated[
    Literal["auto", "local", "spark"] | None,
    typer.Option(
        "--runner",
        metavar="auto|local|spark",
        help="Where the work runs: auto runs small jobs in this process and large ones on Spark. "
        "Default: OMNIGRAPH_RUNNER, or auto.",
    ),
]
LogFileOption = Annotated[
    str | None,
    typer.Option(
        "--log-file",
        metavar="FILE",
        callback=log_to_file,
        help="Append log events to this file, one JSON object per line.",
    ),
]


@dataclass(frozen=True, slots=True)
class RunnerArguments:
    """Where the work of a command runs."""

    runner: RunnerName = None
    spark_master: SparkMaster = None

    def __post_init__(self) -> None:
        if self.runner == "local" and self.spark_master is not None:
            raise UsageError(
                f"`--runner local` and `--spark-master {self.spark_master}` cannot be used together",
                code="runner",
                hint="Pass only one of them.",
            )


@dataclass(frozen=True, slots=True)
class StateArguments:
    """The arguments for the state of a graph to read: a branch, and a commit, a manifest version or a time."""

    branch: Branch = "main"
    commit: Commit = None
    version: Version = None
    time: At = None

    def as_of(self) -> str | int | datetime | None:
        """Return `as_of` of `Graph`; None: the newest state. Raise if the arguments select several states."""
        from omnigraph.api.arguments import choose_as_of

        return choose_as_of(self.commit, self.version, self.time)

    def as_of_of_branch(self) -> str | int | datetime | None:
        """Return `as_of` of `LocalGraph`: what `parameters` does not say."""
        as_of = self.as_of()
        return None if self.commit is not None and self.branch == "main" else as_of

    def parameters(self, client: GraphClient, *, is_served: bool) -> dict[str, str]:
        """Return the state as members of a request: a branch, or a commit of any branch as `snapshot`."""
        if self.commit is None or (self.branch != "main" and not is_served):
            return {"branch": self.branch}
        if self.branch == "main":
            return {"snapshot": self.commit}
        if self.commit != "HEAD":
            raise UsageError(
                "`--branch` and `--commit` cannot be used together with a server: the commit decides the branch",
                code="flag_over_server",
                hint="Omit `--branch`.",
            )
        from omnigraph.wire.requests import StateParameters

        return {"snapshot": client.snapshot(StateParameters(branch=self.branch)).graph_commit_id}

    def requested_commit(self, head: str) -> str | None:
        """Return the commit that was read if the caller named one."""
        return None if self.commit is None else head
