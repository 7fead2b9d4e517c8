"""Builds the class-data archive: `python -m omnigraph.pipeline.spark.class_archive_build`, run by the package itself.

A local session runs one small job and records the classes that it loads; Java then writes them to the archive. One
process at a time builds. The archive becomes visible when it is complete; a crash leaves a draft that the next build
deletes. After a failed build, sessions start without an archive.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import signal
import subprocess
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

from omnigraph.base import limits
from omnigraph.base.errors import OmnigraphError
from omnigraph.pipeline.spark.class_archive import ClassArchive, class_archive, describe_file
from omnigraph.pipeline.spark.java import Java, find_java
from omnigraph.pipeline.spark.jvm import START_FLAGS
from omnigraph.pipeline.spark.runner import SparkRunner
from omnigraph.pipeline.spark.session import start_classic_session


def build_class_archive(java: Java) -> ClassArchive | None:
    """Return the complete archive, built now if it is missing; None if another process is building it."""
    archive = class_archive(java)
    archive.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with archive.path.with_suffix(".lock").open("ab") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return None
        if not archive.is_whole():
            for left in archive.path.parent.glob("classes-draft-*"):
                shutil.rmtree(left, ignore_errors=True)
            _build(java, archive)
    return archive


def _build(java: Java, archive: ClassArchive) -> None:
    with tempfile.TemporaryDirectory(dir=archive.path.parent, prefix="classes-draft-") as folder:
        loaded = Path(folder, "loaded")
        draft = Path(folder, "archive.jsa")
        classpath, arguments = _train(java, loaded)
        command = [
            str(java.home / "bin" / "java"),
            *START_FLAGS,
            *arguments,
            "-Xshare:dump",
            f"-XX:SharedClassListFile={loaded}",
            f"-XX:SharedArchiveFile={draft}",
            "-cp",
            classpath,
        ]
        subprocess.run(
            command,
            check=True,
            capture_output=True,
            stdin=subprocess.DEVNULL,
            timeout=limits.CLASS_ARCHIVE_BUILD_SECONDS_MAX,
        )
        seal = Path(folder, "seal")
        seal.write_text(json.dumps(describe_file(draft)), encoding="ascii")
        draft.replace(archive.path)
        seal.replace(archive.seal)


def _train(java: Java, loaded: Path) -> tuple[str, list[str]]:
    """Record the classes of a session; return its class path and module flags."""
    flags = (*START_FLAGS, f"-XX:DumpLoadedClassList={loaded}")
    session = start_classic_session("local[1]", {}, java, flags)
    SparkRunner(session=session)(abs, [-1])
    gateway: Any = session.sparkContext._gateway
    management = gateway.jvm.java.lang.management.ManagementFactory.getRuntimeMXBean()
    classpath = str(management.getClassPath())
    arguments = [str(argument) for argument in management.getInputArguments() if argument.startswith("--add-")]
    session.stop()
    gateway.shutdown()
    gateway.proc.stdin.close()
    gateway.proc.wait(limits.CLASS_ARCHIVE_BUILD_SECONDS_MAX)
    return classpath, arguments


def main() -> None:
    """Build the archive at low priority and within a time limit."""
    os.nice(19)
    java = find_java()
    signal.signal(signal.SIGALRM, lambda *_: _end(java))
    signal.setitimer(signal.ITIMER_REAL, limits.CLASS_ARCHIVE_BUILD_SECONDS_MAX)
    try:
        build_class_archive(java)
    except (OmnigraphError, OSError, subprocess.SubprocessError):
        _mark_failed(java)


def _end(java: Java) -> None:
    """Kill this process and all that it started: a session that hangs cannot be stopped otherwise."""
    _mark_failed(java)
    if os.getpgrp() == os.getpid():
        os.killpg(0, signal.SIGKILL)
    os._exit(1)


def _mark_failed(java: Java) -> None:
    with suppress(OSError):
        class_archive(java).path.with_suffix(".failed").touch()


if __name__ == "__main__":
    main()
