"""Ways to access a location; run as a program, prints the error of each without superuser permissions."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable

from omnigraph.base.errors import OmnigraphError
from omnigraph.storage.lance.dataset import create_dataset, open_dataset
from omnigraph.storage.location import Location, Scheme, parse_location
from omnigraph.storage.objects import ObjectStore
from tests.storage.samples import people

NOBODY = 65_534

ACCESSES: dict[str, Callable[[Location], object]] = {
    "open": open_dataset,
    "create": lambda location: create_dataset(location, people(["a"])),
    "object read": lambda location: ObjectStore(location).read("a"),
    "object create": lambda location: ObjectStore(location).create("a", b"x"),
    "object list": lambda location: ObjectStore(location).list(""),
    "object names": lambda location: ObjectStore(location).list_names(),
}


def main() -> None:
    text, *names = sys.argv[1:]
    location = parse_location(text) if "://" in text else Location(scheme=Scheme.LOCAL, uri=text)
    if os.geteuid() == 0:
        os.setgid(NOBODY)
        os.setuid(NOBODY)
    for name in names or ACCESSES:
        try:
            ACCESSES[name](location)
        except OmnigraphError as error:
            sys.stdout.write(f"{name}: {error.code}\n")


if __name__ == "__main__":
    main()
