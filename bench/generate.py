"""Generates graph data for benchmarks: people and whom they know, with any number of lines, always the same.

In: a number of lines. Out: an NDJSON file in `bench/results`, which later runs reuse. All values depend only on the
number of the row, so a file is the same on all machines. The memory does not depend on the size of the file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from bench.harness import RESULTS

SCHEMA: Final = """\
node Person { slug: String @key  name: String  age: I32?  joined: Date }
edge Knows: Person -> Person { since: Date?  weight: F64 }
"""
LINES_PER_PERSON: Final = 5
Numbers = npt.NDArray[np.uint64]
Lines = Callable[[Numbers], Any]

_BATCH: Final = 100_000
_FIRST_NAMES: Final = pa.array(["Ada", "Alan", "Barbara", "Claude", "Edsger", "Grace", "Radia", "Tony"])
_LAST_NAMES: Final = pa.array(["Dijkstra", "Hoare", "Hopper", "Liskov", "Lovelace", "Perlman", "Shannon"])
_DAYS: Final = 20_000
_FACTORS: Final = (np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBF58476D1CE4E5B9))


def graph_file(lines: int) -> Path:
    """Return the file of a graph: first the Person lines, one in five, then edges between them."""
    people = lines // LINES_PER_PERSON
    batches = chain(
        _batches(range(people), _people), _batches(range(lines - people), lambda rows: _knows(rows, people))
    )
    return _write_once(f"graph-{lines}", batches)


def people_file(numbers: range) -> Path:
    """Return the file of the people with these numbers; `graph_file` has the same lines from 0."""
    return _write_once(f"people-{numbers.start}-{numbers.stop}", _batches(numbers, _people))


def _write_once(name: str, batches: Iterable[Any]) -> Path:
    path = RESULTS / "data" / f"{name}.ndjson"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        draft = path.with_suffix(".draft")
        with draft.open("wb") as file:
            for lines in batches:
                _, offsets, data = lines.buffers()
                end = int(np.frombuffer(offsets, dtype=np.int32)[len(lines)])
                file.write(memoryview(data)[:end])
        draft.replace(path)
    return path


def _batches(numbers: range, lines: Lines) -> Iterator[Any]:
    for start in range(numbers.start, numbers.stop, _BATCH):
        yield lines(np.arange(start, min(start + _BATCH, numbers.stop), dtype=np.uint64))


def _people(rows: Numbers) -> Any:
    return _concat(
        '{"type":"Person","data":{"slug":',
        _slugs(rows),
        ',"name":"',
        _FIRST_NAMES.take(_below(rows, 1, len(_FIRST_NAMES))),
        " ",
        _LAST_NAMES.take(_below(rows, 2, len(_LAST_NAMES))),
        '"',
        _member("age", _text(_below(rows, 3, 90)), rows),
        ',"joined":',
        _dates(rows, 4),
        "}}\n",
    )


def _knows(rows: Numbers, people: int) -> Any:
    return _concat(
        '{"edge":"Knows","from":',
        _slugs(np.asarray(_below(rows, 5, people))),
        ',"to":',
        _slugs(np.asarray(_below(rows, 6, people))),
        ',"data":{"weight":',
        _text(pc.divide(pc.cast(_below(rows, 7, 1_000), pa.float64()), 1_000.0)),
        _member("since", _dates(rows, 8), rows),
        "}}\n",
    )


def _member(name: str, values: Any, rows: Numbers) -> Any:
    """Return a member that is missing in one row of eight."""
    return pc.if_else(pc.equal(_below(rows, 9, 8), 0), "", _concat(f',"{name}":', values))


def _slugs(numbers: npt.NDArray[Any]) -> Any:
    return _concat('"p', pc.utf8_lpad(_text(pa.array(numbers)), 8, "0"), '"')


def _dates(rows: Numbers, salt: int) -> Any:
    days = pc.cast(_below(rows, salt, _DAYS), pa.int32())
    return _concat('"', _text(pc.cast(days, pa.date32())), '"')


def _text(values: Any) -> Any:
    return pc.cast(values, pa.utf8())


def _concat(*parts: Any) -> Any:
    return pc.binary_join_element_wise(*parts, "")


def _below(rows: Numbers, salt: int, bound: int) -> Any:
    """Return pseudo-random numbers below a bound, which depend only on row and salt."""
    mixed = (rows + np.uint64(salt << 40)) * _FACTORS[0]
    mixed ^= mixed >> np.uint64(29)
    mixed *= _FACTORS[1]
    mixed ^= mixed >> np.uint64(32)
    return pa.array((mixed % np.uint64(bound)).astype(np.int64))
