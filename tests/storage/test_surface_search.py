"""What search relies on in Lance: one test per behaviour, so that an upgrade which changes one fails here."""

from __future__ import annotations

from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest
from lance.query import MatchQuery, PhraseQuery

from omnigraph.engine.columns.scores import WordQuery, bm25_of_texts
from omnigraph.schema.property_types import IndexKind, TextOptions
from omnigraph.storage.lance.commit import commit_branch, commit_staged
from omnigraph.storage.lance.compaction import rewrite_fragments, stage_rewrite
from omnigraph.storage.lance.dataset import Dataset, create_dataset
from omnigraph.storage.lance.indexes import IndexPlan, IndexSpec, build_index_segment, commit_index_segments, plan_index
from omnigraph.storage.lance.search import IndexedTexts, read_indexed_texts
from omnigraph.storage.lance.stage import stage_upsert
from omnigraph.storage.lance.words import PLAIN_WORDS, count_words, fuzzy_words
from omnigraph.storage.location import Location
from tests.storage.raw_writes import stage_append, stage_delete

TEXT = IndexSpec("t", IndexKind.INVERTED)
VECTOR = IndexSpec("v", IndexKind.VECTOR)
SIZE = 8
WORDS = ("red", "fox", "hen", "blue", "bleu", "green")


def rows(first: int, count: int) -> pa.Table:
    generator = np.random.default_rng(first)
    vectors = generator.normal(size=(count, SIZE)).astype(np.float32)
    texts = [" ".join(generator.choice(WORDS, generator.integers(1, 6))) for _ in range(count)]
    return pa.table(
        {
            "id": [f"d{number}" for number in range(first, first + count)],
            "n": np.arange(first, first + count),
            "t": texts,
            "v": pa.FixedSizeListArray.from_arrays(pa.array(vectors.reshape(-1)), SIZE),
        }
    )


def add_segment(dataset: Dataset, spec: IndexSpec, fragments: list[int]) -> Dataset:
    plan = plan_index(dataset, spec)
    assert isinstance(plan, IndexPlan)
    return commit_index_segments(dataset, spec, [build_index_segment(dataset, plan, fragments)])


@pytest.fixture
def indexed(local_location: Location) -> Dataset:
    """Two segments of 60 rows each."""
    dataset = create_dataset(local_location, rows(0, 60))
    dataset = commit_staged(dataset, stage_append(dataset, rows(60, 60)))
    for spec in (TEXT, VECTOR):
        plan = plan_index(dataset, spec)
        assert isinstance(plan, IndexPlan)
        segments = [build_index_segment(dataset, plan, [part]) for part in (0, 1)]
        dataset = commit_index_segments(dataset, spec, segments)
    return dataset


def append(dataset: Dataset, first: int, count: int = 20) -> Dataset:
    return commit_staged(dataset, stage_append(dataset, rows(first, count)))


def update(dataset: Dataset, numbers: list[int], text: str, vector: list[float]) -> Dataset:
    changed = pa.table(
        {
            "id": [f"d{number}" for number in numbers],
            "n": numbers,
            "t": [text] * len(numbers),
            "v": pa.array([vector] * len(numbers), pa.list_(pa.float32(), SIZE)),
        }
    ).cast(dataset.schema)
    return commit_staged(dataset, stage_upsert(dataset, changed))


def search_ids(dataset: Dataset, query: MatchQuery | PhraseQuery, **options: Any) -> set[str]:
    scanner = dataset.native.scanner(
        columns=["id"], full_text_query=query, disable_scoring_autoprojection=True, **options
    )
    return {str(name) for name in scanner.to_table().column("id").to_pylist()}


def scanned_ids(dataset: Dataset, word: str) -> set[str]:
    table = dataset.read(["id", "t"])
    return {str(row["id"]) for row in table.to_pylist() if word in str(row["t"]).split()}


def nearest(dataset: Dataset, vector: np.ndarray[Any, Any], k: int, **options: Any) -> list[dict[str, Any]]:
    query = {"column": "v", "q": vector.astype(np.float32), "k": k, "metric": "cosine"}
    scanner = dataset.native.scanner(
        columns=["id", "n", "_distance"], nearest={**query, "refine_factor": 20, "nprobes": 4}, **options
    )
    rows_: list[dict[str, Any]] = scanner.to_table().to_pylist()
    return rows_


