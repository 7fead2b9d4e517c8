"""The Python reference is up to date, and describes every type that its signatures name."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator
from enum import Enum
from typing import Any

import pytest

import omnigraph
from docs._gen import python_reference as reference
from tests.docs.markdown import ROOT, anchors
from tests.style.source import python_sources

PAGE = ROOT / "docs" / "user" / "python.md"
DESCRIBED = [member for members in reference.sections().values() for member in members]
TYPES = [member for member in DESCRIBED if inspect.isclass(member)]


def test_page_is_generated(capsys: pytest.CaptureFixture[str]) -> None:
    reference.print_reference()
    generated = capsys.readouterr().out
    assert PAGE.read_text() == generated, "run: make reference"


def test_description_of_a_single_argument_is_complete() -> None:
    assert "Default: the newest state. A time is" in PAGE.read_text()


def test_every_method_of_a_graph_is_described() -> None:
    titles = anchors(PAGE.read_text())
    methods = {name for name, member in inspect.getmembers(omnigraph.Graph) if inspect.isfunction(member)}
    public = {name for name in methods if name[0] != "_"}
    assert {name for name in public if f"graph{name}" not in titles} == set()


def test_every_type_that_a_signature_names_is_described() -> None:
    ours = {name for source in python_sources() if source.in_package for name in _types(source.tree)}
    named = {word for text in _signatures() for word in re.findall(r"(?<![\w.])[A-Z]\w+", text)}
    described = {member.__name__ for member in DESCRIBED}
    named -= {"Literal"}  # of `typing`
    assert sorted((named & ours) - described) == sorted(reference.OTHER_NAMES)


@pytest.mark.parametrize("kind", TYPES, ids=lambda kind: kind.__name__)
def test_every_shown_value_has_a_sentence(kind: type[Any]) -> None:
    if issubclass(kind, Enum):
        described = reference.sentences(kind)
        assert not described or described.keys() == {member.name for member in kind}
        return
    assert [name for name, _, _, sentence in reference.shown_values(kind) if not sentence] == []


@pytest.mark.parametrize("name", reference.INTERNAL)
def test_internal_members_exist(name: str) -> None:
    (kind,) = (kind for kind in TYPES if kind.__name__ == name)
    members = {*dir(kind), *getattr(kind, "__dataclass_fields__", ())}
    assert set(reference.INTERNAL[name]) - members == set()


def test_sentence_is_the_string_below() -> None:
    assert reference.sentences(_Sample) == {"first": "In two lines.", "second": "Another."}


def test_every_error_is_described() -> None:
    names = {error.__name__ for error in reference.errors()}
    defined = {
        name
        for source in python_sources()
        if source.in_package
        for name in _classes(source.tree)
        if name.endswith("Error") and not name.startswith("_")
    }
    assert defined - names == reference.HIDDEN_ERRORS


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
    """Yield classes, and types that are another name of something."""
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
            yield from (text for _, text, _, _ in reference.shown_values(member))
            yield from (reference.signature_text(method) for _, method in reference.shown_methods(member))
