"""The hash that chooses buckets is the same everywhere: golden numbers, slices, long strings, distribution."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from omnigraph.arrow.hashing import HashPrefilter, bucket_of, hash_texts
from omnigraph.base import limits
from tests.integrity.samples import texts

GOLDEN = {
    "": 0,
    "a": 6451634323970086170,
    "b": 17068422588889593933,
    "ada": 867646718087212531,
    "01HF7YAT3VZZZZZZZZZZZZZZZW": 1845494633216199536,
    '["ada","grace"]': 16908819346093413227,
    "\xe9": 9161539368726726617,
    "\U0001f701": 3684892609422494686,
    "\x00": 14231960559514782059,
    "x" * 1000: 2405224484324521918,
}


def test_the_hash_never_changes() -> None:
    assert dict(zip(GOLDEN, hash_texts(texts(list(GOLDEN))).tolist(), strict=True)) == GOLDEN
    of_equal_lengths = {value: set(hash_texts(texts([value, value])).tolist()) for value in GOLDEN}
    assert of_equal_lengths == {value: {number} for value, number in GOLDEN.items()}


def test_another_process_gives_the_same_buckets() -> None:
    program = (
        "import pyarrow as pa; from omnigraph.arrow.hashing import bucket_of;"
        "print(bucket_of(pa.array(['ada', 'é', '']), 1000).tolist())"
    )
    output = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert output.strip() == str(bucket_of(texts(["ada", "é", ""]), 1000).tolist())


@given(st.lists(st.text(max_size=8), max_size=10), st.integers(0, 3))
def test_the_hash_does_not_depend_on_the_position(values: list[str], skipped: int) -> None:
    alone = [int(hash_texts(texts([value]))[0]) for value in values[skipped:]]
    assert hash_texts(texts(values)[skipped:]).tolist() == alone


def test_strings_longer_than_a_chunk_and_columns_of_many_chunks() -> None:
    long = "x" * (3 * limits.TEXT_HASH_CHUNK_BYTES)
    values = ["a", long, "b", *(str(number) for number in range(200_000)), long + "y"]
    together = hash_texts(texts(values))
    assert len(np.unique(together)) == len(values)
    assert together[1] == hash_texts(texts([long]))[0]
    assert together[-2] == hash_texts(texts(["199999"]))[0]


def test_zero_bytes_and_lengths_count() -> None:
    assert len(set(hash_texts(texts(["", "\x00", "\x00\x00", "a", "a\x00"])).tolist())) == 5


def test_similar_strings_are_distributed_over_the_buckets() -> None:
    for values in ([f"person-{number:07d}" for number in range(50_000)], [str(n * 64) for n in range(50_000)]):
        sizes = np.bincount(bucket_of(texts(values), 50), minlength=50)
        assert sizes.min() > 800
        assert sizes.max() < 1200


def test_nulls_are_hashed() -> None:
    assert len(hash_texts(texts([None, "a", None]))) == 3
    assert len(hash_texts(pa.nulls(3, pa.utf8()))) == 3
    assert len(bucket_of(texts([]), 3)) == 0


def test_the_prefilter_accepts_all_members_and_rejects_most_others() -> None:
    members = [f"person-{number:07d}" for number in range(10_000)]
    prefilter = HashPrefilter(texts(members))
    assert prefilter.may_contain(texts(members)).all()
    others = [f"person-{number:07d}" for number in range(10_000, 30_000)]
    assert prefilter.may_contain(texts(others)).mean() < 0.1
    assert not HashPrefilter(texts([])).may_contain(texts(["a", "b"])).any()
