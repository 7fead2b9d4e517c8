"""The format stamp: whether this release may read a graph, and how an older graph is migrated.

In: an open manifest and the storage format of a release (`FORMAT`; tests pass others). Out: its stamp, or an error. A
read of an older graph changes nothing. The first write migrates that branch in place, one step at a time. Each step can
be repeated after a crash.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from omnigraph.base.errors import Fact, FormatError
from omnigraph.base.failpoints import Failpoint, failpoint
from omnigraph.base.hints import action, hint
from omnigraph.base.version import INTERNAL_SCHEMA_VERSION
from omnigraph.storage.lance.dataset import Dataset

STAMP_KEY: Final = "omnigraph:internal_schema_version"
ROOT_KEY: Final = "omnigraph:root_uri"

MigrationStep = Callable[[Dataset], Dataset]
"""Migrates the content of a manifest from one stamp to the next. The stamp itself is written afterwards."""


@dataclass(frozen=True, slots=True)
class StorageFormat:
    """What a release supports: its own stamp, and a migration step from each older stamp."""

    current: int
    steps: tuple[MigrationStep, ...] = ()

    @property
    def oldest(self) -> int:
        """The lowest stamp that this release can open; the first step starts there."""
        return self.current - len(self.steps)


FORMAT: Final = StorageFormat(current=INTERNAL_SCHEMA_VERSION)


def read_stamp(manifest: Dataset, storage_format: StorageFormat = FORMAT) -> int:
    """Return the stamp of an open manifest; raise `FormatError` if this release must not read it."""
    text = manifest.metadata.get(STAMP_KEY)
    if text is None:
        raise FormatError(
            f"{manifest.uri} is not the manifest of a graph: the Lance dataset has no format stamp",
            code="stamp_missing",
            hint=hint("Check the path, or run {} to create a graph.", action("init")),
            facts={"uri": manifest.uri},
        )
    if not text.isascii() or not text.isdecimal():
        raise FormatError(
            f"{manifest.uri} is damaged: expected a number as format stamp, got '{text}'",
            code="stamp_malformed",
            hint="Restore the directory of the graph from a backup.",
            facts={"uri": manifest.uri, "stamp": text},
        )
    stamp = int(text)
    facts: dict[str, Fact] = {
        "uri": manifest.uri,
        "stamp": stamp,
        "supported_min": storage_format.oldest,
        "supported_max": storage_format.current,
    }
    if stamp > storage_format.current:
        raise FormatError(
            f"the graph has a newer format: expected at most {storage_format.current}, got {stamp}",
            code="stamp_too_new",
            hint="Upgrade omnigraph.",
            facts=facts,
        )
    if stamp < storage_format.oldest:
        raise FormatError(
            f"the graph has an old format: expected {storage_format.oldest} to {storage_format.current}, got {stamp}",
            code="stamp_too_old",
            hint=hint(
                "Export it with the omnigraph that created it, then run {} and {} with this one. Data, vectors and "
                "blobs are kept; history and branches are not.",
                action("init"),
                action("load"),
            ),
            facts=facts,
        )
    return stamp


def record_root(manifest: Dataset, uri: str) -> Dataset:
    """Record where the graph is now, after the references of its branches were rewritten. The caller has the lease."""
    from omnigraph.storage.lance.commit import commit_schema_metadata  # reads do not need it, and start faster

    failpoint(Failpoint.ROOT_BEFORE)
    return commit_schema_metadata(manifest, {ROOT_KEY: uri})


def migrate_manifest(manifest: Dataset, storage_format: StorageFormat = FORMAT) -> Dataset:
    """Migrate a manifest to the current stamp, step by step. Does nothing if it has that stamp.

    The caller holds the lease of the branch. After a crash the stamp says which steps are done; the interrupted step is
    repeated.
    """
    from omnigraph.storage.lance.commit import commit_schema_metadata  # reads do not need it, and start faster

    stamp_before = read_stamp(manifest, storage_format)
    for stamp in range(stamp_before, storage_format.current):
        failpoint(Failpoint.MIGRATE_BEFORE)
        migrated = storage_format.steps[stamp - storage_format.oldest](manifest)
        failpoint(Failpoint.STAMP_BEFORE)
        manifest = commit_schema_metadata(migrated, {STAMP_KEY: str(stamp + 1)})
    return manifest
