"""Graph data for measurements: people and whom they know, as many lines as wanted, always the same.

In: a number of lines. Out: an NDJSON file in `bench/results`, where the next run finds it. Every value follows from the
number of its row, so a file is the same on every machine. Memory does not follow the size of the file.
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
    """A whole graph: one line in five is a Person, and these come first; the others are edges between them."""
    people = lines // LINES_PER_PERSON
    batches = chain(
        _batches(range(people), _people), _batches(range(lines - people), lambda rows: _knows(rows, people))
    )
    return _kept(f"graph-{lines}", batches)


def people_file(numbers: range) -> Path:
    """The people with these numbers; `graph_file` has those from 0 on, in the same words."""
    return _kept(f"people-{numbers.start}-{numbers.stop}", _batches(numbers, _people))


def _kept(name: str, batches: Iterable[Any]) -> Path:
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
    return _joined(
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
    return _joined(
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
    """A member that one row in eight goes without."""
    return pc.if_else(pc.equal(_below(rows, 9, 8), 0), "", _joined(f',"{name}":', values))


def _slugs(numbers: npt.NDArray[Any]) -> Any:
    return _joined('"p', pc.utf8_lpad(_text(pa.array(numbers)), 8, "0"), '"')


def _dates(rows: Numbers, salt: int) -> Any:
    days = pc.cast(_below(rows, salt, _DAYS), pa.int32())
    return _joined('"', _text(pc.cast(days, pa.date32())), '"')


def _text(values: Any) -> Any:
    return pc.cast(values, pa.utf8())


def _joined(*parts: Any) -> Any:
    return pc.binary_join_element_wise(*parts, "")


def _below(rows: Numbers, salt: int, bound: int) -> Any:
    """Numbers below a bound that look random and are the same for the same row."""
    mixed = (rows + np.uint64(salt << 40)) * _FACTORS[0]
    mixed ^= mixed >> np.uint64(29)
    mixed *= _FACTORS[1]
    mixed ^= mixed >> np.uint64(32)
    return pa.array((mixed % np.uint64(bound)).astype(np.int64))
