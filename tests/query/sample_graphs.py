"""Rows of small graphs over the schema of the golden files; a graph has one of several variants of each table."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, date, datetime
from typing import Any, Final

from hypothesis import strategies as st

from omnigraph.query.plan.operators import Order
from omnigraph.query.plan.statements import ReadPlan
from omnigraph.query.plan.types import Column
from omnigraph.query.plan.walk import steps_of

Rows = list[dict[str, Any]]

PERSONS: Final = ("a", "b", "c", "d", "ü'")
COMPANIES: Final = ("x", "y", "a")
CITIES: Final = ("s", "t")
VARIANTS: Final = {
    "node:Person": 10,
    "node:Company": 4,
    "node:City": 3,
    "edge:Knows": 24,
    "edge:Follows": 3,
    "edge:WorksAt": 10,
    "edge:LocatedIn": 5,
    "edge:Contains": 3,
}


def _graph(number: int) -> dict[str, int]:
    """Return the variant of each table; one number is cheaper to draw than one for each table."""
    chosen = {}
    for alias, count in VARIANTS.items():
        number, chosen[alias] = divmod(number, count)
    return chosen


# The variant of each table of a graph.
choices: Final = st.integers(0, math.prod(VARIANTS.values()) - 1).map(_graph)


def sample_rows(alias: str, number: int, dice: random.Random) -> Rows:
    """Return the rows of one variant of a table; the first variant of an edge table is empty."""
    match alias:
        case "node:Person":
            return [_person(key, dice) for key in PERSONS]
        case "node:Company":
            return [
                {
                    "id": key,
                    "code": key,
                    "name": dice.choice(("m", "n")),
                    "founded": dice.choice((None, date(2000, 1, 1), date(1969, 12, 31))),
                    "logo": None,
                }
                for key in COMPANIES
            ]
        case "node:City":
            return [{"id": key, "name": dice.choice(("m", "n")), "size": dice.randint(-1, 2)} for key in CITIES]
    ends = {
        "edge:Knows": (PERSONS, PERSONS),
        "edge:Follows": (PERSONS, PERSONS),
        "edge:WorksAt": (PERSONS, COMPANIES),
        "edge:LocatedIn": (COMPANIES, CITIES),
        "edge:Contains": (CITIES, CITIES),
    }[alias]
    count = 0 if number == 0 else dice.randint(1, 10 if alias == "edge:Knows" else 5)
    return [_edge(alias, number, ends, dice) for number in range(count)]


def _person(key: str, dice: random.Random) -> dict[str, Any]:
    return {
        "id": key,
        "slug": key,
        "name": dice.choice(("m", "n")),
        "age": dice.choice((None, 0, 1, 2)),
        "status": dice.choice(("active", "paused", "left")),
        "tags": dice.choice((None, (), ("m",), ("n", "ö"))),
        "points": dice.choice((None, (), (1,), (2, -1))),
        "bio": dice.choice((None, "", "nö'm", "m%_", "M nö m, q")),
        "embedding": dice.choice((None, (1.0, 0.0, 0.0, 0.0), (0.0, 2.0, 0.0, 0.5), (-1.0, 0.25, 0.0, 0.0))),
        "photo": None,
        "joined": dice.choice((date(2020, 1, 1), date(1969, 12, 31))),
        "seen": dice.choice((None, datetime(2020, 1, 1, tzinfo=UTC), datetime(2020, 1, 1, 0, 0, 0, 1000, UTC))),
        "active": dice.choice((True, False)),
        "height": dice.choice((None, 0.5, 1.5)),
        "ratio": dice.choice((None, 0.0, -0.5, 2.0**53)),
        "visits": dice.choice((None, 0, 2**32 - 1)),
        "total": dice.choice((None, 0, -1, 2**53 + 1)),
        "big": dice.choice((None, 1, 2**53 + 1, 2**64 - 1)),
    }


def _edge(alias: str, number: int, ends: tuple[Sequence[str], Sequence[str]], dice: random.Random) -> dict[str, Any]:
    row: dict[str, Any] = {"id": f"e{number}", "src": dice.choice(ends[0]), "dst": dice.choice(ends[1])}
    match alias:
        case "edge:Knows":
            since = dice.choice((None, date(2020, 1, 1)))
            return row | {"since": since, "weight": dice.choice((0.2, 0.5, 0.9))}
        case "edge:Follows":
            return row | {"note": dice.choice((None, "m"))}
        case "edge:WorksAt":
            return row | {"role": dice.choice((None, "m", "n"))}
        case _:
            return row


def comparable(rows: list[list[tuple[str, Any]]], plan: ReadPlan) -> Any:
    """Return rows in order if the query has one, else as a bag; floats are rounded, since sums depend on order."""
    shown = [tuple((name, _value(cell)) for name, cell in row) for row in rows]
    is_ordered = any(isinstance(step, Order) for step in steps_of(plan.root))
    return shown if is_ordered else Counter(shown)


def _value(cell: Any) -> Any:
    if isinstance(cell, float):
        return float(f"{cell:.12g}") + 0.0 if math.isfinite(cell) else str(cell)
    if isinstance(cell, dict):
        return tuple(_value(member) for member in cell.values())
    if isinstance(cell, list):
        return tuple(_value(member) for member in cell)
    if isinstance(cell, tuple) and cell and isinstance(cell[0], tuple):
        is_entity = isinstance(cell[0][0], Column)
        return tuple(_value(member[1] if is_entity else member) for member in cell)
    return cell
