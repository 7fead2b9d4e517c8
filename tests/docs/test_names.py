"""The files, tests and failpoints in the developer documents exist, and every decision is listed."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final

import pytest

from omnigraph.base.failpoints import Failpoint
from tests.docs.markdown import DOCUMENTS, ROOT

DEV: Final = [path for path in DOCUMENTS if path.parts[:2] == ("docs", "dev")]
_QUOTED: Final = re.compile(r"`([^`\n]+)`")
SOURCE: Final = ROOT / "src" / "omnigraph"
MAP: Final = SOURCE / "README.md"
_DECISIONS: Final = ROOT / "docs" / "dev" / "decisions"


@pytest.mark.parametrize("document", DEV, ids=str)
def test_names_in_documents_exist(document: Path) -> None:
    assert list(_find_missing((ROOT / document).read_text())) == []


def test_missing_name_is_reported() -> None:
    existing = "`graph/branches.py` `test_matrix.py` `tests/graph/`"
    missing = "`test_nothing.py` `graph/nothing.py` `tests/no/` `test_no_such`"
    assert list(_find_missing(f"{existing} {missing}")) == re.findall(r"[^` ]+", missing)


def test_every_failpoint_is_explained() -> None:
    text = (ROOT / "docs" / "dev" / "write-path.md").read_text()
    assert [point.value for point in Failpoint if f"`{point.value}`" not in text] == []


def test_every_decision_is_listed() -> None:
    listed = re.findall(r"\]\((\d{4}-[^)]+)\)", (_DECISIONS / "README.md").read_text())
    assert listed == sorted(path.name for path in _DECISIONS.glob("0*.md"))


def test_map_names_every_package_and_nothing_else() -> None:
    """A name with a slash or an extension is a path in the package; any other name is a module."""
    text = MAP.read_text()
    names = [name for name in _QUOTED.findall(text) if re.fullmatch(r"[a-z_/]+(\.py)?", name)]
    modules = {path.stem for path in SOURCE.rglob("*.py")} | {path.name for path in SOURCE.rglob("*/")}
    missing = [
        name
        for name in names
        if not (
            (SOURCE / name).exists() or any(SOURCE.glob(f"*/{name}")) if "/" in name or "." in name else name in modules
        )
    ]
    packages = {path.parent.name for path in SOURCE.glob("*/__init__.py")}
    assert missing == []
    assert {package for package in packages if f"`{package}/`" not in text} == set()
    assert len(text.splitlines()) <= 40


def _find_missing(text: str) -> Iterator[str]:
    for name in _QUOTED.findall(text):
        path, _, test = name.partition("::")
        if re.fullmatch(r"[\w/]+\.py", path):
            if not any(file.endswith(f"/{path}") for file in _list_files()):
                yield name
        elif re.fullmatch(r"tests/[\w/]+/", path) and not (ROOT / path).is_dir():
            yield name
        test = test or (path if re.fullmatch(r"test_\w+", path) else "")
        if test and test not in _list_definitions():
            yield name


@cache
def _list_files() -> frozenset[str]:
    folders = ("src", "tests", "bench", "tools")
    return frozenset(f"/{path.relative_to(ROOT)}" for folder in folders for path in (ROOT / folder).rglob("*.py"))


@cache
def _list_definitions() -> frozenset[str]:
    """Return the functions, classes and modules of the tests."""
    tests = [ROOT / name[1:] for name in _list_files() if name.startswith("/tests/")]
    named = re.compile(r"^\s*(?:def|class) (\w+)", re.MULTILINE)
    return frozenset(name for path in tests for name in (path.stem, *named.findall(path.read_text())))
