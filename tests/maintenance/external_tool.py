"""An external tool: `python -m tests.maintenance.external_tool` changes tables with plain Lance, without Omnigraph.

One process serves many requests, a line of JSON each: a path, a Lance branch and the name of a change.
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
        pa.array(list(rows.values()), field.type) if field.type == pa.int64() else pa.array(list(rows), field.type)
        for field in dataset.schema
    ]
    return pa.Table.from_arrays(columns, schema=dataset.schema)


def append(dataset: Any) -> None:
    dataset.insert(_rows(dataset, {"f1": 1, "f2": 2}))


def duplicate(dataset: Any) -> None:
    """Insert a second row with the same key, which Lance allows."""
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
    """Restore the version before the published one."""
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
    """From now on every commit may delete old versions."""
    dataset.update_config({"lance.auto_cleanup.interval": "1", "lance.auto_cleanup.older_than": "0s"})


def collected(dataset: Any) -> None:
    """Append three times, and delete the version in the middle."""
    for number in (1, 2, 3):
        dataset.insert(_rows(dataset, {f"f{number}": number}))
    middle = dataset.version - 1
    dataset.cleanup_old_versions(older_than=timedelta(0), versions=[middle], delete_unverified=True)
    assert middle not in {version["version"] for version in dataset.versions()}


def collect_all(dataset: Any) -> None:
    """Delete all versions but the newest."""
    dataset.cleanup_old_versions(older_than=timedelta(0), delete_unverified=True)
    assert len(dataset.versions()) == 1


def many_fragments(dataset: Any) -> None:
    for number in range(40):
        dataset.insert(_rows(dataset, {f"m{number}": number}))


def fork(dataset: Any) -> None:
    """Create a Lance branch and one from it, such as a deleted graph branch leaves."""
    dataset.create_branch("g-dead-1").create_branch("g-dead-2")


def everything(dataset: Any) -> None:
    """Make several changes, and undo one of them."""
    append(dataset)
    before = dataset.version
    delete(dataset)
    dataset.checkout_version(before).restore()
    dataset.checkout_latest()
    update(dataset)
    compaction(dataset)


CHANGES: Final[dict[str, Callable[[Any], None]]] = {
    change.__name__: change
    for change in (
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
        location = request["path"] + (f"/tree/{request['branch']}" if request["branch"] else "")
        answer = "done"
        try:
            CHANGES[request["act"]](lance.dataset(location, storage_options=request["options"] or None))
        except (AssertionError, OSError, RuntimeError, ValueError) as error:
            # Report it to the test that asked, and serve the next one.
            answer = repr(error).replace("\n", " ")
        sys.stdout.write(f"{answer}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    serve()
