"""For one entity, every pair of operations on the two sides: the result of a merge, for nodes and edges.

All pairs are entities of one graph, so that one merge decides all of them.
"""

from __future__ import annotations

import uuid
from itertools import product
from typing import Final

import pytest

from omnigraph.graph.branches import create_branch
from omnigraph.graph.manifest.snapshot import read_snapshot
from omnigraph.graph.merge.request import make_resolution
from omnigraph.graph.merge.run import MergeOutcome, MergeRequest, MergeResult, merge_branch
from omnigraph.storage.location import Location, parse_location
from tests.conftest import S3Server
from tests.graph.merge.model import conflict_set
from tests.graph.writers import KNOWS, PERSON, Change, Contents, create, read_contents, run

NONE, SAME, OTHER, DELETE, AGAIN = "none", "same", "other", "delete", "again"
"""`same` updates to a value that both sides use, `other` to one of its own, `again` deletes and inserts with `same`."""
OPERATIONS: Final = (NONE, SAME, OTHER, DELETE, AGAIN)
"""Operations on an entity of the base. An entity that the base lacks can be inserted, with equal or other values."""

OURS, THEIRS, EITHER = "ours", "theirs", "either"

# Rows: what our side does; columns: what theirs does. What becomes of the entity, or the conflict.
OF_PRESENT: Final = {
    (NONE, NONE): EITHER, (NONE, SAME): THEIRS, (NONE, OTHER): THEIRS, (NONE, DELETE): THEIRS, (NONE, AGAIN): THEIRS,
    (SAME, NONE): OURS, (SAME, SAME): EITHER, (SAME, OTHER): "divergent_update", (SAME, DELETE): "delete_vs_update",
    (SAME, AGAIN): EITHER,
    (OTHER, NONE): OURS, (OTHER, SAME): "divergent_update", (OTHER, OTHER): "divergent_update",
    (OTHER, DELETE): "delete_vs_update", (OTHER, AGAIN): "divergent_update",
    (DELETE, NONE): OURS, (DELETE, SAME): "delete_vs_update", (DELETE, OTHER): "delete_vs_update",
    (DELETE, DELETE): EITHER, (DELETE, AGAIN): "delete_vs_update",
    (AGAIN, NONE): OURS, (AGAIN, SAME): EITHER, (AGAIN, OTHER): "divergent_update",
    (AGAIN, DELETE): "delete_vs_update", (AGAIN, AGAIN): EITHER,
}  # fmt: skip
OF_ABSENT: Final = {
    (NONE, NONE): EITHER, (NONE, SAME): THEIRS, (NONE, OTHER): THEIRS,
    (SAME, NONE): OURS, (SAME, SAME): EITHER, (SAME, OTHER): "divergent_insert",
    (OTHER, NONE): OURS, (OTHER, SAME): "divergent_insert", (OTHER, OTHER): "divergent_insert",
}  # fmt: skip
# An edge that the base has or lacks, while one side deletes its endpoint.
OF_ENDS: Final = {
    ("edge kept here", "node deleted there"): "absent",
    ("edge updated here", "node deleted there"): "delete_vs_update",
    ("edge new here", "node deleted there"): "orphan_edge",
    ("node deleted here", "edge kept there"): "absent",
    ("node deleted here", "edge updated there"): "delete_vs_update",
    ("node deleted here", "edge new there"): "orphan_edge",
    ("node deleted here", "node deleted there"): "absent",
    ("edge new here", "edge new there"): "divergent_insert",
}


def test_every_pair_has_an_entry() -> None:
    assert set(OF_PRESENT) == set(product(OPERATIONS, OPERATIONS))
    assert set(OF_ABSENT) == set(product((NONE, SAME, OTHER), (NONE, SAME, OTHER)))


