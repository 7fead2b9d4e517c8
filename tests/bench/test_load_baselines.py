"""The baselines of load write all rows, so that none is faster because it does less."""

from __future__ import annotations

from pathlib import Path

import lance
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from bench import generate
from bench.generate import graph_file, people_file
from bench.load_baselines import (
    Tables,
    assert_equal_rows,
    assert_equal_tables,
    merge_with_lance,
    parse,
    read_with_duckdb,
    tables_of_duckdb,
    tables_of_lance,
    write_lance,
    write_with_pyarrow,
)


@pytest.fixture(autouse=True)
def results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(generate, "RESULTS", tmp_path)
    return tmp_path


def test_both_programs_write_the_rows_of_the_file(tmp_path: Path) -> None:
    file = graph_file(1_000)
    write_with_pyarrow(file, tmp_path)
    read_with_duckdb(file, tmp_path / "duckdb")
    plain = tables_of_lance(tmp_path)
    assert (plain.person.num_rows, plain.knows.num_rows) == (200, 800)
    assert pc.sum(pc.is_null(plain.knows.column("since"))).as_py() > 0
    assert_equal_tables(plain, tables_of_duckdb(tmp_path / "duckdb"))


def test_merge_replaces_and_inserts(tmp_path: Path) -> None:
    people = parse(people_file(range(10))).person
    write_lance(people.set_column(2, "name", pa.array(["old"] * 10)), tmp_path / "people")
    merge_with_lance(parse(people_file(range(8, 12))).person, tmp_path / "people")
    names = lance.dataset(tmp_path / "people").to_table().sort_by("id").column("name").to_pylist()
    assert names[:8] == ["old"] * 8
    assert names[8:] == parse(people_file(range(8, 12))).person.column("name").to_pylist()


def test_comparison_ignores_only_order_and_edge_ids() -> None:
    tables = parse(graph_file(100))
    reordered = Tables(tables.person.take(list(reversed(range(20)))), parse(graph_file(100)).knows)
    assert_equal_tables(tables, reordered)
    with pytest.raises(AssertionError, match="different rows"):
        assert_equal_tables(tables, Tables(tables.person, tables.knows.slice(1)))
    with pytest.raises(AssertionError, match="different rows"):
        assert_equal_rows(tables.person, tables.person.set_column(2, "name", pa.array(["other"] * 20)))
