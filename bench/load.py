"""Compares load, merge and export of large files with plain programs that do the same without checks.

There is one warm session, and each round runs each program once, so that a busy machine slows all of them. At the end
the rows of all programs are compared. `python -m bench load` also runs the loads of `bench.load_shell`.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import lance

import omnigraph
from bench.generate import SCHEMA, graph_file, people_file
from bench.harness import Ratio, compare, median_seconds, sized
from bench.load_baselines import (
    assert_equal_rows,
    assert_equal_tables,
    merge_with_lance,
    parse,
    read_with_duckdb,
    tables_of_duckdb,
    tables_of_graph,
    tables_of_lance,
    write_lance,
    write_with_pyarrow,
)
from bench.load_shell import shell_ratios
from omnigraph.pipeline.spark.session import spark_session

LINES: Final = sized(2_000_000, 50_000)
ROUNDS: Final = sized(3, 1)
OVERLAP_PART: Final = 10


@dataclass(slots=True)
class OutputPaths:
    """A new output path for each run of each program."""

    folder: Path
    numbers: dict[str, int] = field(default_factory=dict)

    def new(self, name: str) -> Path:
        """Return the path of the next run of a program."""
        self.numbers[name] = self.numbers.get(name, -1) + 1
        return self.last(name)

    def last(self, name: str) -> Path:
        """Return the path of the last run of a program."""
        return self.folder / f"{name}-{self.numbers[name]}"


def load_ratios(folder: Path, lines: int = LINES, rounds: int = ROUNDS) -> list[Ratio]:
    """Return the ratios of load and export of one file."""
    file = graph_file(lines)
    outputs = OutputPaths(folder)
    empty = [omnigraph.init(str(folder / f"{number}.omni"), SCHEMA) for number in range(rounds + 1)]
    loaded: list[omnigraph.Graph] = []

    def load() -> None:
        loaded.append(empty.pop())
        loaded[-1].load(file)

    def export() -> None:
        loaded[-1].export(outputs.new("export.ndjson"))

    def write() -> None:
        folder = outputs.new("plain")
        folder.mkdir()
        write_with_pyarrow(file, folder)

    def read() -> None:
        read_with_duckdb(file, outputs.new("duckdb"))

    actions: dict[str, Callable[[], None]] = {
        "load": load,
        "pyarrow and Lance": write,
        "DuckDB": read,
        "export": export,
    }
    times = median_seconds(actions, rounds)
    ours = tables_of_graph(loaded[-1])
    assert_equal_tables(ours, tables_of_lance(outputs.last("plain")))
    assert_equal_tables(ours, tables_of_duckdb(outputs.last("duckdb")))
    assert_equal_tables(ours, parse(outputs.last("export.ndjson")))
    name = f"load of {lines:,} lines"
    return [
        compare(f"{name} over pyarrow and Lance", times, ("load", "pyarrow and Lance"), 2.0, lines),
        compare(f"{name} over DuckDB", times, ("load", "DuckDB"), 1.2, lines),
        compare("export over load", times, ("export", "load"), 1.0),
    ]


def merge_ratios(folder: Path, lines: int = LINES, rounds: int = ROUNDS) -> list[Ratio]:
    """Return the ratios of a merge of half as many rows as the table has; one in ten exists in the table."""
    overlap = lines // 2 // OVERLAP_PART
    file = people_file(range(lines - overlap, lines - overlap + lines // 2))
    graph, plain = folder / "base.omni", folder / "base.lance"
    everyone = people_file(range(lines))
    omnigraph.init(str(graph), SCHEMA).load(everyone)
    write_lance(parse(everyone).person, plain)
    outputs = OutputPaths(folder)
    copies = {
        name: [_copy_with_links(base, outputs.new(name)) for _ in range(rounds + 1)]
        for name, base in (("file", graph), ("frame", graph), ("lance", plain), ("rows", plain))
    }
    rows = parse(file).person

    actions: dict[str, Callable[[], object]] = {
        "load": lambda: omnigraph.open(str(copies["file"].pop())).load(file, mode="merge"),
        "pyarrow and merge_insert": lambda: merge_with_lance(parse(file).person, copies["lance"].pop()),
        "load of a table": lambda: omnigraph.open(str(copies["frame"].pop())).load(
            rows.drop_columns(["id"]), type="Person", mode="merge"
        ),
        "merge_insert": lambda: merge_with_lance(rows, copies["rows"].pop()),
    }
    times = median_seconds(actions, rounds)
    merged = lance.dataset(folder / "lance-0").to_table()
    for name in ("file", "frame"):
        assert_equal_rows(tables_of_graph(omnigraph.open(str(folder / f"{name}-0"))).person, merged)
    name = f"merge of {lines // 2:,} rows into {lines:,}"
    return [
        compare(f"{name} over merge_insert of the parsed file", times, ("load", "pyarrow and merge_insert"), 2.0),
        compare(f"{name}, from a table, over merge_insert", times, ("load of a table", "merge_insert"), 1.6),
        compare(f"{name} over merge_insert alone", times, ("load", "merge_insert"), None),
    ]


def _copy_with_links(base: Path, copy: Path) -> Path:
    """Copy a directory with hard links to its files, which are never changed."""
    shutil.copytree(base, copy, copy_function=os.link)
    return copy


def run(folder: Path) -> list[Ratio]:
    """Return the ratios of loads, of merges, and of loads from the shell."""
    session = spark_session()
    omnigraph.init(str(folder / "warm.omni"), SCHEMA).load(graph_file(1_000))
    (folder / "load").mkdir()
    ratios = load_ratios(folder / "load")
    shutil.rmtree(folder / "load")
    (folder / "merge").mkdir()
    ratios += merge_ratios(folder / "merge")
    shutil.rmtree(folder / "merge")
    session.stop()
    return [*ratios, *shell_ratios(folder)]
