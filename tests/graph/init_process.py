"""A process that creates a graph: `python -m tests.graph.init_process URI OPTIONS`; prints an error's code, or `made`.

Failpoints come through the environment.
"""

from __future__ import annotations

import json
import sys

from omnigraph.api.graph import OpenOptions, init
from omnigraph.base.errors import OmnigraphError
from tests.graph.writers import SCHEMA


def main(uri: str, options: str) -> None:
    try:
        init(uri, SCHEMA, options=OpenOptions(json.loads(options), "child"))
    except OmnigraphError as error:
        sys.stdout.write(error.code)
    else:
        sys.stdout.write("made")


if __name__ == "__main__":
    main(*sys.argv[1:])
