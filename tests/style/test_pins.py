"""`requirements.lock` pins what pyproject.toml asks for, by version and nothing else."""

from __future__ import annotations

import re
import tomllib

from packaging.requirements import Requirement

from tests.style.source import ROOT

LINES = (ROOT / "requirements.lock").read_text().splitlines()


def test_every_line_is_a_name_and_a_version() -> None:
    assert [line for line in LINES if not re.fullmatch(r"[\w.-]+==[\w.]+( ; [^:/@]+)?", line)] == []


def test_every_requirement_is_pinned_within_its_range() -> None:
    """`make lock` puts it right."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    asked = [*project["project"]["dependencies"], *project["dependency-groups"]["dev"]]
    pins = [Requirement(line) for line in LINES]
    here = {pin.name: str(pin.specifier)[2:] for pin in pins if pin.marker is None or pin.marker.evaluate()}
    wanted = [Requirement(text) for text in asked]
    assert [str(one) for one in wanted if not one.specifier.contains(here.get(one.name, "0"))] == []
    assert {one.name for one in wanted} <= here.keys()
