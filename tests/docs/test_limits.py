"""The page of limits has every public limit with its value, and every environment variable that the code reads."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import Final

import pytest

from omnigraph.base import limits
from tests.docs.markdown import ROOT
from tests.style.source import SourceFile, python_sources

PAGE: Final = (ROOT / "docs" / "user" / "limits.md").read_text(encoding="utf-8")
ROWS: Final = dict(re.findall(r"^\| `([A-Z][A-Z0-9_]+)` \| ([^|]+) \| [^|]+ \|$", PAGE, re.MULTILINE))
VALUES: Final = {name: value for name, value in vars(limits).items() if name.isupper()}
PUBLIC_HEADING: Final = "# Public limits\n"
TUNING_HEADING: Final = "# Tuning constants\n"
UNITS: Final = {
    "": 1, "ms": 0.001, "s": 1, "min": 60, "h": 3600, "d": 24 * 3600,
    "KiB": 2**10, "MiB": 2**20, "GiB": 2**30,
}  # fmt: skip


def test_page_lists_every_public_limit() -> None:
    public = _public_limits((ROOT / "src" / "omnigraph" / "base" / "limits.py").read_text(encoding="utf-8"))
    assert {"QUERY_TEXT_BYTES_MAX", "ENGINE_MEMORY_BYTES", "LOAD_LINE_BYTES_MAX"} <= public < VALUES.keys()
    assert sorted(public - ROWS.keys()) == []


def test_page_has_the_values_of_the_code() -> None:
    assert sorted(ROWS.keys() - VALUES.keys()) == []
    documented = {name: VALUES[name] for name in ROWS}
    assert {name: read_value(text) for name, text in ROWS.items()} == pytest.approx(documented, rel=1e-12)


def test_limits_are_public_only_below_their_heading() -> None:
    text = f"{PUBLIC_HEADING}FIRST: Final = 1\n{TUNING_HEADING}SECOND: Final = 2\n"
    assert _public_limits(text) == {"FIRST"}


@pytest.mark.parametrize(
    ("text", "value"), [("1,000", 1000), ("2^31 - 1", 2**31 - 1), ("5 ms", 0.005), ("1 GiB", 2**30), ("3 d", 259200)]
)
def test_value_is_read_from_text(text: str, value: float) -> None:
    assert read_value(text) == value


def read_value(text: str) -> float:
    power = re.fullmatch(r"2\^(\d+) - 1", text)
    if power:
        return float((1 << int(power[1])) - 1)
    number = re.fullmatch(r"([\d,.]+) ?(\w*)", text)
    assert number, text
    return float(number[1].replace(",", "")) * UNITS[number[2]]


def _public_limits(text: str) -> set[str]:
    public, heading, _ = text.partition(PUBLIC_HEADING)[2].partition(TUNING_HEADING)
    assert heading
    return set(re.findall(r"^([A-Z][A-Z0-9_]+): Final", public, re.MULTILINE))


def test_page_lists_every_environment_variable() -> None:
    sources = (source for source in python_sources() if source.in_package)
    read = {name for source in sources for name in _variables(source) if name.isupper()}
    assert {"OMNIGRAPH_HOME", "OMNIGRAPH_MAINTENANCE_CONCURRENCY", "JAVA_HOME", "AWS_ENDPOINT"} < read
    only_set = {"SPARK_CONNECT_MODE_ENABLED", "SPARK_CONNECT_AUTHENTICATE_TOKEN", "SPARK_LOCAL_REMOTE"}
    assert sorted(name for name in read - only_set if f"`{name}`" not in PAGE) == []


def test_every_way_to_read_a_variable_is_detected() -> None:
    text = """
A = "OMNIGRAPH_A"
b = environ.get("B_B") or os.environ["C_C"] or os.getenv("D_D") or "E_E" in os.environ
F_VARIABLES = ("F_F", "G_G")
"""
    assert set(_variables(SourceFile(ROOT, text))) == {"OMNIGRAPH_A", "B_B", "C_C", "D_D", "E_E", "F_F", "G_G"}


def _variables(source: SourceFile) -> Iterator[str]:
    """Yield Omnigraph's own names wherever they appear, and other names where the code reads the environment."""
    for node in ast.walk(source.tree):
        match node:
            case ast.Constant(str() as text) if re.fullmatch(r"OMNIGRAPH_[A-Z_]+", text):
                yield text
            case ast.Call(ast.Attribute(attr="get" | "pop" | "getenv") as function, [ast.Constant(str() as text), *_]):
                if "env" in ast.unparse(function):
                    yield text
            case ast.Subscript(value, ast.Constant(str() as text)) if "environ" in ast.unparse(value):
                yield text
            case ast.Compare(ast.Constant(str() as text), [ast.In()], [mapping]) if "environ" in ast.unparse(mapping):
                yield text
            case ast.Assign([ast.Name(name)], value) | ast.AnnAssign(ast.Name(name), _, value) if value:
                if name.endswith("_VARIABLES"):
                    yield from (str(part.value) for part in ast.walk(value) if isinstance(part, ast.Constant))
