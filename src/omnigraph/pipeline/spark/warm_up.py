"""Runs the first job on a new warm server, so that the next command does not wait for it.

`python -m omnigraph.pipeline.spark.warm_up`, run by the package itself. It shows that the server accepts its user, and
loads into the Python workers what tasks use. Ends with an error if the server is not usable.
"""

from __future__ import annotations

import os

from omnigraph.pipeline.spark.runner import SparkRunner
from omnigraph.pipeline.spark.warm_server import warm_session


def load_packages(_: int) -> int:
    """Import what tasks use."""
    from omnigraph.storage.lance import dataset

    return len(dataset.__name__)


def main() -> None:
    """Run one small task on every core."""
    session = warm_session({})
    if session is None:
        raise SystemExit("the warm Spark server does not respond")
    SparkRunner(session=session)(load_packages, range(os.cpu_count() or 1))


if __name__ == "__main__":
    main()