def exact_ids(dataset: Dataset, vector: np.ndarray[Any, Any], k: int) -> list[str]:
    table = dataset.read(["id", "v"])
    matrix = np.array(table.column("v").to_pylist())
    distances = 1 - matrix @ vector / (np.linalg.norm(matrix, axis=1) * np.linalg.norm(vector))
    return [str(table.column("id")[int(row)].as_py()) for row in np.argsort(distances)[:k]]


QUERY = np.array([1.0, -0.5, 0.25, 2.0, 0.0, 1.0, -1.0, 0.5])


def test_uncovered_rows_are_found_and_deleted_rows_are_not(indexed: Dataset) -> None:
    dataset = append(indexed, 120)
    staged = stage_delete(dataset, "n % 3 = 0")
    assert staged is not None
    dataset = commit_staged(dataset, staged)
    assert search_ids(dataset, MatchQuery("red", "t")) == scanned_ids(dataset, "red")
    assert [row["id"] for row in nearest(dataset, QUERY, 10)] == exact_ids(dataset, QUERY, 10)


def test_filter_is_applied_first(indexed: Dataset) -> None:
    dataset = append(indexed, 120)
    rows_ = nearest(dataset, QUERY, 5, filter="n % 20 = 1", prefilter=True)
    assert len(rows_) == 5
    assert {row["n"] % 20 for row in rows_} == {1}
    texts = search_ids(dataset, MatchQuery("red", "t"), filter="n < 20", prefilter=True)
    assert texts == {name for name in scanned_ids(dataset, "red") if int(name[1:]) < 20}


def test_scores_equal_the_formula_over_segments(indexed: Dataset) -> None:
    texts = indexed.read(["t"]).column("t").combine_chunks()
    query = WordQuery.of("red hen red")
    statistics = query.statistics(count_words(texts, query.array))
    expected = np.sort(bm25_of_texts(texts, query, statistics))
    scanner = indexed.native.scanner(columns=["_score"], full_text_query=MatchQuery("red hen red", "t"))
    scores = np.sort(scanner.to_table().column("_score").to_numpy())
    np.testing.assert_allclose(scores, expected[: len(scores)], rtol=1e-5)


def test_the_files_of_a_text_index_have_the_words_of_each_text(indexed: Dataset) -> None:
    """Also of deleted and updated rows, whose row ids tell them apart: statistics of a table need no text."""
    staged = stage_delete(indexed, "n < 10")
    assert staged is not None
    dataset = update(append(commit_staged(indexed, staged), 120), [20, 21], "red fox hen", [1.0] * SIZE)
    for handle in (dataset, append(commit_branch(dataset, "g-1"), 200)):
        covered = handle.read(["t"], "n >= 10 AND n < 120 AND n <> 20 AND n <> 21").column("t").to_pylist()
        words = sum(len(str(text).split()) for text in covered)
        uncovered = tuple(handle.fragment_rows())[2:]
        expected = IndexedTexts(entries=120, texts=108, words=words, uncovered=uncovered)
        assert read_indexed_texts(handle, "t") == expected
        assert not expected.has_table_scores
    assert read_indexed_texts(indexed, "t").has_table_scores
    native: Any = dataset.native_copy()
    native.create_scalar_index("t", "INVERTED", name="other", replace=False, **PLAIN_WORDS.index_settings)
    twice = read_indexed_texts(dataset.newest(), "t")
    words = sum(len(str(text).split()) for text in dataset.read(["t"]).column("t").to_pylist())
    assert (twice.texts, twice.words, twice.uncovered) == (dataset.count_rows(), words, ())


def test_the_texts_of_an_index_are_read_from_a_store(durable_location: Location) -> None:
    dataset = add_segment(create_dataset(durable_location, rows(0, 60)), TEXT, [0])
    words = sum(len(str(text).split()) for text in dataset.read(["t"]).column("t").to_pylist())
    assert read_indexed_texts(dataset, "t") == IndexedTexts(entries=60, texts=60, words=words, uncovered=())


