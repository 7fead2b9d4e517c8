"""Packs of tasks: each task can be read again, and many similar tasks are hardly larger than one."""

from __future__ import annotations

import pickle
import random

import pytest

from omnigraph.pipeline.spark.runner import TASKS_PER_PACK, pack_tasks, unpack_task


@pytest.mark.parametrize("count", [1, TASKS_PER_PACK, TASKS_PER_PACK + 1, 5 * TASKS_PER_PACK - 1])
def test_each_task_is_unpacked(count: int) -> None:
    tasks = [("task", number) for number in range(count)]
    packs = pack_tasks(tasks)
    assert [unpack_task(packs, number) for number in range(count)] == tasks


def test_many_similar_tasks_are_small() -> None:
    shape = random.Random(1).randbytes(100_000)
    tasks = [(number, shape) for number in range(500)]
    size = sum(len(pickle.dumps(task)) for task in tasks)
    assert sum(map(len, pack_tasks(tasks))) < size / 30
