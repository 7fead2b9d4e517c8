"""The format stamp: whether this release may read a graph, and how an older one is brought up to date.

`decide_stamp` is pure. The rules of this release are `FORMAT`; tests pass others. Reads of an older graph change
nothing; the first write migrates that branch in place, one step at a time, and each step is safe to repeat.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Final

from omnigraph.base.errors import Fact, FormatError
from omnigraph.base.failpoints import Failpoint, failpoint
from omnigraph.base.version import INTERNAL_SCHEMA_VERSION
from omnigraph.storage.lance.commit import commit_schema_metadata
from omnigraph.storage.lance.dataset import Dataset

STAMP_KEY: Final = "omnigraph:internal_schema_version"
ROOT_KEY: Final = "omnigraph:root_uri"

MigrationStep = Callable[[Dataset], Dataset]
"""Takes the manifest at one stamp and brings its contents to the next; the stamp itself is written after it."""


@dataclass(frozen=True, slots=True)
class Format:
    """What a release knows: its own stamp, and a step from each older stamp that it still supports."""

    current: int
    steps: tuple[MigrationStep, ...] = ()

    @property
    def oldest(self) -> int:
        """The lowest stamp this release can open; the first step starts there."""
        return self.current - len(self.steps)


FORMAT: Final = Format(current=INTERNAL_SCHEMA_VERSION)


class StampVerdict(Enum):
    """What a stamp means for this release."""

    CURRENT = "current"
    MIGRATABLE = "migratable"
    TOO_NEW = "too_new"
    TOO_OLD = "too_old"


def decide_stamp(stamp: int, rules: Format) -> StampVerdict:
    """Judge a stamp."""
    if stamp > rules.current:
        return StampVerdict.TOO_NEW
    if stamp < rules.oldest:
        return StampVerdict.TOO_OLD
    return StampVerdict.CURRENT if stamp == rules.current else StampVerdict.MIGRATABLE


def read_stamp(manifest: Dataset, rules: Format = FORMAT) -> int:
    """The stamp of an open manifest; raise `FormatError` if this release must not read it."""
    text = manifest.metadata.get(STAMP_KEY)
    if text is None:
        raise FormatError(
            f"{manifest.uri} is a Lance dataset without a format stamp, so it is no graph's manifest",
            code="stamp_missing",
            hint="check the path; `omnigraph init` makes a new graph",
            facts={"uri": manifest.uri},
        )
    if not text.isascii() or not text.isdecimal():
        raise FormatError(
            f"{manifest.uri} is damaged: its format stamp is '{text}', which is no number",
            code="stamp_malformed",
            hint="restore the graph's directory from a backup",
            facts={"uri": manifest.uri, "stamp": text},
        )
    stamp = int(text)
    facts: dict[str, Fact] = {
        "uri": manifest.uri,
        "stamp": stamp,
        "supported_min": rules.oldest,
        "supported_max": rules.current,
    }
    match decide_stamp(stamp, rules):
        case StampVerdict.TOO_NEW:
            raise FormatError(
                f"the graph has format {stamp} and this omnigraph knows at most {rules.current}",
                code="stamp_too_new",
                hint="upgrade omnigraph first",
                facts=facts,
            )
        case StampVerdict.TOO_OLD:
            raise FormatError(
                f"the graph has format {stamp} and this omnigraph reads {rules.oldest} to {rules.current}",
                code="stamp_too_old",
                hint="export it with the omnigraph that created it, then `omnigraph init` and `omnigraph load` with "
                "this one; data, vectors and blobs are kept, history and branches are not",
                facts=facts,
            )
        case StampVerdict.CURRENT | StampVerdict.MIGRATABLE:
            return stamp


def migrate_manifest(manifest: Dataset, rules: Format = FORMAT) -> Dataset:
    """Bring a manifest to the current stamp, step by step; a no-op when it is there already.

    The caller holds the branch's lease. After a crash the stamp says which steps are done; the step that was under way
    is repeated.
    """
    stamp_before = read_stamp(manifest, rules)
    for stamp in range(stamp_before, rules.current):
        failpoint(Failpoint.MIGRATE_BEFORE)
        migrated = rules.steps[stamp - rules.oldest](manifest)
        failpoint(Failpoint.STAMP_BEFORE)
        manifest = commit_schema_metadata(migrated, {STAMP_KEY: str(stamp + 1)})
    return manifest