def test_identities_of_a_text_query_include_deleted_rows(indexed: Dataset) -> None:
    """After their deletion was compacted. If this fails: `search_batches` can read identities instead of addresses."""
    staged = stage_delete(indexed, "n < 30")
    assert staged is not None
    dataset = commit_staged(indexed, staged)
    rewrite = rewrite_fragments(dataset, [0], 1_000)
    dataset = commit_staged(dataset, stage_rewrite(dataset, [rewrite.numbered(2)]))
    query = MatchQuery("red", "t")
    live = len(scanned_ids(dataset, "red"))
    scanner: Any = dataset.native.scanner
    counts = [
        scanner(columns=[], full_text_query=query, **{name: True}).to_table().num_rows
        for name in ("with_row_id", "with_row_address")
    ]
    assert counts[0] > counts[1] == live


def test_a_fuzzy_query_does_not_find_uncovered_rows(indexed: Dataset) -> None:
    """So `fuzzy` uses an index only if it covers all rows; then the default of 50 expansions loses rows."""
    query = MatchQuery("blue", "t", fuzziness=2, max_expansions=1_000_000)
    similar = scanned_ids(indexed, "blue") | scanned_ids(indexed, "bleu")
    assert search_ids(indexed, query) == similar
    dataset = append(indexed, 120)
    complete = scanned_ids(dataset, "blue") | scanned_ids(dataset, "bleu")
    assert search_ids(dataset, query) < complete


def test_the_default_of_a_fuzzy_query_loses_rows(local_location: Location) -> None:
    """If this fails: Lance compares a query with more than 50 similar words, and `_EXPANSIONS_MAX` is unnecessary."""
    names = [f"wor{letter}{other}" for letter in "abcdefghij" for other in "klmnopqrst"]
    dataset = create_dataset(local_location, pa.table({"id": names, "t": names}))
    dataset = add_segment(dataset, TEXT, [0])
    assert len(search_ids(dataset, MatchQuery("worxx", "t", fuzziness=2))) == 50
    assert search_ids(dataset, MatchQuery("worxx", "t", fuzziness=2, max_expansions=1_000_000)) == {*names}


def test_a_fuzzy_query_keeps_the_form_of_its_words(local_location: Location) -> None:
    """If this fails: Lance normalizes the words in a fuzzy query, and `fuzzy_words` is unnecessary."""
    dataset = create_dataset(local_location, pa.table({"id": ["a", "b"], "t": ["Running home", "cafés"]}))
    options = TextOptions(ascii_folding=True, stem="english")
    dataset = add_segment(dataset, IndexSpec("t", IndexKind.INVERTED, text=options), [0])
    for text, edits, ids in (("runs", 0, {"a"}), ("RUN", 1, set()), ("running", 1, set()), ("rum", 1, {"a"})):
        query = MatchQuery(text, "t", fuzziness=edits, max_expansions=1_000_000)
        assert search_ids(dataset, query) == ids, text
    assert search_ids(dataset, MatchQuery(fuzzy_words("RUNS", options) or "", "t", fuzziness=1)) == {"a"}
    more = commit_staged(dataset, stage_append(dataset, pa.table({"id": ["c"], "t": ["to the Cafe"]})))
    assert search_ids(more, MatchQuery("CAFÉS", "t")) == {"b", "c"}


@pytest.mark.parametrize("text", ["", "--", " ", "\u0964"])
def test_a_query_without_words_finds_nothing(indexed: Dataset, text: str) -> None:
    dataset = append(indexed, 120)
    for query in (MatchQuery(text, "t"), MatchQuery(text, "t", fuzziness=1), PhraseQuery(text, "t")):
        for options in ({}, {"limit": 3}, {"filter": "n < 130", "prefilter": True}):
            assert search_ids(dataset, query, **options) == set()


def test_a_limit_returns_the_best_texts(indexed: Dataset) -> None:
    scanner = append(indexed, 120).native.scanner
    scores = [
        np.sort(scanner(columns=["_score"], full_text_query=MatchQuery("red", "t"), limit=limit).to_table()["_score"])
        for limit in (7, None)
    ]
    np.testing.assert_array_equal(scores[0], scores[1][-7:])


