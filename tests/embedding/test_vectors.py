"""Vectors of length 1: mock vectors as in the golden file, and which vectors of a provider are invalid."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from omnigraph.embedding.vectors import InvalidVectorError, make_mock_vector, normalize

GOLDEN: dict[str, list[float]] = json.loads((Path(__file__).parent / "golden" / "mock.json").read_text("utf-8"))


@pytest.mark.parametrize("text", GOLDEN)
def test_mock_vectors_equal_the_golden_file(text: str) -> None:
    # Computed once from the definition with another program; graphs that were filled with mock vectors depend on it.
    assert make_mock_vector(text, len(GOLDEN[text])) == pytest.approx(GOLDEN[text], abs=1e-7)


@pytest.mark.parametrize("values", [[3, 4], [1e300, 1e300], [1e-6, 0], [-1, 0.5, 7]])
def test_vectors_have_length_1(values: list[float]) -> None:
    vector = normalize(values, len(values))
    assert vector.dtype.name == "float32"
    assert float(np.linalg.norm(vector)) == pytest.approx(1.0, abs=1e-6)
    first, second = vector.tolist()[:2]
    assert first * values[1] == pytest.approx(second * values[0], rel=1e-6)


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ([1.0], "expected 2 numbers, got 1"),
        ([0.0, 1e-8], "expected a vector with a direction, got zero"),
        ([math.nan, 1.0], "expected finite numbers, got NaN or infinity"),
        ([math.inf, 1.0], "expected finite numbers, got NaN or infinity"),
        (["x", "y"], "expected numbers"),
        ([None, {}], "expected numbers"),
        ([[1.0, 2.0], [3.0, 4.0]], "expected numbers"),
    ],
)
def test_invalid_vectors(values: Any, reason: str) -> None:
    with pytest.raises(InvalidVectorError, match=reason):
        normalize(values, 2)
