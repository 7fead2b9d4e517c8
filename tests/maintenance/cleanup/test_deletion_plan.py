"""Which files are deleted, and in which order, with plain values."""

from __future__ import annotations

import pytest

from omnigraph.maintenance.cleanup.deletion_plan import (
    DeletionRules,
    Reason,
    emptied_directory,
    find_all_deletable,
    ref_times,
    version_times,
)
from omnigraph.maintenance.cleanup.retention import Needs, RetentionDecision, RetentionPolicy
from omnigraph.storage.files import StoredFile
from omnigraph.storage.lance.layout import file_group_keys, split_branch

NOW = 1_000_000
POLICY = RetentionPolicy(now_us=NOW, keep=1, older_than_us=None, grace_us=5_000, age_us_min=100)
LIVE, DELETED = "A" * 26, "B" * 26
FORK = f"g-{DELETED}-{'0' * 26}"
NEEDS = Needs(pins=frozenset(), heads=frozenset(), live=frozenset({LIVE}))


def old(*paths: str) -> list[StoredFile]:
    return [StoredFile(path, 1, 0) for path in paths]


def manifest(version: int) -> str:
    return f"_versions/{2**64 - 1 - version:020d}.manifest"


def deletable(
    files: list[StoredFile], retained: set[str], others: set[str], decision: RetentionDecision | None = None
) -> list[tuple[Reason, str]]:
    chosen = decision or RetentionDecision({None: frozenset({2})}, (), frozenset())
    files_to_delete = DeletionRules(
        decision=chosen,
        retained=file_group_keys(retained),
        referenced=file_group_keys(others),
        needs=NEEDS,
        policy=POLICY,
    ).find_deletable(files)
    return [(file.reason, file.path) for file in files_to_delete]


def test_order_versions_then_their_files_then_orphans() -> None:
    files = old(manifest(1), manifest(2), "data/a.lance", "data/b.lance", "data/c.lance", "_transactions/1.txn")
    files_to_delete = deletable(files, {"data/b.lance"}, {"data/a.lance", "data/b.lance", "_transactions/1.txn"})
    assert files_to_delete == [
        (Reason.VERSION, manifest(1)),
        (Reason.UNREACHED, "_transactions/1.txn"),
        (Reason.UNREACHED, "data/a.lance"),
        (Reason.ORPHAN, "data/c.lance"),
    ]


def test_files_of_a_data_file_or_an_index_are_deleted_with_it() -> None:
    files = old("data/a.lance", "data/a/1.blob", "data/b/1.blob", "_indices/u/x.lance", "_indices/v/x.lance")
    files_to_delete = deletable(files, {"data/a.lance", "_indices/u/other.lance"}, {"data/b.lance"})
    assert files_to_delete == [(Reason.UNREACHED, "data/b/1.blob"), (Reason.ORPHAN, "_indices/v/x.lance")]


@pytest.mark.parametrize(
    ("path", "age", "is_deleted"),
    [
        ("data/a.lance", 5_001, True),
        ("data/a.lance", 5_000, False),
        ("_indices/u/a.lance", 5_001, True),
        ("_deletions/a.arrow", 5_000, False),
        ("data/a.lance#1", 5_001, True),
        (f"{manifest(2)}#7", 5_001, True),
        ("_versions/latest_version_hint.json", 5_001, False),
        ("_versions/d1.manifest", 5_001, False),
        ("_refs/tags/t.json", 5_001, False),
        ("notes.txt", 5_001, False),
        (f"tree/{FORK}/data/a.lance", 101, True),
        (f"tree/{FORK}/data/a.lance", 100, False),
        (f"tree/g-{LIVE}-{'0' * 26}/data/a.lance", 5_000, False),
        (f"tree/g-{LIVE}-{'0' * 26}/data/a.lance", 5_001, True),
        ("tree/theirs/part/data/a.lance", 5_000, False),
    ],
)
def test_unreferenced_file_is_deleted_after_the_grace(path: str, age: int, is_deleted: bool) -> None:
    files_to_delete = deletable([StoredFile(path, 1, NOW - age)], set(), set())
    assert files_to_delete == ([(Reason.ORPHAN, path)] if is_deleted else [])


