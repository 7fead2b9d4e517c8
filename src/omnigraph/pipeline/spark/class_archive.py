"""The class-data archive: Spark's classes in the JVM's memory format, so that it need not load and verify them.

It halves the start time of a session. There is one file per Java, Spark and set of flags, in the cache directory. A
background process creates it after the second local session without one. It gets its name when it is complete. A
missing, damaged or changed archive is not used, and the JVM ignores one that does not match: an archive can only make a
start faster.
"""

from __future__ import annotations

import atexit
import hashlib
import json
import os
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from omnigraph.base import limits
from omnigraph.base.clock import SYSTEM_CLOCK
from omnigraph.base.paths import cache_directory
from omnigraph.pipeline.spark.java import Java
from omnigraph.pipeline.spark.jvm import START_FLAGS

SWITCH: Final = "OMNIGRAPH_CLASS_ARCHIVE"  # `off`: never create an archive


@dataclass(frozen=True, slots=True)
class ClassArchive:
    """The location of the archive for one Java and this Spark, whether it exists or not."""

    path: Path

    @property
    def seal(self) -> Path:
        """Return the file with the size and time of the complete archive."""
        return self.path.with_suffix(".seal")

    @property
    def starts(self) -> Path:
        """Return the file with one byte for each session that started without an archive."""
        return self.path.with_suffix(".starts")

    def flags(self) -> tuple[str, ...]:
        """Return the flags that make a JVM use the archive; none if it is missing, damaged or changed."""
        return (f"-XX:SharedArchiveFile={self.path}",) if self.is_whole() else ()

    def is_whole(self) -> bool:
        try:
            return bool(json.loads(self.seal.read_text(encoding="ascii")) == describe_file(self.path))
        except (OSError, ValueError):
            return False

    def discard(self) -> None:
        """Delete the archive."""
        for path in (self.seal, self.path):
            path.unlink(missing_ok=True)


def class_archive(java: Java) -> ClassArchive:
    """Return the archive for this Java, the installed Spark and the flags of our JVMs."""
    import pyspark

    release = java.home / "release"
    parts = (
        str(java.home),
        str(java.version),
        release.read_text(encoding="utf-8", errors="replace") if release.is_file() else "",
        pyspark.__version__,
        str(Path(pyspark.__file__).parent),
        *START_FLAGS,
    )
    key = hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]
    return ClassArchive(cache_directory() / "spark" / f"classes-{pyspark.__version__}-{key}.jsa")


def describe_file(path: Path) -> list[int]:
    """Return the size and time of a file, which change when the file is changed or truncated."""
    status = path.stat()
    return [status.st_size, status.st_mtime_ns]


def build_when_worthwhile(archive: ClassArchive) -> None:
    """Count a start without the archive; from the second on, build it in the background when this process ends."""
    if os.environ.get(SWITCH) == "off":
        return
    with suppress(OSError):
        with archive.starts.open("ab") as count:
            count.write(b".")
        if archive.starts.stat().st_size >= limits.CLASS_ARCHIVE_STARTS_MIN:
            atexit.register(_build_in_background, archive)


def cancel_build() -> None:
    """Do not build an archive when this process ends, because it was interrupted."""
    atexit.unregister(_build_in_background)


def _build_in_background(archive: ClassArchive) -> None:
    """Start a process that outlives this one. A failed build is tried again a day later."""
    failed = archive.path.with_suffix(".failed")
    with suppress(OSError):
        if SYSTEM_CLOCK.now_us() / 1e6 - failed.stat().st_mtime < limits.CLASS_ARCHIVE_RETRY_SECONDS:
            return
    with suppress(OSError):
        subprocess.Popen(
            [sys.executable, "-m", "omnigraph.pipeline.spark.class_archive_build"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd=archive.path.parent,
            start_new_session=True,
        )
