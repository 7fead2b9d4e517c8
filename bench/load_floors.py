"""What load is measured against: programs that bring the same lines into tables, as fast as they can, without a check.

In: the files of `bench.generate`. Out: the tables `Person` and `Knows` as plain Lance datasets or in a DuckDB file. And
a way to see that two programs made the same rows, in whatever order and whatever the ids of edges are.
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


def assert_same(ours: Tables, theirs: Tables) -> None:
    """Stop when two programs made different rows. Every program gives edges ids of its own."""
    assert_same_rows(ours.person, theirs.person)
    assert_same_rows(ours.knows.drop_columns(["id"]), theirs.knows.drop_columns(["id"]))


def assert_same_rows(ours: pa.Table, theirs: pa.Table) -> None:
    """The same for one table."""
    assert _ordered(ours).equals(_ordered(theirs)), "the programs made different rows"


def parse(file: Path) -> Tables:
    """Read a file with pyarrow's parser and split its lines into the two tables."""
    options = pj.ParseOptions(explicit_schema=_LINE, unexpected_field_behavior="ignore")
    lines = pj.read_json(file, parse_options=options)
    people = lines.filter(lines.column("type").is_valid())
    edges = lines.filter(lines.column("edge").is_valid())
    of_people, of_edges = _members(people), _members(edges)
    person = {
        "id": of_people["slug"],
        "slug": of_people["slug"],
        "name": of_people["name"],
        "age": of_people["age"],
        "joined": of_people["joined"].cast(pa.date32()),
    }
    knows = {
        "id": new_ulids(edges.num_rows),
        "src": edges.column("from"),
        "dst": edges.column("to"),
        "since": of_edges["since"].cast(pa.date32()),
        "weight": of_edges["weight"],
    }
    return Tables(pa.table(person), pa.table(knows))


def write_plainly(file: Path, folder: Path) -> None:
    """Parse with pyarrow and write two Lance datasets, in this process."""
    tables = parse(file)
    write_lance(tables.person, folder / "person.lance")
    write_lance(tables.knows, folder / "knows.lance")


def write_lance(rows: pa.Table, path: Path) -> None:
    """A plain Lance dataset, with the settings that tables of a graph have."""
    lance.write_dataset(
        rows, path, data_storage_version=DATA_STORAGE_VERSION, enable_stable_row_ids=True, mode="create"
    )


def merge_plainly(rows: pa.Table, dataset: Path) -> None:
    """Replace the rows whose ids are there, and add the others."""
    builder = lance.dataset(dataset).merge_insert("id")
    builder.when_matched_update_all().when_not_matched_insert_all().execute(rows)


def read_with_duckdb(file: Path, database: Path) -> None:
    """Parse once into a temporary table, and make two tables of it in a file; parsing twice takes longer."""
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
    """What `write_plainly` wrote."""
    return Tables(
        lance.dataset(folder / "person.lance").to_table(), lance.dataset(folder / "knows.lance").to_table()
    )


def tables_of_duckdb(database: Path) -> Tables:
    """What `read_with_duckdb` wrote."""
    with duckdb.connect(str(database), read_only=True) as connection:
        return Tables(
            connection.sql("FROM person").to_arrow_table(),
            connection.sql("FROM knows").to_arrow_table(),
        )


def tables_of_graph(graph: omnigraph.Graph) -> Tables:
    """What a load wrote."""
    found = graph.snapshot().tables
    return Tables(_pinned(graph, found["node:Person"]), _pinned(graph, found["edge:Knows"]))


def _pinned(graph: omnigraph.Graph, table: Any) -> pa.Table:
    return lance.dataset(f"{graph.uri}/{table.path}", version=table.pin.version).to_table()


def _members(lines: pa.Table) -> dict[str, Any]:
    members: Any = lines.column("data")
    return dict(zip(_DATA.names, members.flatten(), strict=True))


def _ordered(rows: pa.Table) -> pa.Table:
    """In an order that follows from the rows, with the columns in one order, whether they may be null or not."""
    names = sorted(rows.schema.names)
    plain = pa.schema([(name, rows.schema.field(name).type) for name in names])
    return rows.select(names).cast(plain).sort_by([(name, "ascending") for name in names]).combine_chunks()
