"""The packaged tables: up to date, the same parser as a built one, and not used if they are outdated."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import lark
import pytest

import omnigraph
from omnigraph.lang.parsing import Grammar, build_parser, load_parser, table_text
from omnigraph.query.parser import GRAMMAR as QUERY
from omnigraph.schema.parser import GRAMMAR as SCHEMA
from tests.query.golden_files import GOOD as QUERIES
from tests.schema.golden_files import GOOD as SCHEMAS

BOTH = pytest.mark.parametrize("grammar", [SCHEMA, QUERY], ids=lambda grammar: grammar.name)


@BOTH
def test_the_table_is_up_to_date(grammar: Grammar, update_golden: bool) -> None:
    """Lark numbers states differently every time, so only the origin of the table is compared."""
    is_outdated = load_parser(grammar).source_path != "<table>"
    if is_outdated and update_golden:
        package = Path(omnigraph.__file__).parent / grammar.package.rpartition(".")[2]
        (package / f"{grammar.name}.table.json").write_text(table_text(grammar), encoding="utf-8")
        is_outdated = False
    assert not is_outdated, "write it with --update-golden"


@BOTH
def test_the_table_parses_like_the_grammar(grammar: Grammar) -> None:
    loaded, built = load_parser(grammar), build_parser(grammar)
    assert loaded.source_path == "<table>"
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
def test_a_table_of_another_version_is_not_used(grammar: Grammar, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lark, "__version__", "1.99")
    assert load_parser(grammar).source_path != "<table>"


def test_a_table_of_another_grammar_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "changed_grammar"
    folder.mkdir()
    (folder / "__init__.py").write_text("")
    (folder / "query.table.json").write_text(QUERY.table)
    (folder / "query.lark").write_text(QUERY.text.replace(r"/query\b/", r"/question\b/"))
    monkeypatch.syspath_prepend(str(tmp_path))
    parser = load_parser(replace(QUERY, package="changed_grammar"))
    assert parser.parse("question q() { match { $p: Person } return { $p } }").data == "start"
