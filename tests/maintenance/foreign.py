"""A foreign tool: `python -m tests.maintenance.foreign` changes tables with plain Lance and knows nothing of Omnigraph.

It is one process for many requests, a line of JSON each: a path, a Lance branch and the name of what to do.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from datetime import timedelta
from typing import Any, Final

import lance
import pyarrow as pa


def _rows(dataset: Any, rows: dict[str, int]) -> pa.Table:
    columns = [
        pa.array(list(rows.values()), field.type)
        if field.type == pa.int64()
        else pa.array(list(rows), field.type)
        for field in dataset.schema
    ]
    return pa.Table.from_arrays(columns, schema=dataset.schema)


def append(dataset: Any) -> None:
    dataset.insert(_rows(dataset, {"f1": 1, "f2": 2}))


def duplicate(dataset: Any) -> None:
    """Lance does not mind two rows with one key."""
    dataset.insert(_rows(dataset, {"a": 1}))


def delete(dataset: Any) -> None:
    dataset.delete("id = 'a'")


def update(dataset: Any) -> None:
    dataset.update({"age": "99"}, where="id = 'a'")


def merge_insert(dataset: Any) -> None:
    rows = _rows(dataset, {"a": 5, "f": 6})
    dataset.merge_insert("id").when_matched_update_all().when_not_matched_insert_all().execute(rows)


def overwrite(dataset: Any) -> None:
    lance.write_dataset(_rows(dataset, {"a": 7, "z": 8}), dataset, mode="overwrite")


def compaction(dataset: Any) -> None:
    assert dataset.optimize.compact_files().fragments_removed > 1


def index(dataset: Any) -> None:
    dataset.create_scalar_index("age", "BTREE", replace=True)


def restore(dataset: Any) -> None:
    """Back to the version before the published one."""
    dataset.checkout_version(dataset.version - 1).restore()


def add_column(dataset: Any) -> None:
    dataset.add_columns({"extra": "1"})


def rename_column(dataset: Any) -> None:
    dataset.alter_columns({"path": "age", "name": "years"})


def drop_column(dataset: Any) -> None:
    dataset.drop_columns(["age"])


def cast_column(dataset: Any) -> None:
    dataset.alter_columns({"path": "age", "data_type": pa.int32()})


def nullable_key(dataset: Any) -> None:
    dataset.alter_columns({"path": "slug", "nullable": True})


def update_config(dataset: Any) -> None:
    dataset.update_config({"lance.auto_cleanup.interval": "20", "lance.auto_cleanup.older_than": "14d"})


def greedy_config(dataset: Any) -> None:
    """Every commit from now on may collect whatever is old."""
    dataset.update_config({"lance.auto_cleanup.interval": "1", "lance.auto_cleanup.older_than": "0s"})


def collected(dataset: Any) -> None:
    """Three appends, and the version in the middle is collected."""
    for number in (1, 2, 3):
        dataset.insert(_rows(dataset, {f"f{number}": number}))
    gone = dataset.version - 1
    dataset.cleanup_old_versions(older_than=timedelta(0), versions=[gone], delete_unverified=True)
    assert gone not in {found["version"] for found in dataset.versions()}


def collect_all(dataset: Any) -> None:
    """Everything but the newest version is collected."""
    dataset.cleanup_old_versions(older_than=timedelta(0), delete_unverified=True)
    assert len(dataset.versions()) == 1


def many_fragments(dataset: Any) -> None:
    for number in range(40):
        dataset.insert(_rows(dataset, {f"m{number}": number}))


def fork(dataset: Any) -> None:
    """A Lance branch, and one that was made from it, such as a deleted graph branch leaves."""
    dataset.create_branch("g-dead-1").create_branch("g-dead-2")


def everything(dataset: Any) -> None:
    """A few things in a row, with one that is undone on the way."""
    append(dataset)
    before = dataset.version
    delete(dataset)
    dataset.checkout_version(before).restore()
    dataset.checkout_latest()
    update(dataset)
    compaction(dataset)


ACTS: Final[dict[str, Callable[[Any], None]]] = {
    act.__name__: act
    for act in (
        append,
        duplicate,
        delete,
        update,
        merge_insert,
        overwrite,
        compaction,
        index,
        restore,
        add_column,
        rename_column,
        drop_column,
        cast_column,
        nullable_key,
        update_config,
        greedy_config,
        collected,
        collect_all,
        many_fragments,
        fork,
        everything,
    )
}


def serve() -> None:
    for line in sys.stdin:
        request = json.loads(line)
        place = request["path"] + (f"/tree/{request['branch']}" if request["branch"] else "")
        answer = "done"
        try:
            ACTS[request["act"]](lance.dataset(place, storage_options=request["options"] or None))
        except (AssertionError, OSError, RuntimeError, ValueError) as error:
            # The test that asked is told, and the next one is served.
            answer = repr(error).replace("\n", " ")
        sys.stdout.write(f"{answer}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    serve()
