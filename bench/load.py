"""What load, merge and export of large files cost beside plain programs that do the same without any check.

One warm session, and every round runs each program once, so that a busy machine slows all of them. What they wrote is
compared after the first round: the same rows in the same tables. `python -m bench load` also starts the shell's loads.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import lance

import omnigraph
from bench.generate import SCHEMA, graph_file, people_file
from bench.harness import Ratio, compare, median_seconds, report, sized
from bench.load_floors import (
    assert_same,
    assert_same_rows,
    merge_plainly,
    parse,
    read_with_duckdb,
    tables_of_duckdb,
    tables_of_graph,
    tables_of_lance,
    write_lance,
    write_plainly,
)
from bench.load_shell import shell_ratios
from omnigraph.pipeline.spark.session import spark_session

LINES: Final = sized(2_000_000, 50_000)
ROUNDS: Final = sized(3, 1)
OVERLAP_PART: Final = 10


@dataclass(slots=True)
class Places:
    """A new place for each run of each program: what came before it would be in its way."""

    folder: Path
    numbers: dict[str, int] = field(default_factory=dict)

    def new(self, name: str) -> Path:
        """Where the next run of a program writes."""
        self.numbers[name] = self.numbers.get(name, -1) + 1
        return self.last(name)

    def last(self, name: str) -> Path:
        """Where its last run wrote."""
        return self.folder / f"{name}-{self.numbers[name]}"


def load_ratios(folder: Path, lines: int = LINES, rounds: int = ROUNDS) -> list[Ratio]:
    """Load and export of one file."""
    file = graph_file(lines)
    places = Places(folder)
    empty = [omnigraph.init(str(folder / f"{number}.omni"), SCHEMA) for number in range(rounds + 1)]
    loaded: list[omnigraph.Graph] = []

    def load() -> None:
        loaded.append(empty.pop())
        loaded[-1].load(file)

    def export() -> None:
        loaded[-1].export(places.new("export.ndjson"))

    def write() -> None:
        folder = places.new("plain")
        folder.mkdir()
        write_plainly(file, folder)

    def read() -> None:
        read_with_duckdb(file, places.new("duckdb"))

    actions: dict[str, Callable[[], None]] = {
        "load": load,
        "pyarrow and Lance": write,
        "DuckDB": read,
        "export": export,
    }
    times = median_seconds(actions, rounds)
    ours = tables_of_graph(loaded[-1])
    assert_same(ours, tables_of_lance(places.last("plain")))
    assert_same(ours, tables_of_duckdb(places.last("duckdb")))
    assert_same(ours, parse(places.last("export.ndjson")))
    name = f"load of {lines:,} lines"
    return [
        compare(f"{name} over pyarrow and Lance", times, ("load", "pyarrow and Lance"), 2.0, lines),
        compare(f"{name} over DuckDB", times, ("load", "DuckDB"), 1.3, lines),
        compare("export over load", times, ("export", "load"), 1.0),
    ]


def merge_ratios(folder: Path, lines: int = LINES, rounds: int = ROUNDS) -> list[Ratio]:
    """A merge of half as many rows as the table has, one in ten of which it has already."""
    overlap = lines // 2 // OVERLAP_PART
    file = people_file(range(lines - overlap, lines - overlap + lines // 2))
    graph, plain = folder / "base.omni", folder / "base.lance"
    everyone = people_file(range(lines))
    omnigraph.init(str(graph), SCHEMA).load(everyone)
    write_lance(parse(everyone).person, plain)
    places = Places(folder)
    copies = {
        name: [_linked(base, places.new(name)) for _ in range(rounds + 1)]
        for name, base in (("file", graph), ("frame", graph), ("lance", plain), ("rows", plain))
    }
    rows = parse(file).person

    actions: dict[str, Callable[[], object]] = {
        "load": lambda: omnigraph.open(str(copies["file"].pop())).load(file, mode="merge"),
        "pyarrow and merge_insert": lambda: merge_plainly(parse(file).person, copies["lance"].pop()),
        "load of a table": lambda: omnigraph.open(str(copies["frame"].pop())).load(
            rows.drop_columns(["id"]), type="Person", mode="merge"
        ),
        "merge_insert": lambda: merge_plainly(rows, copies["rows"].pop()),
    }
    times = median_seconds(actions, rounds)
    merged = lance.dataset(folder / "lance-0").to_table()
    for name in ("file", "frame"):
        assert_same_rows(tables_of_graph(omnigraph.open(str(folder / f"{name}-0"))).person, merged)
    name = f"merge of {lines // 2:,} rows into {lines:,}"
    return [
        compare(
            f"{name} over merge_insert of the parsed file", times, ("load", "pyarrow and merge_insert"), 2.0
        ),
        compare(f"{name}, from a table, over merge_insert", times, ("load of a table", "merge_insert"), 2.0),
        compare(f"{name} over merge_insert alone", times, ("load", "merge_insert"), None),
    ]


def _linked(base: Path, copy: Path) -> Path:
    """A copy whose files are those of the base, which nobody ever changes."""
    shutil.copytree(base, copy, copy_function=os.link)
    return copy


def main() -> bool:
    """Run it in folders of its own; whether every ratio is within its bar."""
    session = spark_session()
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        omnigraph.init(str(place / "warm.omni"), SCHEMA).load(graph_file(1_000))
        (place / "load").mkdir()
        ratios = load_ratios(place / "load")
        shutil.rmtree(place / "load")
        (place / "merge").mkdir()
        ratios += merge_ratios(place / "merge")
        shutil.rmtree(place / "merge")
        session.stop()
        ratios += shell_ratios(place)
    return report("load", ratios)