def test_an_extended_text_index_finds_old_words(indexed: Dataset) -> None:
    """So a text index is built again after updates."""
    old = scanned_ids(indexed, "red") & {"d1", "d2", "d3", "d4", "d5", "d6", "d7"}
    assert old
    dataset = update(indexed, [int(name[1:]) for name in old], "zebra", [1.0] * SIZE)
    assert search_ids(dataset, MatchQuery("red", "t")) == scanned_ids(dataset, "red")
    dataset = add_segment(dataset, TEXT, [2])
    assert search_ids(dataset, MatchQuery("zebra", "t")) == old
    assert search_ids(dataset, MatchQuery("red", "t")) == scanned_ids(dataset, "red") | old


def test_an_extended_vector_index_finds_only_new_vectors(indexed: Dataset) -> None:
    """So a vector index is extended after updates. No row is returned twice."""
    first = exact_ids(indexed, QUERY, 3)
    dataset = update(indexed, [int(name[1:]) for name in first], "zebra", [-float(x) for x in QUERY])
    dataset = add_segment(dataset, VECTOR, [2])
    ids = [row["id"] for row in nearest(dataset, QUERY, 120)]
    assert len(ids) == len(set(ids)) == 120
    assert set(ids[-3:]) == set(first)
    assert ids[:10] == exact_ids(dataset, QUERY, 10)


def test_nulls_are_not_found(indexed: Dataset) -> None:
    """In covered and uncovered rows, so a condition that excludes them is unnecessary."""
    nulls = rows(120, 20).set_column(3, "v", pa.nulls(20, pa.list_(pa.float32(), SIZE)))
    dataset = commit_staged(indexed, stage_append(indexed, nulls))
    for covered in (dataset, add_segment(append(dataset, 140), VECTOR, [2, 3])):
        ids = {row["id"] for row in nearest(covered, QUERY, 200)}
        assert ids == {str(name) for name in covered.read(["id"], "v IS NOT NULL").column("id").to_pylist()}


def test_a_zero_vector_finds_nothing(indexed: Dataset) -> None:
    assert nearest(indexed, np.zeros(SIZE), 5) == []


def test_vectors_of_other_lengths_cannot_be_compressed(local_location: Location) -> None:
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(np.ones(600, np.float32)), 6)
    dataset = create_dataset(local_location, pa.table({"id": [str(n) for n in range(100)], "v": vectors}))
    native: Any = dataset.native
    with pytest.raises((ValueError, OSError, RuntimeError)):
        native.create_index("v", "IVF_RQ", metric="cosine", num_partitions=1, num_bits=4)


def test_phrases_are_consecutive_words_in_covered_and_uncovered_rows(indexed: Dataset) -> None:
    dataset = append(indexed, 120)
    table = dataset.read(["id", "t"]).to_pylist()
    expected = {str(row["id"]) for row in table if " red fox " in f" {row['t']} "}
    assert search_ids(dataset, PhraseQuery("red fox", "t")) == expected


def test_a_fork_and_an_old_version_use_their_own_segments(indexed: Dataset) -> None:
    before = scanned_ids(indexed, "red")
    fork = append(commit_branch(indexed, "g-1"), 200)
    assert search_ids(fork, MatchQuery("red", "t")) == scanned_ids(fork, "red") > before
    assert [row["id"] for row in nearest(fork, QUERY, 10)] == exact_ids(fork, QUERY, 10)
    newest = append(indexed, 300)
    assert search_ids(newest.at_version(indexed.version), MatchQuery("red", "t")) == before


def test_an_index_without_a_maximum_word_length_hides_a_btree(local_location: Location) -> None:
    """So the maximum is a large number. It still keeps long words."""
    dataset = create_dataset(local_location, rows(0, 30))
    native: Any = dataset.native
    settings = {**PLAIN_WORDS.index_settings, "with_position": True}
    native.create_scalar_index("t", "INVERTED", name="t_inverted", **{**settings, "max_token_length": None})
    native.create_scalar_index("t", "BTREE", name="t_btree", replace=False)
    assert "t_btree" not in native.scanner(filter="t = 'red'").explain_plan()
    native.create_scalar_index("t", "INVERTED", name="t_inverted", replace=True, **settings)
    assert "t_btree" in native.scanner(filter="t = 'red'").explain_plan()
    tokenize: Any = lance.tokenize
    assert [token.text for token in tokenize("a" * 100_000, **PLAIN_WORDS.index_settings)] == ["a" * 100_000]
