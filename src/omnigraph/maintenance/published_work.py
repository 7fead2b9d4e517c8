"""What of a run's work the published versions have. A foreign change that landed first may have taken its place.

In: the work on each table, and the commit. Out: the work without what is not there, and what that was. Content is the
same either way, because recovery publishes nothing else; this is so that what a run reports is true. Reads only.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor

from omnigraph.base.errors import OmnigraphError
from omnigraph.base.events import log_event
from omnigraph.graph.records import CommitRecord, Pin
from omnigraph.maintenance.table_work import TableWork, is_in_place
from omnigraph.pipeline.runner import maintenance_concurrency
from omnigraph.storage.commit import has_auto_cleanup
from omnigraph.storage.coverage import read_indexes
from omnigraph.storage.fragments import read_fragment_files
from omnigraph.storage.indexes import IndexSpec

logger = logging.getLogger("omnigraph.maintenance")


def keep_published(works: Mapping[str, TableWork], commit: CommitRecord) -> Mapping[str, list[IndexSpec]]:
    """Take out of the work on each table what its published version lacks; the tables that lost something by alias,
    each with its lost indexes.
    """
    pins = {move.table: move.after for move in commit.tables}

    def look(entry: tuple[str, TableWork]) -> tuple[str, list[IndexSpec] | None]:
        alias, work = entry
        try:
            return alias, _keep(work, pins.get(work.target.table.id))
        except OmnigraphError as error:
            sentence = f"{alias} is published and could not be looked at again: {error.message}"
            log_event(logger, sentence, level=logging.WARNING, table=alias, code=error.code)
            return alias, None

    with ThreadPoolExecutor(maintenance_concurrency()) as threads:
        return {alias: lost for alias, lost in threads.map(look, works.items()) if lost is not None}


def _keep(work: TableWork, pin: Pin | None) -> list[IndexSpec] | None:
    """The lost indexes, empty when only groups or the strip are lost; None when everything is there."""
    if pin is None:
        lost = list(work.built)
        work.groups, work.strip, work.built = (), False, {}
        return lost
    table = work.target.dataset.at(pin.version)
    fragments = read_fragment_files(table)
    parts = frozenset(part.uuid for index in read_indexes(table) for part in index.parts)
    has_settings = has_auto_cleanup(table)
    groups = tuple(group for group in work.groups if is_in_place(group, fragments))
    lost = [spec for spec, one in work.built.items() if not parts.issuperset(one.uuids)]
    is_whole = len(groups) == len(work.groups) and not lost and not (work.strip and has_settings)
    work.groups, work.strip = groups, work.strip and not has_settings
    for spec in lost:
        del work.built[spec]
    return None if is_whole else lost
