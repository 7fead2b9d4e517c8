"""The baselines of load: programs that write the same lines into tables as fast as possible, without checks.

In: the files of `bench.generate`. Out: the tables `Person` and `Knows` as plain Lance datasets or in a DuckDB file; and
a comparison of the rows of two programs, without their order and without the ids of edges.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import duckdb
import lance
import pyarrow as pa
import pyarrow.json as pj

import omnigraph
from omnigraph.arrow.ulids import new_ulids
from omnigraph.storage.lance.dataset import DATA_STORAGE_VERSION

_TEXT: Final[Any] = pa.utf8()
_DATA: Final = pa.struct(
    [
        ("slug", _TEXT),
        ("name", _TEXT),
        ("age", pa.int32()),
        ("joined", _TEXT),
        ("since", _TEXT),
        ("weight", pa.float64()),
    ]
)
_LINE: Final = pa.schema([("type", _TEXT), ("edge", _TEXT), ("from", _TEXT), ("to", _TEXT), ("data", _DATA)])
_COLUMNS: Final = """{
    type: 'VARCHAR', edge: 'VARCHAR', "from": 'VARCHAR', "to": 'VARCHAR',
    data: 'STRUCT(slug VARCHAR, name VARCHAR, age INTEGER, joined DATE, since DATE, weight DOUBLE)'
}"""


@dataclass(frozen=True, slots=True)
class Tables:
    """The rows of a graph."""

    person: pa.Table
    knows: pa.Table


def assert_equal_tables(ours: Tables, theirs: Tables) -> None:
    """Raise if two programs wrote different rows. The ids of edges are generated, so they are ignored."""
    assert_equal_rows(ours.person, theirs.person)
    assert_equal_rows(ours.knows.drop_columns(["id"]), theirs.knows.drop_columns(["id"]))


def assert_equal_rows(ours: pa.Table, theirs: pa.Table) -> None:
    """Raise if two tables have different rows."""
    assert _sort_rows(ours).equals(_sort_rows(theirs)), "the programs wrote different rows"


def parse(file: Path) -> Tables:
    """Read a file with pyarrow's parser and split its lines into the two tables."""
    options = pj.ParseOptions(explicit_schema=_LINE, unexpected_field_behavior="ignore")
    lines = pj.read_json(file, parse_options=options)
    people = lines.filter(lines.column("type").is_valid())
    edges = lines.filter(lines.column("edge").is_valid())
    people_data, edge_data = _members(people), _members(edges)
    person = {
        "id": people_data["slug"],
        "slug": people_data["slug"],
        "name": people_data["name"],
        "age": people_data["age"],
        "joined": people_data["joined"].cast(pa.date32()),
    }
    knows = {
        "id": new_ulids(edges.num_rows),
        "src": edges.column("from"),
        "dst": edges.column("to"),
        "since": edge_data["since"].cast(pa.date32()),
        "weight": edge_data["weight"],
    }
    return Tables(pa.table(person), pa.table(knows))


def write_with_pyarrow(file: Path, folder: Path) -> None:
    """Parse with pyarrow and write two Lance datasets, in this process."""
    tables = parse(file)
    write_lance(tables.person, folder / "person.lance")
    write_lance(tables.knows, folder / "knows.lance")


def write_lance(rows: pa.Table, path: Path) -> None:
    """Write a plain Lance dataset with the settings of the tables of a graph."""
    lance.write_dataset(
        rows, path, data_storage_version=DATA_STORAGE_VERSION, enable_stable_row_ids=True, mode="create"
    )


def merge_with_lance(rows: pa.Table, dataset: Path) -> None:
    """Replace the rows with existing ids, and insert the others."""
    builder = lance.dataset(dataset).merge_insert("id")
    builder.when_matched_update_all().when_not_matched_insert_all().execute(rows)


def read_with_duckdb(file: Path, database: Path) -> None:
    """Parse once into a temporary table, and create two tables from it, which is faster than to parse twice."""
    with duckdb.connect(str(database)) as connection:
        connection.execute(
            f"CREATE TEMP TABLE lines AS FROM read_json('{file}', format='newline_delimited', columns={_COLUMNS})"
        )
        connection.execute("""
            CREATE TABLE person AS
            SELECT data.slug AS id, data.slug AS slug, data.name AS name, data.age AS age, data.joined AS joined
            FROM lines WHERE type = 'Person'
        """)
        connection.execute("""
            CREATE TABLE knows AS
            SELECT uuid() AS id, "from" AS src, "to" AS dst, data.since AS since, data.weight AS weight
            FROM lines WHERE edge = 'Knows'
        """)


def tables_of_lance(folder: Path) -> Tables:
    """Read the tables of `write_with_pyarrow`."""
    return Tables(lance.dataset(folder / "person.lance").to_table(), lance.dataset(folder / "knows.lance").to_table())


def tables_of_duckdb(database: Path) -> Tables:
    """Read the tables of `read_with_duckdb`."""
    with duckdb.connect(str(database), read_only=True) as connection:
        return Tables(connection.sql("FROM person").to_arrow_table(), connection.sql("FROM knows").to_arrow_table())


def tables_of_graph(graph: omnigraph.Graph) -> Tables:
    """Read the tables of a graph."""
    tables = graph.snapshot().tables
    return Tables(_read_table(graph, tables["node:Person"]), _read_table(graph, tables["edge:Knows"]))


def _read_table(graph: omnigraph.Graph, table: Any) -> pa.Table:
    return lance.dataset(f"{graph.uri}/{table.path}", version=table.pin.version).to_table()


def _members(lines: pa.Table) -> dict[str, Any]:
    members: Any = lines.column("data")
    return dict(zip(_DATA.names, members.flatten(), strict=True))


def _sort_rows(rows: pa.Table) -> pa.Table:
    """Return the rows sorted by all columns, with sorted, nullable columns."""
    names = sorted(rows.schema.names)
    plain = pa.schema([(name, rows.schema.field(name).type) for name in names])
    return rows.select(names).cast(plain).sort_by([(name, "ascending") for name in names]).combine_chunks()