class Pairs:
    """A graph in which each pair of operations was applied to its own entity, on main and on a branch."""

    def __init__(self, location: Location) -> None:
        self.location = location
        create(location)
        present, absent = [name("p", pair) for pair in OF_PRESENT], [name("a", pair) for pair in OF_ABSENT]
        ends = [name("e", pair) for pair in OF_ENDS]
        edges = [entity_id for entity_id in ends if "edge-new" not in entity_id]
        run(
            location,
            [
                Change(
                    PERSON,
                    upsert=tuple(
                        (entity_id, 0)
                        for entity_id in [*present, *(f"n{other_id}" for other_id in present + absent), *ends]
                    ),
                )
            ],
        )
        run(
            location,
            [
                Change(
                    KNOWS,
                    upsert=tuple((entity_id, 0) for entity_id in [*(f"n{other_id}" for other_id in present), *edges]),
                )
            ],
        )
        create_branch(location, "b", "tester", read_snapshot(location))
        self.base = read_contents(location)
        self.write("main", 0, 10)
        self.write("b", 1, 20)

    def write(self, branch: str, side: int, other: int) -> None:
        for table, prefix in ((PERSON, ""), (KNOWS, "n")):
            upserts, deletes = [], []
            for letter, pairs in (("p", OF_PRESENT), ("a", OF_ABSENT)):
                for pair in pairs:
                    entity_id = prefix + name(letter, pair)
                    if pair[side] in (DELETE, AGAIN):
                        deletes.append(entity_id)
                    if pair[side] in (SAME, AGAIN):
                        upserts.append((entity_id, 1))
                    if pair[side] == OTHER:
                        upserts.append((entity_id, other))
            run(self.location, [Change(table, delete=tuple(deletes))], branch=branch)
            run(self.location, [Change(table, upsert=tuple(upserts))], branch=branch)
        self.write_ends(branch, side, other)

    def write_ends(self, branch: str, side: int, other: int) -> None:
        nodes = [name("e", pair) for pair in OF_ENDS if pair[side].startswith("node deleted")]
        deleted_edges = [entity_id for entity_id in nodes if entity_id in self.base[KNOWS]]
        upserts = [(name("e", pair), other) for pair in OF_ENDS if pair[side].startswith(("edge updated", "edge new"))]
        run(
            self.location,
            [Change(PERSON, delete=tuple(nodes)), Change(KNOWS, delete=tuple(deleted_edges))],
            branch=branch,
        )
        run(self.location, [Change(KNOWS, upsert=tuple(upserts))], branch=branch)


def name(letter: str, pair: tuple[str, str]) -> str:
    return f"{letter}-{pair[0]}-{pair[1]}".replace(" ", "-")


@pytest.fixture(scope="module", params=["local", pytest.param("s3", marks=pytest.mark.soak)])
def pairs(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Pairs:
    if request.param == "local":
        return Pairs(parse_location(str(tmp_path_factory.mktemp("pairs") / "graph.omni")))
    server = request.getfixturevalue("s3_server")
    assert isinstance(server, S3Server)
    return Pairs(server.location(f"{uuid.uuid4().hex}/graph.omni"))


@pytest.fixture(scope="module")
def planned(pairs: Pairs) -> MergeResult:
    return merge_branch(pairs.location, MergeRequest(source="b", actor="tester", dry_run=True))


CASES: Final = [
    (table, prefix + name(letter, pair), outcome)
    for table, prefix in ((PERSON, ""), (KNOWS, "n"))
    for letter, lines in (("p", OF_PRESENT), ("a", OF_ABSENT))
    for pair, outcome in lines.items()
]


def test_conflicts_match_the_table(planned: MergeResult) -> None:
    expected = {(outcome, table, entity_id) for table, entity_id, outcome in CASES if "_" in outcome}
    expected |= {(outcome, KNOWS, name("e", pair)) for pair, outcome in OF_ENDS.items() if "_" in outcome}
    # Our edge, which is kept until a side is chosen, would lose its endpoint as well.
    expected.add(("orphan_edge", KNOWS, name("e", ("edge updated here", "node deleted there"))))
    assert conflict_set(planned.conflicts) == expected
    assert len(planned.conflicts) == len(expected), "each is reported once"
    assert planned.outcome is MergeOutcome.CONFLICTS


def test_merged_entities_match_the_table(pairs: Pairs) -> None:
    """Without a conflict the merged entity is as in the table; choosing sides resolves the conflicts."""
    ours, theirs = read_contents(pairs.location), read_contents(pairs.location, "b")
    create_branch(pairs.location, "resolved", "tester", read_snapshot(pairs.location))
    request = MergeRequest(source="b", actor="tester", target="resolved", resolution=make_resolution("ours", None))
    assert merge_branch(pairs.location, request).conflicts == ()
    merged = read_contents(pairs.location, "resolved")
    for table, entity_id, outcome in CASES:
        side = theirs if outcome == THEIRS else ours
        assert merged[table].get(entity_id, "absent") == side[table].get(entity_id, "absent"), (
            table,
            entity_id,
            outcome,
        )
    for pair, outcome in OF_ENDS.items():
        if outcome == "absent":
            assert name("e", pair) not in merged[KNOWS]
    assert _is_sound(merged)


@pytest.mark.parametrize("side", ["ours", "theirs"])
def test_strategy_resolves_every_conflict(side: str, pairs: Pairs, planned: MergeResult) -> None:
    target = f"all-{side}"
    create_branch(pairs.location, target, "tester", read_snapshot(pairs.location))
    merge_branch(
        pairs.location, MergeRequest(source="b", actor="tester", target=target, resolution=make_resolution(side, None))
    )
    merged = read_contents(pairs.location, target)
    expected = read_contents(pairs.location, "b" if side == "theirs" else "main")
    for conflict in planned.conflicts:
        assert conflict.entity is not None
        table, entity_id = conflict.entity.table, conflict.entity.id
        assert merged[table].get(entity_id, "absent") == expected[table].get(entity_id, "absent"), conflict
    assert _is_sound(merged)


def _is_sound(contents: Contents) -> bool:
    return contents[KNOWS].keys() <= contents[PERSON].keys()
