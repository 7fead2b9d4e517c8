"""How many tables at once: the variable, the default, and what is refused."""

from __future__ import annotations

import pytest

from omnigraph.base.errors import UsageError
from omnigraph.base.limits import MAINTENANCE_CONCURRENCY
from omnigraph.maintenance.concurrency import VARIABLE, maintenance_concurrency


@pytest.mark.parametrize(("value", "expected"), [("3", 3), ("1", 1), ("", MAINTENANCE_CONCURRENCY)])
def test_numbers(value: str, expected: int) -> None:
    assert maintenance_concurrency({VARIABLE: value}) == expected


def test_default() -> None:
    assert maintenance_concurrency({}) == MAINTENANCE_CONCURRENCY


@pytest.mark.parametrize("value", ["0", "-1", "two", "1.5", " ", "²"])
def test_anything_else_is_refused(value: str) -> None:
    with pytest.raises(UsageError, match=VARIABLE) as refused:
        maintenance_concurrency({VARIABLE: value})
    assert refused.value.code == "maintenance_concurrency"
