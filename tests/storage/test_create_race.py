"""Of two concurrent creators of a dataset one succeeds, and its rows are kept."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Final

import pyarrow as pa

from omnigraph.storage.errors import DatasetExistsError
from omnigraph.storage.lance.dataset import create_dataset, open_dataset
from omnigraph.storage.location import Location

ROUNDS: Final = 20


def test_one_of_two_creators_succeeds(store_location: Location) -> None:
    rounds = ROUNDS if store_location.is_local else 4
    with ThreadPoolExecutor(2) as pool:
        for number in range(rounds):
            location, start = store_location.child(str(number)), threading.Barrier(2)

            def create(name: str, location: Location = location, start: threading.Barrier = start) -> str | None:
                start.wait()
                try:
                    create_dataset(location, pa.table({"id": [name]}))
                except DatasetExistsError:
                    return None
                return name

            winners = [name for name in pool.map(create, ["a", "b"]) if name is not None]
            dataset = open_dataset(location)
            assert dataset.version == 1
            assert dataset.read().column("id").to_pylist() == winners
