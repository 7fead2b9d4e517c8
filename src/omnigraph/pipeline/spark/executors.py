"""Makes sure that the executors of a cluster can run our tasks.

In: a session. Local executors use this Python. For others one small job per session asks for their packages: this
package is sent if it is missing or of another version; Lance and other native packages must be installed, and a missing
one is an error before any work starts. Writes only the zip file of this package in the cache directory.
"""

from __future__ import annotations

import json
import os
import sys
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakSet

from omnigraph.base import limits
from omnigraph.base.paths import cache_directory, package_directory
from omnigraph.base.progress import ignore_progress
from omnigraph.pipeline.spark.connect import is_on_this_machine, is_private
from omnigraph.pipeline.spark.job import JobProgress, run_job
from omnigraph.pipeline.spark.task_errors import executors_lack
from omnigraph.pipeline.spark.warm_state import installation
from omnigraph.storage.settings import StorageSettings, allow_sending_secrets, read_settings

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

_REQUIRED_PACKAGES: Final = ("lance", "obstore", "msgspec")
_ready: Final[WeakSet[Any]] = WeakSet()


def prepare_executors(session: SparkSession) -> None:
    """Send this package where it is missing; raise if tasks cannot run. Decides whether secrets are sent too."""
    allow_sending_secrets(is_private(session))
    if session in _ready or is_on_this_machine(session):
        return
    frame = session.range(0, limits.EXECUTOR_PROBES, 1, numPartitions=limits.EXECUTOR_PROBES).mapInArrow(
        _make_probe(_REQUIRED_PACKAGES), "report string"
    )
    table = run_job(session, frame.toArrow, JobProgress("prepare executors", 0, ignore_progress))
    reports = [json.loads(row["report"]) for row in table.to_pylist()]
    for package in _REQUIRED_PACKAGES:
        if any(package in report["missing"] for report in reports):
            raise executors_lack(package)
    version = vars(sys.modules["omnigraph"])["__version__"]  # the layers forbid an import of the package itself here
    if any(report["version"] != version for report in reports):
        session.addArtifacts(str(pack_package()), pyfile=True)
    _ready.add(session)


def settings_for(session: SparkSession) -> StorageSettings:
    """Return the storage settings of this process, as each task sends them to the executors of the session."""
    return read_settings(by_name=not is_private(session))


def assume_ready(session: SparkSession) -> None:
    """Mark the executors of this session as ready: they use this installation."""
    _ready.add(session)


def pack_package() -> Path:
    """Return the package as an importable zip file, created once for each state of its files."""
    root = package_directory()
    path = cache_directory() / "spark" / f"omnigraph-{installation()}.zip"
    if not path.exists():
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        draft = path.with_name(f"{path.name}.{os.getpid()}")
        with zipfile.ZipFile(draft, "w", zipfile.ZIP_DEFLATED) as archive:
            for file in sorted(root.rglob("*")):
                if file.is_file() and file.suffix != ".pyc":
                    archive.write(file, Path("omnigraph", file.relative_to(root)))
        draft.replace(path)
    return path


def _make_probe(required: tuple[str, ...]) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return a function that is pickled by value, because executors may lack this module: it uses nothing else."""

    def probe(batches: Iterator[Any]) -> Iterator[Any]:
        import importlib
        import importlib.util
        import json

        import pyarrow

        for _ in batches:
            missing = [name for name in required if importlib.util.find_spec(name) is None]
            is_installed = importlib.util.find_spec("omnigraph") is not None
            version = importlib.import_module("omnigraph").__version__ if is_installed else None
            report = json.dumps({"missing": missing, "version": version})
            yield pyarrow.RecordBatch.from_arrays([pyarrow.array([report])], ["report"])

    return probe
