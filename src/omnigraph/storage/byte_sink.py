"""Writes plain files and objects: what an export leaves outside of a graph, and its parts before that.

A file appears whole under its name or not at all. On disk it is written under the name of a draft in the same
directory, synced and renamed. For an object store it is written to this machine's disk first and then sent. A killed
process leaves a draft on disk, whose name begins with a dot.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO
from uuid import uuid4

import obstore

from omnigraph.base.effects import announce
from omnigraph.storage.failures import substrate_errors
from omnigraph.storage.location import Location
from omnigraph.storage.objects import open_s3_store, refuse_missing_bucket
from omnigraph.storage.sync import sync_entries, sync_file


@contextmanager
def write_file(location: Location) -> Iterator[BinaryIO]:
    """Something to write to. The file has its name when the block ends; an error in the block leaves nothing."""
    with substrate_errors("write the file", location.uri):
        announce("file.write", location.uri)
        if location.is_local:
            with _draft_on_disk(Path(location.uri), synced=location.is_synced) as draft:
                yield draft
        else:
            with tempfile.TemporaryFile() as draft:
                yield draft
                draft.seek(0)
                folder, name = _parent(location)
                obstore.put(open_s3_store(folder), name, draft)


def move_file(source: Location, target: Location) -> None:
    """Give a file on disk another name on the same disk; a file of that name is replaced."""
    with substrate_errors("rename the file", target.uri):
        announce("file.write", target.uri)
        Path(source.uri).replace(target.uri)
        if target.is_synced:
            sync_entries([Path(target.uri)], Path(target.uri).parent)


def file_exists(location: Location) -> bool:
    """Whether there is a file or an object of this name."""
    with substrate_errors("look for the file", location.uri):
        if location.is_local:
            return Path(location.uri).exists()
        folder, name = _parent(location)
        try:
            obstore.head(open_s3_store(folder), name)
        except FileNotFoundError as missing:
            refuse_missing_bucket(missing)
            return False
        return True


@contextmanager
def _draft_on_disk(path: Path, *, synced: bool) -> Iterator[BinaryIO]:
    draft = path.with_name(f".{path.name}.{uuid4().hex}")
    try:
        with draft.open("xb") as file:
            yield file
        if synced:
            sync_file(draft)
        draft.replace(path)
        if synced:
            sync_entries([path], path.parent)
    finally:
        draft.unlink(missing_ok=True)


def _parent(location: Location) -> tuple[Location, str]:
    folder, _, name = location.uri.rpartition("/")
    return Location(location.scheme, folder, location.options), name
