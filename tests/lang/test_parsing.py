"""The packaged parsers: up to date, equal to a built parser, and not used if they are outdated."""

from __future__ import annotations

import pickletools
import shutil
from pathlib import Path

import lark
import pytest

from omnigraph.lang.builder import InvalidEscape, unescape
from omnigraph.lang.parsing import build_parser, load_parser, make_saved_parser, saved_parser_path
from omnigraph.query.parser import GRAMMAR as QUERY
from omnigraph.schema.parser import GRAMMAR as SCHEMA
from tests.query.golden_files import GOOD as QUERIES
from tests.schema.golden_files import GOOD as SCHEMAS

BOTH = pytest.mark.parametrize("grammar", [SCHEMA, QUERY], ids=lambda grammar: grammar.stem)


def is_loaded(parser: lark.Lark) -> bool:
    """Return whether lark loaded the parser, instead of building it from a grammar."""
    return parser.source_path == "<deserialized>"


def copy_of(grammar: Path, folder: Path) -> Path:
    shutil.copy(saved_parser_path(grammar), folder)
    return Path(shutil.copy(grammar, folder))


@BOTH
def test_the_saved_parser_is_up_to_date(grammar: Path, update_golden: bool) -> None:
    """Lark numbers states differently every time, so the fingerprint is compared, not the content."""
    is_outdated = not is_loaded(load_parser(grammar))
    if is_outdated and update_golden:
        saved_parser_path(grammar).write_bytes(make_saved_parser(grammar))
        load_parser.cache_clear()
        is_outdated = False
    assert not is_outdated, "write it with --update-golden"


@BOTH
def test_the_saved_parser_parses_like_the_grammar(grammar: Path) -> None:
    loaded, built = load_parser(grammar), build_parser(grammar)
    assert is_loaded(loaded)
    folder, ending = (QUERIES, "gq") if grammar is QUERY else (SCHEMAS, "pg")
    texts = [path.read_text("utf-8") for path in sorted(folder.rglob(f"*.{ending}"))]
    assert texts
    for text in texts:
        actual, expected = loaded.parse(text), built.parse(text)
        assert actual == expected
        assert [tree.meta.__dict__ for tree in actual.iter_subtrees()] == [
            tree.meta.__dict__ for tree in expected.iter_subtrees()
        ]


@BOTH
def test_the_saved_parser_contains_only_values(grammar: Path) -> None:
    """Lark saves with pickle, which can also call functions; these files must not."""
    pickled = saved_parser_path(grammar).read_bytes().partition(b"\n")[2]
    operations = {operation.name for operation, _, _ in pickletools.genops(pickled)}
    assert not operations & {"GLOBAL", "STACK_GLOBAL", "REDUCE", "BUILD", "INST", "OBJ", "NEWOBJ", "NEWOBJ_EX"}


@BOTH
def test_a_parser_of_another_version_is_not_used(
    grammar: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lark, "__version__", "1.99")
    assert not is_loaded(load_parser(copy_of(grammar, tmp_path)))


def test_a_parser_of_another_grammar_is_not_used(tmp_path: Path) -> None:
    grammar = copy_of(QUERY, tmp_path)
    grammar.write_text(grammar.read_text("utf-8").replace(r"/query\b/", r"/question\b/"), encoding="utf-8")
    parser = load_parser(grammar)
    assert parser.parse("question q() { match { $p: Person } return { $p } }").data == "start"


@BOTH
def test_a_missing_parser_is_built_from_the_grammar(grammar: Path, tmp_path: Path) -> None:
    assert not is_loaded(load_parser(Path(shutil.copy(grammar, tmp_path))))


@pytest.mark.parametrize(
    ("inner", "expected"),
    [
        (r"\n \ud800", InvalidEscape(3, 6, r"unpaired surrogate escape `\ud800`")),
        (r"\ud83d\ude00 \udE00", InvalidEscape(13, 6, r"unpaired surrogate escape `\udE00`")),
        (r"\ud83d\ud83d\ude00", InvalidEscape(0, 6, r"unpaired surrogate escape `\ud83d`")),
        (r"\ud83d \ude00", InvalidEscape(0, 6, r"unpaired surrogate escape `\ud83d`")),
        (r"\\ud800", r"\ud800"),
        (r"\ud83d\ude00", "\U0001f600"),
        (r"a\qb", InvalidEscape(1, 2, r"unknown escape `\q` in a string")),
    ],
)
def test_the_position_of_an_invalid_escape(inner: str, expected: str | InvalidEscape) -> None:
    assert unescape(inner) == expected
