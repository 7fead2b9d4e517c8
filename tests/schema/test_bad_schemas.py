"""Bad schemas: their problems as text; every code has a golden file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from omnigraph.base import limits
from omnigraph.base.errors import ErrorKind, SchemaTextError
from omnigraph.schema.build import build_catalog
from omnigraph.schema.codes import SchemaCode
from omnigraph.schema.parser import parse_schema
from tests.schema.golden_files import BAD, compare, read_text, schema_files

FILES = schema_files(BAD)

# Texts that are not stored as files: too large, or not valid UTF-8.
GENERATED: Final[dict[str, Callable[[], str]]] = {
    "S002-too-large": lambda: " " * (limits.SCHEMA_TEXT_BYTES_MAX + 1),
    "S003-lone-surrogate": lambda: 'node A {}\nnode B @description("\ud800") {}\n',
    "S005-too-much-inherited": lambda: (
        f"interface Wide {{ {' '.join(f'p{number}: I32' for number in range(2_000))} }}\n"
        + "".join(f"node N{number} implements Wide {{}}\n" for number in range(100))
    ),
}


def problems_of(text: str, source: str) -> SchemaTextError:
    with pytest.raises(SchemaTextError) as caught:
        build_catalog(parse_schema(text, source))
    return caught.value


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_golden(path: Path, update_golden: bool) -> None:
    error = problems_of(read_text(path), path.name)
    assert_sound(error, path.stem)
    compare(path.with_suffix(".problems.txt"), error.render() + "\n", update=update_golden)


@pytest.mark.parametrize("name", GENERATED)
def test_generated(name: str, update_golden: bool) -> None:
    error = problems_of(GENERATED[name](), f"{name}.pg")
    assert_sound(error, name)
    is_limit = not name.startswith("S003")
    assert (error.kind is ErrorKind.LIMIT_EXCEEDED, "resource_limit" in error.facts) == (is_limit, is_limit)
    shown = error.render().encode("utf-8", "backslashreplace").decode()
    compare(BAD / f"{name}.problems.txt", shown + "\n", update=update_golden)


def assert_sound(error: SchemaTextError, name: str) -> None:
    """Check that the code is the one in the name, the order is that of the text, and carets are within their lines."""
    positions = [(problem.line, problem.column) for problem in error.problems]
    assert positions == sorted(positions)
    assert len(positions) <= limits.SCHEMA_PROBLEMS_MAX
    for problem in error.problems:
        assert problem.column <= max(1, len(problem.text) + 1)
    expected = name.split("-", maxsplit=1)[0]
    assert expected == "mixed" or expected in {problem.code for problem in error.problems}


def test_every_code_has_a_golden_file() -> None:
    shown = "".join(read_text(path) for path in sorted(BAD.glob("*.problems.txt")))
    missing = [code.code for code in SchemaCode if f" {code.code} " not in shown]
    assert not missing


def test_every_problem_names_its_declaration() -> None:
    """Except for a text without a declaration: not a schema, the name of a file, or a header with a syntax error."""
    nameless = {
        f"{path.stem} {problem.code}"
        for path in FILES
        for problem in problems_of(read_text(path), path.name).problems
        if not problem.message.startswith(("node ", "edge ", "interface "))
    }
    assert nameless == {"S001-glued-keyword S001", "S001-name-of-a-file S001", "S001-not-a-schema S001"}


def test_codes_are_distinct_and_have_a_meaning() -> None:
    codes = [code.code for code in SchemaCode]
    assert codes == sorted(set(codes))
    assert all(code.meaning for code in SchemaCode)


def test_text_that_is_too_large_names_the_limit() -> None:
    error = problems_of(GENERATED["S002-too-large"](), "large.pg")
    maximum = limits.SCHEMA_TEXT_BYTES_MAX
    limit = {"resource": "schema_text", "limit": maximum, "unit": "bytes", "actual": maximum + 1}
    assert error.facts["resource_limit"] == limit
