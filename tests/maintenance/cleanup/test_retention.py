"""Every rule of retention, one by one, with plain values."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from omnigraph.base import limits
from omnigraph.graph.manifest.records import Pin
from omnigraph.maintenance.cleanup.retention import (
    DatasetFacts,
    Fork,
    KeepReason,
    Needs,
    RetentionPolicy,
    VersionTimes,
    decide,
    kept_by_policy,
    owner_of,
    young_versions,
)

NOW, AGE, GRACE = 1_000_000, 100, 5_000
LIVE, DELETED = "A" * 26, "B" * 26
OP = "0" * 26
OLD: VersionTimes = dict.fromkeys(range(1, 7), 0)
NOTHING = Needs(pins=frozenset(), heads=frozenset(), live=frozenset({LIVE}))
OF_A_MERGE = Needs(pins=frozenset({Pin(f"g-{DELETED}-{OP}", 6)}), heads=frozenset(), live=frozenset())


def policy(keep: int | None = 1, older_than: int | None = None) -> RetentionPolicy:
    return RetentionPolicy(now_us=NOW, keep=keep, older_than_us=older_than, grace_us=GRACE, age_us_min=AGE)


def fork(owner: str, parent: Pin, made: int = 0, number: int = 0) -> Fork:
    return Fork(f"g-{owner}-{number:026d}", parent, made)


def facts(
    times: VersionTimes = OLD,
    *forks: Fork,
    version_times: Mapping[str | None, VersionTimes] | None = None,
    tags: frozenset[Pin] = frozenset(),
) -> DatasetFacts:
    branches: dict[str | None, VersionTimes] = {
        None: times,
        **{made.name: {6: 0} for made in forks},
        **(version_times or {}),
    }
    return DatasetFacts(branches, {made.name: made for made in forks}, tags)


def test_order_of_the_minimum_ages() -> None:
    assert limits.LEASE_SECONDS + limits.LEASE_WAIT_SECONDS_MAX < limits.CLEANUP_AGE_SECONDS_MIN
    assert limits.STAGING_AGE_SECONDS_MAX < limits.ORPHAN_GRACE_SECONDS_MIN <= limits.ORPHAN_GRACE_SECONDS


@pytest.mark.parametrize(
    ("options", "times", "expected"),
    [
        (policy(1), OLD, {6}),
        (policy(3), OLD, {4, 5, 6}),
        (policy(99), OLD, {1, 2, 3, 4, 5, 6}),
        (policy(2), {1: 0, 5: 0, 9: 0}, {5, 9}),
        (policy(None, 500), {1: 0, 2: NOW - 501, 3: NOW - 500, 4: NOW - 400}, {3, 4}),
        (policy(None, 0), OLD, {6}),
        (policy(2, 500), {1: 0, 2: NOW - 300, 3: 0, 4: 0}, {2, 3, 4}),
        (policy(1), {1: 0, 2: 0, 3: NOW - AGE}, {2, 3}),
        (policy(1), {1: 0, 2: NOW - AGE - 1, 3: NOW - AGE - 1}, {3}),
        (policy(1), {1: NOW + 50, 2: 0, 3: 0}, {1, 3}),
        (policy(1), {}, set()),
    ],
    ids=["newest", "three", "more_than_there_are", "gaps", "age", "age_zero", "both", "current_recently",
         "current_long_ago", "from_the_future", "no_version"],
)  # fmt: skip
def test_policy(options: RetentionPolicy, times: VersionTimes, expected: set[int]) -> None:
    assert kept_by_policy(times, options) | young_versions(times, options) == expected


@pytest.mark.parametrize(
    ("keep", "published", "expected"),
    [
        (1, {1, 3, 6}, {6}),
        (2, {1, 3, 6}, {3, 6}),
        (3, {1, 3, 6}, {1, 3, 6}),
        (2, {1, 3}, {1, 3, 6}),
        (2, {1, 3, 9}, {1, 3, 6}),
        (2, set(), {6}),
    ],
    ids=["newest", "two", "three", "newest_is_internal", "one_is_missing", "none"],
)
def test_only_published_versions_count(keep: int, published: set[int], expected: set[int]) -> None:
    assert kept_by_policy(OLD, policy(keep), published=frozenset(published)) == expected


def test_published_versions_count_per_lance_branch() -> None:
    made = fork(LIVE, Pin(None, 2))
    published = frozenset({Pin(None, 1), Pin(None, 6), Pin(made.name, 3), Pin(made.name, 5)})
    needs = Needs(pins=frozenset({Pin(made.name, 5)}), heads=frozenset(), live=frozenset({LIVE}), published=published)
    times = dict.fromkeys(range(3, 6), 0)
    decision = decide(facts(OLD, made, version_times={made.name: times}), needs, policy(2))
    assert decision.retained == {None: {1, 2, 6}, made.name: {3, 5}}


@pytest.mark.parametrize(
    ("needs", "tags", "times", "reasons"),
    [
        (NOTHING, (), OLD, {}),
        (NOTHING, (), {1: 0, 2: 0, 3: NOW - AGE}, {2: KeepReason.YOUNG}),
        (NOTHING, (2,), OLD, {2: KeepReason.TAG}),
        (Needs(pins=frozenset({Pin(None, 2)}), heads=frozenset(), live=frozenset()), (2,), OLD, {2: KeepReason.TAG}),
        (Needs(pins=frozenset({Pin(None, 2)}), heads=frozenset(), live=frozenset()), (), OLD, {2: KeepReason.SNAPSHOT}),
        (
            Needs(
                pins=frozenset({Pin(None, 2)}),
                heads=frozenset(),
                live=frozenset(),
                reasons={Pin(None, 2): KeepReason.MERGE_BASE},
            ),
            (),
            OLD,
            {2: KeepReason.MERGE_BASE},
        ),
        (Needs(pins=frozenset(), heads=frozenset({Pin(None, 6)}), live=frozenset()), (), OLD, {}),
        (
            Needs(pins=frozenset({Pin(None, 4)}), heads=frozenset({Pin(None, 4)}), live=frozenset()),
            (4,),
            OLD,
            {4: KeepReason.BRANCH, 5: KeepReason.UNPUBLISHED},
        ),
    ],
    ids=["nothing", "young", "tag", "tag_before_snapshot", "snapshot", "merge_base", "newest", "branch"],
)
def test_reasons(needs: Needs, tags: tuple[int, ...], times: VersionTimes, reasons: dict[int, KeepReason]) -> None:
    """Only versions that the policy would delete have a reason."""
    decision = decide(facts(times, tags=frozenset(Pin(None, tag) for tag in tags)), needs, policy())
    assert decision.reasons == {Pin(None, version): reason for version, reason in reasons.items()}


def test_pins_heads_and_tags_are_retained() -> None:
    needs = Needs(pins=frozenset({Pin(None, 2)}), heads=frozenset({Pin(None, 5)}), live=frozenset({LIVE}))
    decision = decide(facts(OLD, tags=frozenset({Pin(None, 3)})), needs, policy())
    assert decision.retained == {None: {2, 3, 5, 6}}
    assert decision.missing == frozenset()


def test_versions_above_the_published_one_are_retained() -> None:
    """An external tool moved the head: repair must see every version of it."""
    needs = Needs(pins=frozenset(), heads=frozenset({Pin(None, 3)}), live=frozenset({LIVE}))
    assert decide(facts(OLD), needs, policy()).retained == {None: {3, 4, 5, 6}}


def test_missing_needed_version_is_reported() -> None:
    needs = Needs(pins=frozenset({Pin(None, 9)}), heads=frozenset({Pin("g-x", 1)}), live=frozenset())
    assert decide(facts(OLD), needs, policy()).missing == {Pin(None, 9), Pin("g-x", 1)}


def test_base_of_a_branch_is_retained_with_the_branch() -> None:
    made = fork(LIVE, Pin(None, 2))
    needs = Needs(pins=frozenset({Pin(made.name, 6)}), heads=frozenset(), live=frozenset({LIVE}))
    decision = decide(facts(OLD, made), needs, policy())
    assert decision.retained == {None: {2, 6}, made.name: {6}}
    after = decide(facts(OLD, made), NOTHING, policy())
    assert after.retained == {None: {6}}
    assert after.deletable_forks == (made.name,)


@pytest.mark.parametrize(
    ("made", "needs", "is_retained"),
    [
        (fork(DELETED, Pin(None, 1)), NOTHING, False),
        (fork(DELETED, Pin(None, 1), made=NOW - AGE), NOTHING, True),
        (fork(DELETED, Pin(None, 1), made=NOW - AGE - 1), NOTHING, False),
        (fork(LIVE, Pin(None, 1), made=NOW - GRACE), NOTHING, True),
        (fork(LIVE, Pin(None, 1), made=NOW - GRACE - 1), NOTHING, False),
        (Fork("their-branch", Pin(None, 1), 0), NOTHING, True),
        (fork(DELETED, Pin(None, 1)), OF_A_MERGE, True),
    ],
    ids=["deleted", "deleted_young", "deleted_old", "staging", "abandoned", "external", "merge_base"],
)  # fmt: skip
def test_which_forks_are_deleted(made: Fork, needs: Needs, is_retained: bool) -> None:
    decision = decide(facts(OLD, made), needs, policy())
    assert (made.name not in decision.deletable_forks) is is_retained
    assert (made.name in decision.retained) is is_retained


def test_tagged_fork_is_retained() -> None:
    made = fork(DELETED, Pin(None, 1))
    decision = decide(facts(OLD, made, tags=frozenset({Pin(made.name, 6)})), NOTHING, policy())
    assert decision.deletable_forks == ()


def test_fork_with_a_young_version_is_retained() -> None:
    made = fork(DELETED, Pin(None, 1))
    dataset_facts = facts(OLD, made, version_times={made.name: {6: 0, 7: NOW - 1}})
    assert decide(dataset_facts, NOTHING, policy()).deletable_forks == ()


def test_child_forks_are_deleted_first() -> None:
    first = fork(DELETED, Pin(None, 1), number=1)
    second = fork(DELETED, Pin(first.name, 6), number=0)
    third = fork(DELETED, Pin(second.name, 6), number=2)
    decision = decide(facts(OLD, first, second, third), NOTHING, policy())
    assert decision.deletable_forks == (third.name, second.name, first.name)


def test_fork_of_a_deleted_branch_is_retained_for_its_live_child() -> None:
    parent = fork(DELETED, Pin(None, 1))
    child = fork(LIVE, Pin(parent.name, 4))
    dataset_facts = facts(OLD, parent, child, version_times={parent.name: OLD})
    needs = Needs(pins=frozenset({Pin(child.name, 6)}), heads=frozenset(), live=frozenset({LIVE}))
    decision = decide(dataset_facts, needs, policy())
    assert decision.deletable_forks == ()
    assert decision.retained == {None: {1, 6}, parent.name: {4, 6}, child.name: {6}}


@pytest.mark.parametrize(
    ("name", "owner"),
    [
        (f"g-{LIVE}-{OP}", LIVE),
        (f"b-{LIVE}", LIVE),
        ("g-short-1", None),
        (f"g-{LIVE}", None),
        ("main2", None),
        (f"x/b-{LIVE}", None),
    ],
)
def test_owner_of_a_lance_branch(name: str, owner: str | None) -> None:
    assert owner_of(name) == owner
