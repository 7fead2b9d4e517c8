"""The share of long series that `make test` runs: one case of n, by a hash of its id. `make soak` runs the others.

The cases of a series differ in the time or the target of an event, so a defect shows in many of them. Tests of one file
that run on each kind of store are such a series too: one in three runs on S3. Only `tests/storage`, which defines
what a store is, runs completely.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping
from typing import Final

import pytest

SHARES: Final[Mapping[str, int]] = {
    "tests/cluster/test_crashes.py": 4,
    "tests/conformance/test_conformance_spark.py": 24,
    "tests/engine/test_ranked_search.py": 3,
    "tests/graph/concurrency/test_interleavings.py": 2,
    "tests/graph/concurrency/test_paused_writer.py": 3,
    "tests/graph/concurrency/test_recovery_interleavings.py": 4,
    "tests/graph/concurrency/test_s3.py": 4,
    "tests/graph/crash/test_failed_calls.py": 2,
    "tests/graph/crash/test_failing_files.py": 4,
    "tests/graph/crash/test_kth_write.py": 4,
    "tests/graph/crash/test_matrix.py": 2,
    "tests/graph/crash/test_overtaken_writers.py": 2,
    "tests/graph/crash/test_power_cut.py": 2,
    "tests/graph/merge/test_schema_merge.py": 2,
    "tests/graph/test_create.py": 6,
    "tests/maintenance/cleanup/test_cleanup_concurrent.py": 2,
    "tests/maintenance/test_index_deaths.py": 2,
    "tests/maintenance/test_repair.py": 2,
    "tests/maintenance/test_schema_apply.py": 2,
    "tests/maintenance/test_schema_steps.py": 17,
    "tests/pipeline/embed/test_deaths.py": 2,
    "tests/pipeline/load/test_load_discards.py": 2,
    "tests/pipeline/load/test_run.py": 2,
    "tests/pipeline/test_query_spark.py": 6,
    "tests/pipeline/test_query_spark_cli.py": 2,
    "tests/query/test_parser_fuzz.py": 2,
    "tests/schema/test_parser_fuzz.py": 2,
}


STORES: Final = frozenset({"store_location", "durable_location"})
S3_SHARE: Final = 3


def leave_to_soak(items: Iterable[pytest.Item]) -> None:
    """Mark the cases that `make test` skips. It runs at least one case of every test."""
    series: dict[str, list[pytest.Function]] = {}
    for item in items:
        if isinstance(item, pytest.Function) and hasattr(item, "callspec") and not item.get_closest_marker("soak"):
            series.setdefault(item.nodeid.partition("[")[0], []).append(item)
    for cases in series.values():
        skipped = [case for case in cases if _hash(case) % _share(case)]
        if len(skipped) == len(cases):
            skipped.remove(min(cases, key=_hash))
        for case in skipped:
            case.add_marker(pytest.mark.soak)


def _hash(case: pytest.Function) -> int:
    return zlib.crc32(case.nodeid.encode())


def _share(case: pytest.Function) -> int:
    path = case.nodeid.partition("::")[0]
    is_on_s3 = any(case.callspec.params.get(store) == "s3" for store in STORES)
    s3_share = S3_SHARE if is_on_s3 and not path.startswith("tests/storage/") else 1
    return SHARES.get(path, 1) * s3_share
