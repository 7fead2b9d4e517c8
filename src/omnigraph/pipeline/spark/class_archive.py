"""The class-data archive: Spark's classes in the JVM's memory format, so that it need not load and verify them.

It halves the CPU time of a start. There is one file per Java, Spark and set of flags, in the cache directory. The JVM
of the second local session without one writes it when it ends. The JVM writes the header last: a file without one is
incomplete and is not used. The JVM ignores an archive that does not match, so it can only make a start faster.
"""

from __future__ import annotations

import hashlib
import os
from contextlib import suppress
from pathlib import Path
from typing import Final

from omnigraph.base import limits
from omnigraph.base.clock import SYSTEM_CLOCK
from omnigraph.base.paths import cache_directory
from omnigraph.pipeline.spark.java import Java
from omnigraph.pipeline.spark.jvm import START_FLAGS

SWITCH: Final = "OMNIGRAPH_CLASS_ARCHIVE"  # `off`: never create an archive


def archive_path(java: Java) -> Path:
    """Return the location of the archive for this Java, the installed Spark and the flags of our JVMs."""
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
    return cache_directory() / "spark" / f"classes-{pyspark.__version__}-{key}.jsa"


def flags_to_use(archive: Path) -> tuple[str, ...]:
    """Return the flags with which a JVM uses the archive; none if it is missing or incomplete.

    A JVM that dies from a damaged archive writes its report next to it, not into the user's directory.
    """
    try:
        with archive.open("rb") as file:
            is_complete = file.read(4) not in (b"", bytes(4))
    except OSError:
        return ()
    report = archive.with_name("jvm-error-%p.log")
    return (f"-XX:SharedArchiveFile={archive}", f"-XX:ErrorFile={report}") if is_complete else ()


def flags_to_write(archive: Path) -> tuple[str, ...]:
    """Count a start without the archive; from the second on, return the flags with which the JVM writes it.

    If that JVM is killed, another one tries a day later: the flags make its own start slower. With
    `-XX:+AutoCreateSharedArchive`, a Java that does not accept the archive would write it again each time.
    """
    if os.environ.get(SWITCH) == "off":
        return ()
    starts, attempt = archive.with_suffix(".starts"), archive.with_suffix(".attempt")
    with suppress(OSError):
        archive.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with starts.open("ab") as count:
            count.write(b".")
        retry_time = attempt.stat().st_mtime + limits.CLASS_ARCHIVE_RETRY_SECONDS if attempt.exists() else 0.0
        if starts.stat().st_size >= limits.CLASS_ARCHIVE_STARTS_MIN and SYSTEM_CLOCK.now_us() / 1e6 >= retry_time:
            attempt.touch()
            return (f"-XX:ArchiveClassesAtExit={archive}",)
    return ()
