"""A load, an export, an optimize and a cleanup have the same results, errors and reports on every runner."""

from __future__ import annotations

from typing import Any

import pytest

from tests.pipeline.process import ProcessEnvironment

pytestmark = pytest.mark.xdist_group("spark")

MODULE = "tests.pipeline.runner_scenario"


@pytest.mark.parametrize(
    ("runner", "described"),
    [("spark", "spark local[*]"), pytest.param("session", "spark local[2]", marks=pytest.mark.soak)],
)
def test_runners_agree(world: ProcessEnvironment, runner: str, described: str) -> None:
    documents: dict[str, dict[str, Any]] = {}
    for name in ("local", runner):
        (world.folder / name).mkdir()
        documents[name] = world.run(name, {"SCENARIO_FOLDER": str(world.folder / name)}, MODULE)
    runners = {name: document.pop("runners") for name, document in documents.items()}
    assert runners == {"local": ["local"], runner: [described]}
    assert documents["local"]["counts"] == {"node:Person": 1050, "edge:Knows": 180}
    assert documents["local"] == documents[runner]
