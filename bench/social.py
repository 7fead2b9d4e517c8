"""The graph of the query benchmarks: persons and who knows whom, generated from a seed.

A person has a slug, a name, a city, an age, a score, a text and a vector. Some persons have many incoming edges. The
tables are written through the write path and indexed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa

import omnigraph
from bench.harness import sized
from omnigraph.api.graph import Graph
from omnigraph.graph.manifest.records import WriteOperation
from omnigraph.graph.manifest.snapshot import MAIN
from omnigraph.graph.write.commit import WriteRequest, write
from omnigraph.graph.write.stage import StagingArea
from omnigraph.graph.write.states import StagedWrite
from omnigraph.schema.property_types import IndexKind
from omnigraph.storage.lance.dataset import Dataset
from omnigraph.storage.lance.indexes import IndexPlan, IndexSpec, build_index_segment, commit_index_segments, plan_index
from omnigraph.storage.lance.stage import stage_fragments, write_rows

SCHEMA: Final = """\
node Person {
  slug: String @key
  name: String
  city: String
  age: I32
  score: F64
  bio: String
  embedding: Vector(128)
}
edge Knows: Person -> Person { since: Date }
"""
PERSONS: Final = sized(100_000, 5_000)
EDGES: Final = sized(2_400_000, 60_000)
CITIES: Final = 200
VECTOR: Final = 128
WORDS: Final = 5_000
BIO_WORDS: Final = 12


INDEXES: Final = {
    "node:Person": {"id": IndexKind.BTREE, "slug": IndexKind.BTREE, "bio": IndexKind.INVERTED},
    "edge:Knows": {"src": IndexKind.BTREE, "dst": IndexKind.BTREE},
}


@dataclass(frozen=True, slots=True)
class Social:
    """The two tables as Arrow."""

    persons: pa.Table
    knows: pa.Table


def make_social(persons: int = PERSONS, edges: int = EDGES, seed: int = 1) -> Social:
    """Return the tables; equal arguments give equal tables."""
    dice = np.random.default_rng(seed)
    slugs = np.char.add("p", np.arange(persons).astype(str))
    person_table = pa.table(
        {
            "id": slugs,
            "slug": slugs,
            "name": np.char.add("Name ", dice.integers(0, persons, persons).astype(str)),
            "city": np.char.add("City ", dice.integers(0, CITIES, persons).astype(str)),
            "age": pa.array(dice.integers(0, 90, persons), pa.int32()),
            "score": dice.random(persons),
            "bio": _bios(persons, dice),
            "embedding": pa.FixedSizeListArray.from_arrays(
                pa.array(dice.standard_normal(persons * VECTOR, dtype=np.float32)), VECTOR
            ),
        }
    )
    sources = dice.integers(0, persons, edges)
    # The square makes small numbers more likely, so that some persons have many incoming edges.
    targets = (dice.random(edges) ** 2 * persons).astype(np.int64)
    knows_table = pa.table(
        {
            "id": np.char.add("k", np.arange(edges).astype(str)),
            "src": slugs[sources],
            "dst": slugs[targets],
            "since": pa.array(dice.integers(0, 20_000, edges).astype(np.int32), pa.date32()),
        }
    )
    return Social(person_table, knows_table)


def _bios(persons: int, dice: np.random.Generator) -> list[str]:
    """Return texts of words, some of which are much more likely than others."""
    words = (dice.random((persons, BIO_WORDS)) ** 3 * WORDS).astype(np.int64)
    return [" ".join(f"word{word}" for word in row) for row in words.tolist()]


def write_social(path: Path, social: Social) -> Graph:
    """Create a graph with these tables, the indexes of optimize on ids, keys and endpoints, and one on texts."""
    graph = omnigraph.init(str(path), SCHEMA)
    tables = {"node:Person": social.persons, "edge:Knows": social.knows}

    def stage(area: StagingArea) -> StagedWrite:
        effects = []
        for alias, rows in tables.items():
            target = area.open_for_write(alias)
            transaction = stage_fragments(target.dataset, write_rows(target.dataset, rows.cast(target.dataset.schema)))
            effects.append(area.transaction_effect(target, transaction, rows.num_rows))
        return area.finish(tuple(effects), frozenset(), {})

    def index(area: StagingArea) -> StagedWrite:
        effects = tuple(
            area.multi_commit_effect(area.open_for_write(alias), partial(_add_indexes, columns=columns))
            for alias, columns in INDEXES.items()
        )
        return area.finish(effects, frozenset(), {})

    write(
        graph.location,
        MAIN,
        WriteRequest(kind=WriteOperation.LOAD, actor="bench", stage=stage, restage=lambda area, _: stage(area)),
    )
    write(
        graph.location,
        MAIN,
        WriteRequest(kind=WriteOperation.OPTIMIZE, actor="bench", stage=index, restage=lambda area, _: index(area)),
    )
    return graph


def _add_indexes(dataset: Dataset, hold: Callable[[], None], columns: Mapping[str, IndexKind]) -> Dataset:
    for column, kind in columns.items():
        spec = IndexSpec(column, kind)
        plan = plan_index(dataset, spec)
        assert isinstance(plan, IndexPlan), "the table has rows"
        segment = build_index_segment(dataset, plan, plan.fragment_ids)
        hold()
        dataset = commit_index_segments(dataset, spec, [segment])
    return dataset
