"""The Python reference is the one its code generates, and describes everything that its signatures name."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any

import pytest

import omnigraph
import omnigraph.maintenance
import omnigraph.spark
from omnigraph.api import reference
from tests.docs.markdown import ROOT, anchors
from tests.style.source import python_sources

PAGE = ROOT / "docs" / "user" / "python.md"
DESCRIBED = [member for members in reference.SECTIONS.values() for member in members]


def test_the_reference_is_the_generated_one(capsys: pytest.CaptureFixture[str]) -> None:
    reference.print_reference()
    generated = capsys.readouterr().out
    assert PAGE.read_text() == generated, "run: make reference"


@pytest.mark.parametrize("module", [omnigraph, omnigraph.maintenance, omnigraph.spark])
def test_every_exported_name_is_described(module: Any) -> None:
    known = {member.__name__ for member in (*DESCRIBED, *reference.ERRORS)} | {"__version__", "spark"}
    assert set(module.__all__) - known == set()


def test_every_method_of_a_graph_is_described() -> None:
    found = anchors(PAGE.read_text())
    methods = {name for name, member in inspect.getmembers(omnigraph.Graph) if inspect.isfunction(member)}
    public = {name for name in methods if not name.startswith("_")} - {"refuse_if_read_only"}
    assert {name for name in public if f"graph{name}" not in found} == set()


def test_every_type_that_a_signature_names_is_described() -> None:
    ours = {name for source in python_sources() if source.in_package for name in _classes(source.tree)}
    named = {word for text in _signatures() for word in re.findall(r"(?<![\w.])[A-Z]\w+", text)}
    described = {member.__name__ for member in DESCRIBED}
    assert sorted((named & ours) - described - reference.OPAQUE) == []


def test_every_error_is_described() -> None:
    names = {error.__name__ for error in reference.ERRORS}
    raised = {
        name
        for source in python_sources()
        if source.in_package
        for name in _classes(source.tree)
        if name.endswith("Error") and not name.startswith("_")
    }
    assert raised - names == {"FailpointError", "WireError"}  # neither leaves the package


def _classes(tree: ast.Module) -> Iterator[str]:
    return (node.name for node in tree.body if isinstance(node, ast.ClassDef))


def _signatures() -> Iterator[str]:
    for member in DESCRIBED:
        if not inspect.isclass(member):
            yield reference.signature_text(member)
        elif not issubclass(member, Enum):
            for _, below in reference.public_members(member):
                yield reference.signature_text(below.fget if isinstance(below, property) else below)
            if is_dataclass(member):
                yield from (str(found.type) for found in fields(member) if not found.name.startswith("_"))
