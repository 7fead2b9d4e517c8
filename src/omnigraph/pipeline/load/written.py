"""Notes about the data files that tasks wrote, for the driver of an interrupted load.

In: fragments that nothing references yet. Out: a note in the scratch directory, from which the driver deletes the files
of a task that returned no part. A task that writes after the end of the load deletes its files itself. A task that is
killed between its files and its note leaves files that `cleanup` deletes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from omnigraph.base.errors import OmnigraphError
from omnigraph.graph.scratch import Scratch
from omnigraph.storage.lance.dataset import Dataset
from omnigraph.storage.lance.delete import delete_data_files, file_names

WRITTEN: Final = "written"
"""The kind of scratch files that are notes."""


class WrittenNote(msgspec.Struct, frozen=True):
    """The content of such a file: the data files that a task wrote for a type."""

    alias: str
    files: list[str]


def note_written(notes: Scratch | None, alias: str, dataset: Dataset, fragments: Sequence[Any]) -> None:
    """Write a note about the files of the fragments; delete the files if that is impossible."""
    if notes is None or not fragments:
        return
    names = file_names(fragments)
    try:
        notes.write(WRITTEN, msgspec.json.encode(WrittenNote(alias, names)))
    except OmnigraphError:
        delete_data_files(dataset, names)
        raise
