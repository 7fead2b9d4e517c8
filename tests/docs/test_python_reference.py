"""The Python reference is up to date, and describes every type that its signatures name."""

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
from docs._gen import python_reference as reference
from docs._gen import python_reference as surface
from tests.docs.markdown import ROOT, anchors
from tests.style.source import python_sources

PAGE = ROOT / "docs" / "user" / "python.md"
DESCRIBED = [member for members in surface.SECTIONS.values() for member in members]
TYPES = [member for member in DESCRIBED if inspect.isclass(member)]


def test_reference_is_up_to_date(capsys: pytest.CaptureFixture[str]) -> None:
    reference.print_reference()
    generated = capsys.readouterr().out
    assert PAGE.read_text() == generated, "run: make reference"


@pytest.mark.parametrize("module", [omnigraph, omnigraph.maintenance, omnigraph.spark])
def test_every_exported_name_is_described(module: Any) -> None:
    described = {member.__name__ for member in (*DESCRIBED, *surface.ERRORS)} | {"__version__", "spark"}
    assert set(module.__all__) - described == set()


def test_every_method_of_a_graph_is_described() -> None:
    headings = anchors(PAGE.read_text())
    methods = {name for name, member in inspect.getmembers(omnigraph.Graph) if inspect.isfunction(member)}
    public = {name for name in methods if not name.startswith("_")} - {*surface.INTERNAL["Graph"]}
    assert {name for name in public if f"graph{name}" not in headings} == set()


def test_every_type_that_a_signature_names_is_described() -> None:
    ours = {name for source in python_sources() if source.in_package for name in _types(source.tree)}
    named = {word for text in _signatures() for word in re.findall(r"(?<![\w.])[A-Z]\w+", text)}
    described = {member.__name__ for member in DESCRIBED}
    assert sorted((named & ours) - described) == sorted(surface.OTHER_NAMES)


@pytest.mark.parametrize("kind", TYPES, ids=lambda kind: kind.__name__)
def test_every_documented_member_has_a_docstring(kind: type[Any]) -> None:
    if issubclass(kind, Enum):
        docstrings = reference.sentences(kind)
        assert not docstrings or docstrings.keys() == {member.name for member in kind}
        return
    assert [name for name, _, sentence in reference.shown_values(kind) if not sentence] == []
    assert [name for name, method in reference.shown_methods(kind) if not method.__doc__] == []


@pytest.mark.parametrize("name", surface.INTERNAL)
def test_internal_members_exist_and_are_not_documented(name: str) -> None:
    (kind,) = (kind for kind in TYPES if kind.__name__ == name)
    members = {*dir(kind), *(field.name for field in (fields(kind) if is_dataclass(kind) else ()))}
    assert set(surface.INTERNAL[name]) - members == set()
    shown = {shown for shown, _, _ in reference.shown_values(kind)}
    assert shown.isdisjoint(surface.INTERNAL[name])


def test_docstring_of_a_field_is_the_string_below_it() -> None:
    assert reference.sentences(_Sample) == {"first": "In two lines.", "second": "Another."}


def test_every_error_is_described() -> None:
    names = {error.__name__ for error in surface.ERRORS}
    raised = {
        name
        for source in python_sources()
        if source.in_package
        for name in _classes(source.tree)
        if name.endswith("Error") and not name.startswith("_")
    }
    assert raised - names == {"FailpointError", "WireError"}  # both are internal


class _Sample:
    first: int
    """In two
    lines."""
    second: int
    """Another."""
    third: int


def _classes(tree: ast.Module) -> Iterator[str]:
    return (node.name for node in tree.body if isinstance(node, ast.ClassDef))


def _types(tree: ast.Module) -> Iterator[str]:
    """Yield classes and type aliases."""
    yield from _classes(tree)
    for node in tree.body:
        match node:
            case ast.Assign(targets=[ast.Name(id=name)]) if not name.isupper():
                yield name


def _signatures() -> Iterator[str]:
    for member in DESCRIBED:
        if not inspect.isclass(member):
            yield reference.signature_text(member)
        elif not issubclass(member, Enum):
            yield from (text for _, text, _ in reference.shown_values(member))
            yield from (reference.signature_text(method) for _, method in reference.shown_methods(member))
