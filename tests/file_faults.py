"""Failing disks for tests: a library that makes the k-th write or fsync fail, and functions to use it.

`built_library` compiles `file_faults.c` once per test process. A process that was started with it in `LD_PRELOAD` calls
`arm`. Without a compiler, tests try several limits of the file size instead, which `limit_file_size` sets.
"""

from __future__ import annotations

import ctypes
import resource
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path
from typing import Final

_SOURCE: Final = Path(__file__).with_name("file_faults.c")


@cache
def built_library() -> Path | None:
    """Compile the library; return None without a compiler."""
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        return None
    target = Path(tempfile.mkdtemp(prefix="og-faults-")) / "file_faults.so"
    subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-o", target, _SOURCE], check=True)
    return target


def arm(root: str, *, write: int = 0, sync: int = 0, is_permanent: bool = False) -> None:
    """Count writes and syncs below `root` and make one of each fail; with `is_permanent`, also all later ones."""
    ctypes.CDLL(None).faults_arm(root.encode(), ctypes.c_long(write), ctypes.c_long(sync), ctypes.c_int(is_permanent))


def counted() -> tuple[int, int]:
    """Return the number of writes and syncs since `arm`."""
    library = ctypes.CDLL(None)
    library.faults_writes.restype = library.faults_syncs.restype = ctypes.c_long
    return library.faults_writes(), library.faults_syncs()


def limit_file_size(size_bytes: int) -> None:
    """Limit the size of every file that this process writes."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (size_bytes, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))
