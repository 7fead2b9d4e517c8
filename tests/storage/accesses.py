"""The ways to reach a place; as a child process, what each of them meets without the rights of a superuser."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable

from omnigraph.base.errors import OmnigraphError
from omnigraph.storage.dataset import create_dataset, open_dataset
from omnigraph.storage.location import Location, Scheme
from omnigraph.storage.objects import ObjectStore
from tests.storage.samples import people

NOBODY = 65_534

ACCESSES: dict[str, Callable[[Location], object]] = {
    "open": open_dataset,
    "create": lambda location: create_dataset(location, people(["a"])),
    "object read": lambda location: ObjectStore(location).read("a"),
    "object create": lambda location: ObjectStore(location).create("a", b"x"),
    "object list": lambda location: ObjectStore(location).list(""),
    "object folders": lambda location: ObjectStore(location).folders(),
}


def main() -> None:
    place = Location(Scheme.LOCAL, sys.argv[1])
    if os.geteuid() == 0:
        os.setgid(NOBODY)
        os.setuid(NOBODY)
    for name, access in ACCESSES.items():
        try:
            access(place)
        except OmnigraphError as error:
            sys.stdout.write(f"{name}: {error.code}\n")


if __name__ == "__main__":
    main()
