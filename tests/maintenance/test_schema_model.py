"""A graph after a schema change equals a fresh graph of that schema, loaded with the transformed rows.

The expected rows are computed here from the two texts alone: a property keeps its value by name, else by
`@rename_from`, else it gets its default. A change that rows break is one that a fresh graph does not load either.
"""

from __future__ import annotations

import tempfile
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from omnigraph.graph.schema_plan import UnsupportedSchemaChangeError
from omnigraph.maintenance.schema_apply import SchemaRejectedError
from omnigraph.pipeline.load.run import LoadRejectedError
from omnigraph.schema.catalog import Catalog, EdgeType, NodeType
from omnigraph.schema.property_types import Scalar, ScalarType
from omnigraph.storage.location import Location, parse_location
from tests.conftest import S3Server
from tests.maintenance.evolving import evolve
from tests.pipeline.exporting import export_here, lines, load_records, make_graph
from tests.schema.evolution.schema_pairs import SchemaPair, schema_pairs
from tests.schema.incarnations import catalog_of

Record = dict[str, Any]
_cells = st.tuples(st.booleans(), st.booleans())


@st.composite
def rows(draw: st.DrawFn, catalog: Catalog) -> list[Record]:
    """Draw some rows of every type. Values are mostly distinct and small, so that rules are sometimes broken."""
    records: list[Record] = []
    sizes: dict[str, int] = {}
    for node in catalog.nodes:
        sizes[node.id] = draw(st.integers(0, 3))
        for number in range(sizes[node.id]):
            data = {"id": f"{node.id[-1]}{number}", **draw(values(node, number))}
            records.append({"type": node.name, "data": data})
    for edge in catalog.edges:
        ends = sizes[edge.source], sizes[edge.target]
        for number in range(draw(st.integers(0, 3)) if all(ends) else 0):
            source, target = (draw(st.integers(0, size - 1)) for size in ends)
            named = {"from": f"{edge.source[-1]}{source}", "to": f"{edge.target[-1]}{target}"}
            records.append({"edge": edge.name, **named, "data": draw(values(edge, number))})
    return records


@st.composite
def values(draw: st.DrawFn, entity: NodeType | EdgeType, number: int) -> Record:
    row: Record = {}
    for own in entity.properties:
        is_absent, is_shared = draw(_cells)
        value_number = 0 if is_shared else number
        assert isinstance(own.type, ScalarType)
        if not (own.nullable and is_absent):
            row[own.name] = {
                Scalar.I64: 4 * value_number,
                Scalar.STRING: f"text {value_number}",
                Scalar.F64: value_number / 4,
                Scalar.DATE: f"2024-01-0{value_number + 1}",
            }[own.type.scalar]
    return row


def transformed(record: Record, before: Catalog, after: Catalog) -> Record | None:
    """Return the row after the change; None if its type is dropped."""
    word = "type" if "type" in record else "edge"
    old = before.type_named(record[word])
    assert old is not None
    for new in after.types:
        if new.kind is old.kind and origin(new, {entity.name for entity in before.types}) == old.name:
            old_names = {column.name for column in old.properties}
            data = {"id": record["data"]["id"]} if "id" in record["data"] else {}
            for own in new.properties:
                source = origin(own, old_names)
                value = record["data"].get(source) if source else None
                if source is None and own.default is not None:
                    value = own.default.isoformat() if isinstance(own.default, date) else own.default
                if value is not None:
                    data[own.name] = value
            return {**record, word: new.name, "data": data}
    return None


def origin(item: Any, old_names: set[str]) -> str | None:
    if item.name in old_names:
        return str(item.name)
    return item.renamed_from if item.renamed_from in old_names else None


def dumped(root: Location, path: Path) -> list[Record]:
    export_here(root, path)
    return sorted(lines(path), key=lambda line: str(sorted(line.items(), key=str)))


def check(pair: SchemaPair, data: st.DataObject, server: S3Server | None = None) -> None:
    before, after = catalog_of(pair.before), catalog_of(pair.after)
    assume(pair.before and pair.after)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        location = parse_location(f"{name}/graph.omni") if server is None else server.location(f"{folder.name}/g.omni")
        root = make_graph(location, pair.before)
        try:
            load_records(root, folder, data.draw(rows(before)))
        except LoadRejectedError:
            assume(False)
        exported = dumped(root, folder / "before.jsonl")
        fresh = make_graph(parse_location(f"{name}/fresh.omni"), pair.after)
        try:
            evolve(root, pair.after, tasks=data.draw(st.booleans()))
        except UnsupportedSchemaChangeError:
            assert dumped(root, folder / "same.jsonl") == exported
            return
        except SchemaRejectedError:
            assert dumped(root, folder / "same.jsonl") == exported
            with pytest.raises(LoadRejectedError):
                load_records(fresh, folder, become(exported, before, after))
            return
        load_records(fresh, folder, become(exported, before, after))
        assert dumped(root, folder / "after.jsonl") == dumped(fresh, folder / "fresh.jsonl")


def become(records: list[Record], before: Catalog, after: Catalog) -> list[Record]:
    transformed_records = (transformed(record, before, after) for record in records)
    return [record for record in transformed_records if record is not None]


_calm = [HealthCheck.filter_too_much, HealthCheck.too_slow]


@given(schema_pairs, st.data())
@settings(max_examples=12, suppress_health_check=_calm, deadline=None)
def test_some_pairs(pair: SchemaPair, data: st.DataObject) -> None:
    check(pair, data)


@pytest.mark.soak
@given(schema_pairs, st.data())
@settings(max_examples=300, suppress_health_check=_calm, deadline=None)
def test_many_pairs(pair: SchemaPair, data: st.DataObject) -> None:
    check(pair, data)


@pytest.mark.soak
@given(pair=schema_pairs, data=st.data())
@settings(max_examples=40, suppress_health_check=_calm, deadline=None)
def test_pairs_on_s3(pair: SchemaPair, data: st.DataObject, s3_server: S3Server) -> None:
    check(pair, data, s3_server)
