"""The share of long series of cases that `make test` runs: every n-th. `make soak` runs the others.

The cases of a series differ in the time or the target of an event, so a defect shows in many of them. Tests of one file
that run on each kind of store are such a series too: every third one runs on S3. Only `tests/storage`, which defines
what a store is, runs completely.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

import pytest

SHARES: Final[Mapping[str, int]] = {
    "tests/graph/concurrency/test_paused_writer.py": 2,
    "tests/graph/concurrency/test_recovery_interleavings.py": 3,
    "tests/graph/crash/test_kth_write.py": 3,
    "tests/graph/crash/test_failed_calls.py": 2,
    "tests/graph/crash/test_overtaken_writers.py": 2,
    "tests/graph/concurrency/test_s3.py": 2,
    "tests/graph/test_create.py": 2,
    "tests/maintenance/test_schema_apply.py": 2,
    "tests/maintenance/test_schema_steps.py": 17,
    "tests/pipeline/load/test_load_discards.py": 2,
    "tests/pipeline/test_query_spark.py": 3,
    "tests/pipeline/test_query_spark_cli.py": 2,
}


STORES: Final = frozenset({"store_location", "durable_location"})
S3_SHARE: Final = 3


def leave_to_soak(items: Iterable[pytest.Item]) -> None:
    """Mark the tests that `make test` skips."""
    seen: Counter[tuple[str, str]] = Counter()
    for item in items:
        if not isinstance(item, pytest.Function) or not hasattr(item, "callspec"):
            continue
        path = item.nodeid.partition("::")[0]
        for series, share in _series(path, item):
            if seen[series] % share:
                item.add_marker(pytest.mark.soak)
            seen[series] += 1


def _series(path: str, item: pytest.Function) -> Iterator[tuple[tuple[str, str], int]]:
    if path in SHARES:
        yield (path, item.originalname), SHARES[path]
    is_on_s3 = any(item.callspec.params.get(store) == "s3" for store in STORES)
    if is_on_s3 and not path.startswith("tests/storage/"):
        yield (path, "s3"), S3_SHARE
