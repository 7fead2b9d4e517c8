"""Where a job runs: the rule, and that a small job starts no Spark."""

from __future__ import annotations

import subprocess
import sys

import pytest

import omnigraph as og
from omnigraph.base import limits
from omnigraph.base.errors import UsageError
from omnigraph.pipeline.datasource.options import Purpose, read_options
from omnigraph.pipeline.spark.auto import JobSize, RunnerChoice, choose_runner, parse_runner
from tests.waiting import SECONDS_MAX

AUTO, LOCAL, SPARK = RunnerChoice.AUTO, RunnerChoice.LOCAL, RunnerChoice.SPARK
SMALL = JobSize(limits.LOCAL_RUNNER_TASKS_MAX, limits.LOCAL_RUNNER_BYTES_MAX)
MANY_BYTES = JobSize(1, limits.LOCAL_RUNNER_BYTES_MAX + 1)
MANY_TASKS = JobSize(limits.LOCAL_RUNNER_TASKS_MAX + 1)


@pytest.mark.parametrize(
    ("choice", "size", "names_spark", "chosen"),
    [
        (AUTO, SMALL, False, LOCAL),
        (AUTO, SMALL, True, SPARK),
        (AUTO, MANY_BYTES, False, SPARK),
        (AUTO, MANY_TASKS, False, SPARK),
        (LOCAL, MANY_BYTES, False, LOCAL),
        (LOCAL, SMALL, True, LOCAL),
        (SPARK, SMALL, False, SPARK),
        (SPARK, JobSize(0), False, SPARK),
    ],
)
def test_rule(choice: RunnerChoice, size: JobSize, names_spark: bool, chosen: RunnerChoice) -> None:
    assert choose_runner(choice, size, names_spark=names_spark) is chosen


@pytest.mark.parametrize(
    ("name", "environ", "choice"),
    [
        (None, {}, AUTO),
        (None, {"OMNIGRAPH_RUNNER": ""}, AUTO),
        (None, {"OMNIGRAPH_RUNNER": "spark"}, SPARK),
        ("local", {"OMNIGRAPH_RUNNER": "spark"}, LOCAL),
    ],
)
def test_choice_of_the_caller_precedes_the_environment(
    name: str | None, environ: dict[str, str], choice: RunnerChoice
) -> None:
    assert parse_runner(name, environ) is choice


@pytest.mark.parametrize(("name", "source"), [("sparc", "runner"), (None, "OMNIGRAPH_RUNNER")])
def test_unknown_runner_is_rejected(name: str | None, source: str) -> None:
    with pytest.raises(UsageError, match=rf"invalid {source}: expected auto, local or spark, got 'sparc'"):
        parse_runner(name, {"OMNIGRAPH_RUNNER": "sparc"})


def test_graph_in_memory_is_never_used_on_spark() -> None:
    og.init("memory://test-auto/graph.omni", "node N { k: String @key }")
    graph = og.open("memory://test-auto/graph.omni", spark="local[2]")
    graph.load([{"k": "a"}], type="N")
    assert graph.table("N").count_rows() == 1
    assert graph.optimize().runner == "local"
    expected = "Spark cannot use 'memory://test-auto/graph.omni': a graph in memory exists only in this process"
    with pytest.raises(UsageError, match=expected):
        graph.load([{"k": "b"}], type="N", runner="spark")
    with pytest.raises(UsageError, match=expected):
        graph.query("query q() { match { $n: N } return { $n.k } }", runner="spark")
    with pytest.raises(UsageError, match=expected):
        read_options({"uri": "memory://test-auto/graph.omni", "type": "N"}, Purpose.READ)


def test_small_job_does_not_import_pyspark() -> None:
    program = (
        "import sys; from omnigraph.pipeline.spark.auto import AutoRunner; runner = AutoRunner(); "
        "print(runner(abs, [-1]), runner.description, 'pyspark' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=SECONDS_MAX
    )
    assert done.stdout.split() == ["[1]", "local", "False"]
