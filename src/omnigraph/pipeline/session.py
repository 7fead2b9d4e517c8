"""Chooses the Spark session that bulk work runs on, and starts a local one when there is none.

In order: the session that is active in this process; the master that the caller, the configuration or Spark's own
files name; the Spark Connect server in `SPARK_REMOTE`; the warm local server; a new local session. The same code then
runs on all of them. A local session says nothing, listens on loopback only, and ends with this process.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from omnigraph.base.errors import MachineError, UsageError
from omnigraph.base.java import find_java
from omnigraph.pipeline.class_archive import build_when_worthwhile, class_archive
from omnigraph.pipeline.classic import read_spark_defaults, start_classic_session
from omnigraph.pipeline.connect import connect_session, is_connect, is_connect_address
from omnigraph.pipeline.jvm import START_FLAGS
from omnigraph.pipeline.warm_client import warm_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOCAL_MASTER: Final = "local[*]"


@dataclass(frozen=True, slots=True)
class SparkSettings:
    """What the caller says about Spark. `master` may also be a Connect address, `sc://host:port`."""

    master: str | None = None
    conf: Mapping[str, str] = field(default_factory=dict)


def session(master: str | None = None, conf: Mapping[str, str] | None = None) -> SparkSession:
    """A ready session: the active one, that of `master` or of Spark's settings, the warm one, or a new local one."""
    return spark_session(SparkSettings(master, conf or {}), shared=False)


def spark_session(settings: SparkSettings | None = None, *, shared: bool = True) -> SparkSession:
    """A ready session. `shared`: on the warm server it is the one that all commands use, with its workers.

    What a program registers or names in its session is its own, the data source with its storage settings above all.
    """
    settings = settings or SparkSettings()
    asked = settings.master or settings.conf.get("spark.master")
    active = active_session()
    if active is not None:
        return _agreeing(active, asked)
    place = asked or configured_master()
    if place is None:
        return warm_session(settings.conf, shared=shared) or _local_session(LOCAL_MASTER, settings.conf)
    if is_connect_address(place):
        return connect_session(place, settings.conf)
    if place.startswith("local") and not place.startswith("local-cluster"):
        return _local_session(place, settings.conf)
    return start_classic_session(place, settings.conf, find_java(), START_FLAGS)


def configured_master(environ: Mapping[str, str] = os.environ) -> str | None:
    """Where Spark's own settings say that it runs: a master or a Connect address."""
    return (
        read_spark_defaults(environ).get("spark.master")
        or environ.get("MASTER")
        or environ.get("SPARK_REMOTE")
    )


def active_session() -> SparkSession | None:
    """The session that this process has, if it has one."""
    from pyspark.errors import PySparkRuntimeError
    from pyspark.sql import SparkSession

    try:
        return SparkSession.active()
    except PySparkRuntimeError:
        return None


def _agreeing(active: SparkSession, asked: str | None) -> SparkSession:
    """The active session, unless the caller names another place: one process has one."""
    running = "a Spark Connect server" if is_connect(active) else active.sparkContext.master
    if asked is None or asked == running or (is_connect(active) and is_connect_address(asked)):
        return active
    raise UsageError(
        f"this process has a Spark session on {running} already and cannot use {asked} as well",
        code="spark_session_exists",
        hint="stop that session first, or leave the master out",
    )


def _local_session(master: str, conf: Mapping[str, str]) -> SparkSession:
    """Everything in one JVM on this machine, started with the class-data archive when there is one."""
    java = find_java()
    archive = class_archive(java)
    faster = archive.flags()
    if not faster:
        session = start_classic_session(master, conf, java, START_FLAGS)
        build_when_worthwhile(archive)
        return session
    try:
        return start_classic_session(master, conf, java, (*START_FLAGS, *faster))
    except MachineError:
        archive.discard()
        return start_classic_session(master, conf, java, START_FLAGS)
