"""Create a graph in a process: `python -m tests.graph.init_process URI OPTIONS [BOOT_ID]`.

It prints the code of an error, or `made`. BOOT_ID: run as on a machine with the same names that was booted
separately. Failpoints are set in the environment.
"""

from __future__ import annotations

import json
import sys

from msgspec.structs import replace

from omnigraph.base.errors import OmnigraphError
from omnigraph.base.process import current_process
from omnigraph.graph.create import NewGraph, create_graph
from omnigraph.schema.build import build_catalog
from omnigraph.schema.parser import parse_schema
from omnigraph.storage.location import parse_location
from tests.graph.writers import SCHEMA


def main(uri: str, options: str, boot_id: str = "") -> None:
    me = current_process()
    new = NewGraph(SCHEMA, build_catalog(parse_schema(SCHEMA, "s")), "child")
    try:
        create_graph(parse_location(uri, json.loads(options)), new, replace(me, boot_id=boot_id or me.boot_id))
    except OmnigraphError as error:
        sys.stdout.write(error.code)
    else:
        sys.stdout.write("made")


if __name__ == "__main__":
    main(*sys.argv[1:])
