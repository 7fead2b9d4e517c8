"""Runs the first job on a new warm server, so that the next command does not pay for it.

`python -m omnigraph.pipeline.spark.warm_up`, run by the package itself. It shows that the server lets its user in, and
its Python workers have then loaded what tasks use. Ends with an error when the server cannot be used.
"""

from __future__ import annotations

import os

from omnigraph.pipeline.spark.runner import SparkRunner
from omnigraph.pipeline.spark.warm_server import warm_session


def load_packages(_: int) -> int:
    """A task that does nothing but load what others need."""
    from omnigraph.storage.lance import dataset

    return len(dataset.__name__)


def main() -> None:
    """One small job on every core."""
    session = warm_session({})
    if session is None:
        raise SystemExit("the warm Spark server does not answer")
    SparkRunner(session=session)(load_packages, range(os.cpu_count() or 1))


if __name__ == "__main__":
    main()
