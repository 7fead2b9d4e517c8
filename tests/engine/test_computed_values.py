"""Computed values of mutations: from parameters and literals, and in an update from the row itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import pytest

import omnigraph as og
from omnigraph.base.errors import RunError
from omnigraph.engine.mutation.run import MutationRejectedError

SCHEMA: Final = """\
node P {
  k: String @key
  n: I32?
  u: U64?
  f: F32?
  d: F64 @default(1.5)
  b: Bool?
  s: enum(low, high)?
  t: String?
  day: Date?
  tags: [String]?
  v: Vector(2)?
  photo: Blob?
  @range(n, 0..99)
}
edge E: P -> P { w: I64? }
"""


@pytest.fixture
def graph(tmp_path: Path) -> og.Graph:
    graph = og.init(str(tmp_path / "graph.omni"), SCHEMA)
    graph.mutate(
        """query seed($two: I64, $day: Date) {
          insert P { k: "a", n: 1 + $two, u: 2 * 4, f: $two / 4, b: $two > 1, s: "low", t: "high", day: $day }
          insert P { k: "b", n: -1 + 1, b: $two > 1 and not $two in [2, 3], tags: ["x"], v: [1, 0],
                     photo: "base64:YQ==" }
          insert P { k: "c", d: 7 - 5, b: $day < date("2026-01-02"), t: "none" }
          insert E { from: "a", to: "b", w: $two * 5 } insert E { from: "b", to: "b" }
        }""",
        params={"two": 2, "day": "2026-01-01"},
    )
    return graph


def rows(graph: og.Graph, shown: str) -> list[tuple[Any, ...]]:
    columns = ", ".join(f"$p.{name}" for name in shown.split())
    result = graph.query(f"query q() {{ match {{ $p: P }} return {{ {columns} }} order {{ $p.k }} }}")
    return [tuple(row.values()) for row in result.to_pylist()]


def test_insert_computes_from_parameters(graph: og.Graph) -> None:
    assert rows(graph, "k n u f d b") == [
        ("a", 3, 8, 0.5, 1.5, True),
        ("b", 0, None, None, 1.5, False),
        ("c", None, None, None, 2.0, True),
    ]


def test_update_reads_the_row_before_the_statement(graph: og.Graph) -> None:
    result = graph.mutate(
        """query m($by: I32) {
          update P set { n: n + $by, u: n, f: n / 0, b: photo is not null, t: k, tags: tags, v: v } where true
          update P set { n: n * 2, d: d + n } where n is not null
        }""",
        params={"by": 1},
    )
    assert result.nodes.updated == 3
    assert rows(graph, "k n u f d b t tags v") == [
        ("a", 8, 3, None, 5.5, False, "a", None, None),
        ("b", 2, 0, None, 2.5, True, "b", ["x"], [1.0, 0.0]),
        ("c", None, None, None, 2.0, False, "c", None, None),
    ]


def test_update_reads_rows_inserted_by_the_same_mutation(graph: og.Graph) -> None:
    graph.mutate("""query m() {
      insert P { k: "d", n: 10 }
      update P set { n: n + 1, b: k = "d" } where k in ["a", "d"]
    }""")
    assert rows(graph, "k n b") == [("a", 4, False), ("b", 0, False), ("c", None, True), ("d", 11, True)]


def test_edge_update_reads_endpoints(graph: og.Graph) -> None:
    graph.mutate("query m() { update E set { w: w + 1 } where from = to or w is not null }")
    result = graph.query("query q() { match { $a $e:e $b } return { $a.k, $b.k, $e.w } order { $a.k } }")
    assert [tuple(row.values()) for row in result.to_pylist()] == [("a", "b", 11), ("b", "b", None)]


@pytest.mark.parametrize(
    ("statement", "codes"),
    [
        ('update P set { n: n * 100 } where k = "a"', {"V202"}),
        ('update P set { n: u * 1000000000 } where k = "a"', {"V104"}),
        ('update P set { s: t } where k in ["a", "c"]', {"V201"}),
        ("update P set { d: f } where true", {"V101"}),
        ('insert P { k: "d", d: 1.0 / 0 }', set()),
        ('insert P { k: "d", n: 50 * 50 }', {"V202"}),
    ],
)
def test_computed_values_that_violate_rules_are_reported(graph: og.Graph, statement: str, codes: set[str]) -> None:
    before = rows(graph, "k n d s")
    if not codes:
        # Null is the same as a missing value, so the default is stored.
        graph.mutate(f"query m() {{ {statement} }}")
        assert rows(graph, "k d")[-1] == ("d", 1.5)
        return
    with pytest.raises(MutationRejectedError) as caught:
        graph.mutate(f"query m() {{ {statement} }}")
    assert {error.rule.code for error in caught.value.report.first} == codes
    assert rows(graph, "k n d s") == before


def test_integer_overflow_is_an_error(graph: og.Graph) -> None:
    with pytest.raises(RunError) as caught:
        graph.mutate("query m() { update P set { u: u + 9223372036854775807 } where true }")
    assert caught.value.code == "integer_overflow"


def test_inline_values_and_repeated_bindings_filter(graph: og.Graph) -> None:
    def keys(match: str) -> list[Any]:
        result = graph.query(
            f"query q($two: I64) {{ match {{ {match} }} return {{ $p.k as k }} order {{ k }} }}", params={"two": 2}
        )
        return [row["k"] for row in result.to_pylist()]

    assert keys("$p: P { n: $two + 1 }") == ["a"]
    assert keys("$p: P { b: $two > 1 }") == ["a", "c"]
    assert keys('$p: P { b: $two > 1 }  $p: P { t: "none" }') == ["c"]
    assert keys("$p: P  not { $p: P { b: $two > 1 } }") == ["b"]
    assert keys('$p e $q  $q: P { n: $two - 2 }  $q: P { tags: "x" }') == ["a", "b"]
    assert keys('$p: P { day: date("2026-01-01") }  $two > 1 or $p.k = "z"') == ["a"]


def test_items_of_lists_and_vectors_are_computed(graph: og.Graph) -> None:
    graph.mutate(
        """query m($tag: String, $x: I32, $f: F32) {
          insert P { k: "d", n: 4, tags: [$tag, "x"], v: [$f, $x / 4] }
          update P set { tags: [k, $tag], v: [n, -$x] } where k in ["a", "d"]
          insert P { k: "e", tags: ["y", $tag], v: [1, $f] }
        }""",
        params={"tag": "t", "x": 2, "f": 0.5},
    )
    assert rows(graph, "k tags v")[0] == ("a", ["a", "t"], [3.0, -2.0])
    assert rows(graph, "k tags v")[3:] == [("d", ["d", "t"], [4.0, -2.0]), ("e", ["y", "t"], [1.0, 0.5])]


@pytest.mark.parametrize(
    ("values", "code", "message"),
    [
        ("tags: [$n, $s]", "T310", "`tags[0]`: expected String, got I64"),
        ("tags: [$s, 3]", "T306", "`tags[1]`: expected String, got `3`"),
        ("tags: [$s, null]", "T607", "`tags[1]` cannot be null"),
        ("v: [$n + 1]", "T404", "`v`: wrong vector length: expected 2, got 1"),
        ("t: [$s]", "T306", "`t`: expected String, got a list"),
    ],
)
def test_item_of_wrong_type_is_an_error(graph: og.Graph, values: str, code: str, message: str) -> None:
    with pytest.raises(og.OmnigraphError) as caught:
        graph.mutate(f'query m($s: String, $n: I64) {{ insert P {{ k: "z", {values} }} }}', params={"s": "a", "n": 1})
    shown = f"{caught.value} {caught.value.facts}"
    assert code in shown
    assert message in shown


@pytest.mark.parametrize("values", ["tags: [k, t]", "v: [n / 0, 1]"])
def test_item_computed_as_null_is_rejected(graph: og.Graph, values: str) -> None:
    graph.mutate('query m() { insert P { k: "z", n: 1 } }')
    with pytest.raises(MutationRejectedError, match="null"):
        graph.mutate(f'query m() {{ update P set {{ {values} }} where k = "z" }}')


@pytest.mark.parametrize(
    ("value", "hint"),
    [
        ('day: datetime("2026-01-01T00:00:00Z")', 'write `date("2024-05-31")`'),
        ('at: date("2026-01-01")', 'write `datetime("2024-05-31T12:00:00Z")`'),
        ('t: date("2026-01-01")', "write the text in double quotes, without `date`"),
    ],
)
def test_hint_for_time_literal_of_another_type(tmp_path: Path, value: str, hint: str) -> None:
    graph = og.init(str(tmp_path / "g.omni"), "node P { day: Date? at: DateTime? t: String? }")
    with pytest.raises(og.OmnigraphError) as caught:
        graph.mutate(f"query m() {{ insert P {{ {value} }} }}")
    assert hint in str(caught.value)
