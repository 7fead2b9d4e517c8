"""Makes sure that the executors of a cluster can run our tasks.

Local executors share this Python. Elsewhere one small job asks each what it has: this package is sent along when it is
missing there or of another version; Lance and pyarrow are native code and must be installed, which is said in one
sentence before any work begins. Asked once for each session.
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
from omnigraph.base.progress import report_nothing
from omnigraph.pipeline.spark.connect import is_on_this_machine, is_private
from omnigraph.pipeline.spark.job import Watch, run_job
from omnigraph.pipeline.spark.task_errors import executors_lack
from omnigraph.pipeline.spark.warm_state import installation
from omnigraph.storage.settings import StorageSettings, allow_sending_secrets, read_settings

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

_NEEDED: Final = ("lance", "obstore", "msgspec")
_ready: Final[WeakSet[Any]] = WeakSet()


def prepare_executors(session: SparkSession) -> None:
    """Send the package where it is missing; raise where it could not work. From here on secrets travel or not."""
    allow_sending_secrets(is_private(session))
    if session in _ready or is_on_this_machine(session):
        return
    frame = session.range(0, limits.EXECUTOR_PROBES, 1, numPartitions=limits.EXECUTOR_PROBES).mapInArrow(
        _make_probe(_NEEDED), "found string"
    )
    answers = run_job(session, frame.toArrow, Watch("prepare executors", 0, report_nothing))
    found = [json.loads(row["found"]) for row in answers.to_pylist()]
    for package in _NEEDED:
        if any(package in answer["missing"] for answer in found):
            raise executors_lack(package)
    if any(answer["version"] != _version() for answer in found):
        session.addArtifacts(str(pack_package()), pyfile=True)
    _ready.add(session)


def settings_for(session: SparkSession) -> StorageSettings:
    """The storage settings of this process, as they travel with each task to the executors of the session."""
    return read_settings(by_name=not is_private(session))


def assume_ready(session: SparkSession) -> None:
    """The executors of this session are known to run this very installation."""
    _ready.add(session)


def pack_package() -> Path:
    """The package as a zip file that Python can import, made once for each state of its files."""
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


def _version() -> str:
    # The package itself stands above this room, which may not import it.
    return str(vars(sys.modules["omnigraph"])["__version__"])


def _make_probe(needed: tuple[str, ...]) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Sent as it is, because the executors may not have this module: it uses nothing from outside itself."""

    def probe(batches: Iterator[Any]) -> Iterator[Any]:
        import importlib
        import importlib.util
        import json

        import pyarrow

        for _ in batches:
            missing = [name for name in needed if importlib.util.find_spec(name) is None]
            has_ours = importlib.util.find_spec("omnigraph") is not None
            version = importlib.import_module("omnigraph").__version__ if has_ours else None
            answer = json.dumps({"missing": missing, "version": version})
            yield pyarrow.RecordBatch.from_arrays([pyarrow.array([answer])], ["found"])

    return probe