def test_young_file_of_an_old_version_is_deleted() -> None:
    assert deletable([StoredFile("data/a.lance", 1, NOW)], set(), {"data/a.lance"}) == [
        (Reason.UNREACHED, "data/a.lance")
    ]


def test_fork_is_deleted_first_with_manifests_first_and_ref_last() -> None:
    child = f"g-{DELETED}-{'1' * 26}"
    files = old(
        manifest(1),
        f"_refs/branches/{FORK}.json",
        f"_refs/branches/{child}.json",
        f"tree/{FORK}/data/a.lance",
        f"tree/{FORK}/{manifest(3)}",
        f"tree/{FORK}/_versions/latest_version_hint.json",
        f"tree/{child}/{manifest(3)}",
    )
    decision = RetentionDecision({None: frozenset({2})}, (child, FORK), frozenset())
    assert [path for _, path in deletable(files, set(), set(), decision)] == [
        f"tree/{child}/{manifest(3)}",
        f"_refs/branches/{child}.json",
        f"tree/{FORK}/{manifest(3)}",
        f"tree/{FORK}/_versions/latest_version_hint.json",
        f"tree/{FORK}/data/a.lance",
        f"_refs/branches/{FORK}.json",
        manifest(1),
    ]


def test_branch_keeps_files_of_its_parent() -> None:
    decision = RetentionDecision({None: frozenset({2}), FORK: frozenset({3})}, (), frozenset())
    files = old("data/a.lance", f"tree/{FORK}/data/a.lance", f"tree/{FORK}/{manifest(2)}")
    files_to_delete = deletable(files, {"data/a.lance"}, {f"tree/{FORK}/data/a.lance"}, decision)
    assert files_to_delete == [
        (Reason.VERSION, f"tree/{FORK}/{manifest(2)}"),
        (Reason.UNREACHED, f"tree/{FORK}/data/a.lance"),
    ]


@pytest.mark.parametrize(
    ("ages", "is_in_manifest", "is_deleted"),
    [((101, 200), True, True), ((100, 200), True, False), ((5_001, 5_001), False, True),
     ((5_001, 5_000), False, False)],
)  # fmt: skip
def test_whole_dataset_is_deleted_when_all_files_are_old(
    ages: tuple[int, ...], is_in_manifest: bool, is_deleted: bool
) -> None:
    paths = ("data/a.lance", manifest(1))
    files = [StoredFile(path, 1, NOW - age) for path, age in zip(paths, ages, strict=True)]
    files_to_delete = find_all_deletable(files, POLICY, is_in_manifest=is_in_manifest)
    assert [file.path for file in files_to_delete] == ([manifest(1), "data/a.lance"] if is_deleted else [])


def test_versions_and_refs_from_a_listing() -> None:
    files = [
        StoredFile(manifest(7), 1, 70),
        StoredFile("_versions/3.manifest", 1, 30),
        StoredFile(f"tree/{FORK}/{manifest(8)}", 1, 80),
        StoredFile(f"_refs/branches/{FORK}.json", 1, 75),
        StoredFile("_versions/latest_version_hint.json", 1, 90),
    ]
    assert version_times(files) == {None: {7: 70, 3: 30}, FORK: {8: 80}}
    assert ref_times(files) == {FORK: 75}


@pytest.mark.parametrize(
    ("path", "branch", "rest"),
    [
        ("data/a.lance", None, "data/a.lance"),
        (f"tree/{FORK}/data/a/b.blob", FORK, "data/a/b.blob"),
        ("tree/a/b/_versions/1.manifest", "a/b", "_versions/1.manifest"),
        ("tree/a/strange", "a", "strange"),
    ],
)
def test_lance_branch_of_a_file(path: str, branch: str | None, rest: str) -> None:
    assert split_branch(path) == (branch, rest)


def test_directories_that_are_empty_afterwards() -> None:
    decision = RetentionDecision({None: frozenset({2})}, (FORK,), frozenset())
    files = old(f"tree/{FORK}/data/a.lance", "_indices/u/x.lance", "data/b.lance", "data/b/1.blob", manifest(1))
    files_to_delete = DeletionRules(
        decision=decision, retained=frozenset(), referenced=frozenset(), needs=NEEDS, policy=POLICY
    ).find_deletable(files)
    assert {emptied_directory(file) for file in files_to_delete} == {f"tree/{FORK}", "_indices/u", "data/b", None}
