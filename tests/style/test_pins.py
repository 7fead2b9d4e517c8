"""The lock files pin every requirement of pyproject.toml to a version, and agree with each other."""

from __future__ import annotations

import re
import tomllib
from typing import Final

import pytest
from packaging.requirements import Requirement

from tests.style.source import ROOT

PROJECT: Final = tomllib.loads((ROOT / "pyproject.toml").read_text())
GROUPS: Final = PROJECT["dependency-groups"]
LOCKS: Final = {
    "requirements.lock": [*PROJECT["project"]["dependencies"], *GROUPS["dev"]],
    "requirements-bench.lock": GROUPS["bench"],
}


@pytest.mark.parametrize("lock", LOCKS)
def test_every_line_is_a_name_and_a_version(lock: str) -> None:
    assert [line for line in _lines(lock) if not re.fullmatch(r"[\w.-]+==[\w.]+( ; [^:/@]+)?", line)] == []


@pytest.mark.parametrize(("lock", "declared"), LOCKS.items())
def test_every_requirement_is_pinned_within_its_range(lock: str, declared: list[str]) -> None:
    """To fix a failure, run `make lock`."""
    pins = _pinned_here(lock)
    requirements = [Requirement(text) for text in declared]
    assert [
        str(requirement)
        for requirement in requirements
        if not requirement.specifier.contains(pins.get(requirement.name, "0"))
    ] == []
    assert {requirement.name for requirement in requirements} <= pins.keys()


def test_lock_files_have_the_same_versions() -> None:
    ours, peers = (_pinned_here(lock) for lock in LOCKS)
    shared = ours.keys() & peers.keys()
    assert "duckdb" in shared
    assert [name for name in shared if ours[name] != peers[name]] == []


def _lines(lock: str) -> list[str]:
    return (ROOT / lock).read_text().splitlines()


def _pinned_here(lock: str) -> dict[str, str]:
    """Return the versions for this Python."""
    pins = [Requirement(line) for line in _lines(lock)]
    return {pin.name: str(pin.specifier)[2:] for pin in pins if pin.marker is None or pin.marker.evaluate()}
