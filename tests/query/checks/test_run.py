"""`check_query` checks only the query that a name selects."""

from __future__ import annotations

import pytest

from omnigraph.base.errors import OmnigraphError
from omnigraph.query.checks.run import check_query
from omnigraph.query.parser import parse_queries
from tests.query.golden_files import catalog

GOOD = "query good() { match { $p: Person } return { $p.slug } }\n"
OPEN = "query open() { match { $p: Person $p knows{1,} $q } return { $q.slug } }\n"


def test_only_the_selected_query_is_checked() -> None:
    file = parse_queries(GOOD + OPEN)
    assert check_query(file, "good", catalog()).name == "good"
    assert check_query(file, "open", catalog(), hops_ceiling=3).name == "open"
    assert check_query(parse_queries(GOOD), None, catalog()).name == "good"


@pytest.mark.parametrize(
    ("text", "name", "code"),
    [
        (GOOD + OPEN, "open", "T206"),
        (GOOD + OPEN, "opne", "query_missing"),
        (GOOD + OPEN, None, "query_unnamed"),
        (GOOD + GOOD, "good", "T107"),
    ],
)
def test_unselectable_query_raises(text: str, name: str | None, code: str) -> None:
    with pytest.raises(OmnigraphError) as caught:
        check_query(parse_queries(text), name, catalog())
    assert caught.value.code == code
    assert caught.value.hint
