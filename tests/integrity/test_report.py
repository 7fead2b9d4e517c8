"""Reports: order, counts, merging over tasks, pickling, and the lines of an error file."""

from __future__ import annotations

import json
import pickle
import random
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from omnigraph.base import limits
from omnigraph.integrity.check import check_batch
from omnigraph.integrity.raw import MixedColumn, RawBatch
from omnigraph.integrity.report import (
    TaskFindings,
    Violation,
    ViolationReport,
    expand_violations,
    gather_findings,
    lines_before,
    merge_reports,
)
from omnigraph.integrity.rules import NO_ROW, RowOrigins, Rule, RuleViolations, short_text
from omnigraph.integrity.set_rules import check_existing_keys, check_new_ids, check_repeated_keys
from tests.integrity.samples import node, texts


def make_violations(rule: Rule, name: str, rows: list[int]) -> RuleViolations:
    values = texts([f"v{row}" for row in rows])
    return RuleViolations(
        rule=rule, property=name, message="is wrong", rows=np.array(rows, dtype=np.int64), values=values
    )


def test_rule_codes_are_unique_and_stable() -> None:
    assert len({rule.code for rule in Rule}) == len(Rule)
    assert (Rule.KEY_CONFLICT.code, Rule.KEY_CONFLICT.word) == ("V303", "key_conflict")
    assert [rule.code for rule in Rule] == sorted(rule.code for rule in Rule)
    assert all(rule.meaning for rule in Rule)


def test_violations_are_ordered_by_file_line_and_property() -> None:
    origins = RowOrigins(("b.ndjson", "a.ndjson"), np.array([0, 0, 1], dtype=np.int32), np.array([7, 2, 9]))
    violations = [make_violations(Rule.ENUM, "z", [0, 1, 2]), make_violations(Rule.REQUIRED, "b", [1])]
    expected = [("a.ndjson", 9, "z"), ("b.ndjson", 2, "b"), ("b.ndjson", 2, "z"), ("b.ndjson", 7, "z")]
    assert [(v.file, v.line, v.property) for v in expand_violations(violations, origins)] == expected
    report = ViolationReport.of_batch(violations, origins)
    assert [(v.file, v.line, v.property) for v in report.first] == expected
    assert report.counts == ((Rule.REQUIRED, 1), (Rule.ENUM, 3))
    assert report.total == 4


def test_first_violations_are_retained_and_all_are_counted() -> None:
    rows = list(range(5000))
    random.Random(1).shuffle(rows)
    origins = RowOrigins.in_file("f", np.arange(1, 5001))
    report = ViolationReport.of_batch(
        [make_violations(Rule.RANGE, "p", rows), make_violations(Rule.ENUM, "q", rows)], origins
    )
    assert report.total == 10_000
    first = [(v.line, v.property) for v in report.first]
    assert first == [(line, name) for line in range(1, limits.VIOLATIONS_KEPT_MAX // 2 + 1) for name in "pq"]
    assert report.first[0].value == "v0"


def test_row_that_is_not_in_the_input_has_no_line() -> None:
    report = ViolationReport.of_batch(
        [make_violations(Rule.CARDINALITY_MIN, "from", [NO_ROW, 0])], RowOrigins.in_file("f", np.arange(5, 6))
    )
    assert [violation.line for violation in report.first] == [None, 5]
    assert [violation.line for violation in report.shift_lines(10).first] == [None, 15]
    nothing = RowOrigins((), np.array([], dtype=np.int32), np.array([], dtype=np.int64))
    assert (
        ViolationReport.of_batch([make_violations(Rule.CARDINALITY_MIN, "from", [NO_ROW])], nothing).first[0].file == ""
    )


_violations = st.builds(
    Violation,
    file=st.sampled_from("ab"),
    line=st.none() | st.integers(1, 200),
    property=st.none() | st.sampled_from("pq"),
    value=st.sampled_from(["1", "2"]),
    rule=st.sampled_from(Rule),
    message=st.just("m"),
)


@given(st.lists(st.lists(_violations, max_size=40), max_size=6), st.randoms())
@settings(max_examples=50)
def test_merging_in_any_order_gives_the_same(parts: list[list[Violation]], order: random.Random) -> None:
    reports = [ViolationReport.of_violations(part) for part in parts]
    whole = ViolationReport.of_violations([violation for part in parts for violation in part])
    order.shuffle(reports)
    assert merge_reports(reports) == whole
    half = len(reports) // 2
    assert merge_reports([merge_reports(reports[half:]), merge_reports(reports[:half])]) == whole
    assert whole.total == sum(map(len, parts))


def test_many_reports_merge_into_one() -> None:
    reports = [
        ViolationReport.of_violations(
            [
                Violation(file="f", line=part * 50 + line, property="p", value="", rule=Rule.ENUM, message="m")
                for line in range(50)
            ]
        )
        for part in reversed(range(100))
    ]
    merged = merge_reports(reports)
    assert merged.total == 5000
    assert [violation.line for violation in merged.first] == list(range(limits.VIOLATIONS_KEPT_MAX))


@pytest.mark.parametrize(
    ("errors", "expected"),
    [
        ({"a": 2, "b": 1}, ["f:1: V201 a: m (v)", "f:1: V201 b: m (v)", "f:2: V201 a: m (v)"]),
        ({"a": 1_000, "b": 1}, ["V201 a: m: 1,000 errors, such as f:1 (v), f:2 (v), f:3 (v)", "f:1: V201 b: m (v)"]),
        ({"a": limits.VIOLATIONS_PER_RULE_MAX}, [f"f:{line}: V201 a: m (v)" for line in range(1, 11)]),
    ],
)
def test_many_errors_of_a_column_are_one_line(errors: dict[str, int], expected: list[str]) -> None:
    violations = [
        Violation(file="f", line=line + 1, property=name, value="v", rule=Rule.ENUM, message="m")
        for name, count in errors.items()
        for line in range(count)
    ]
    report = ViolationReport.of_violations(violations)
    assert report.describe() == expected
    assert report.lists_all == (len(violations) == len(expected))


def test_one_line_for_many_duplicates_names_the_earlier_rows() -> None:
    violations = [
        Violation(
            file="f",
            line=line,
            property="id",
            value=f"v{line}",
            rule=Rule.DUPLICATE_ID,
            message="m",
            earlier_file="g",
            earlier_line=line + 7,
        )
        for line in range(1, limits.VIOLATIONS_PER_RULE_MAX + 2)
    ]
    expected = "V302 id: m: 11 errors, such as f:1 (v1, as in g:8), f:2 (v2, as in g:9), f:3 (v3, as in g:10)"
    assert ViolationReport.of_violations(violations).describe() == [expected]
    held = [replace(violation, rule=Rule.UNIQUE, earlier_file=None, entity_id="x") for violation in violations]
    assert ViolationReport.of_violations(held).describe() == [
        "V402 id: m: 11 errors, such as f:1 (v1, id x), f:2 (v2, id x), f:3 (v3, id x)"
    ]


def test_groups_are_bounded_and_all_violations_are_counted() -> None:
    total = limits.VIOLATION_GROUPS_MAX + 50
    violations = [
        Violation(file="f", line=line, property=f"p{line}", value="", rule=Rule.UNKNOWN_PROPERTY, message="m")
        for line in range(1, total + 1)
    ]
    report = ViolationReport.of_violations(violations)
    assert (len(report.groups), report.total, report.lists_all) == (limits.VIOLATION_GROUPS_MAX, total, False)


def test_the_row_with_the_same_values_is_named() -> None:
    origins = RowOrigins.in_file("f", np.arange(1, 4))
    violations = [
        *check_repeated_keys(texts(["x", "y", "x"]), ("email",)),
        *check_existing_keys(texts(["x", "y", "z"]), texts([None, "bob", None]), texts([]), ("email",)),
        *check_new_ids("node:P", texts(["a", "b", "c"]), pa.array([False, False, True])),
    ]
    assert ViolationReport.of_batch(violations, origins).describe() == [
        "f:2: V402 email: a row of the graph has the same email: id bob (y)",
        "f:3: V402 email: an earlier row of the input has the same email: f:1 (x)",
        "f:3: V303 id: the graph already has this id (c)",
    ]


def test_lines_of_tasks_become_lines_of_files() -> None:
    def findings(file: str, part: int, lines: int, bad: int) -> TaskFindings:
        violation = Violation(file=file, line=bad, property="p", value="v", rule=Rule.ENUM, message="m")
        return TaskFindings(file, part, lines, ViolationReport.of_violations([violation]))

    tasks = [findings("b", 0, 10, 3), findings("a", 1, 7, 1), findings("a", 0, 5, 5), findings("a", 2, 1, 1)]
    assert lines_before(tasks) == {("a", 0): 0, ("a", 1): 5, ("a", 2): 12, ("b", 0): 0}
    report = gather_findings(tasks)
    assert [(v.file, v.line) for v in report.first] == [("a", 5), ("a", 6), ("a", 13), ("b", 3)]
    assert gather_findings([]) == ViolationReport()


def test_task_findings_survive_pickling() -> None:
    checked = check_batch(node("Person"), RawBatch.from_records([{"slug": 5, "x": [1]}, {"age": 2**70}]))
    origins = RowOrigins.in_file("f", np.arange(1, 3))
    report = ViolationReport.of_batch(checked.violations, origins)
    task = TaskFindings("f", 0, 2, report)
    assert pickle.loads(pickle.dumps(task)) == task
    violations = pickle.loads(pickle.dumps(checked.violations))
    assert list(expand_violations(violations, origins)) == list(expand_violations(checked.violations, origins))
    assert pickle.loads(pickle.dumps(checked)).rows.equals(checked.rows)


def test_a_line_of_the_error_file() -> None:
    violation = Violation(
        file="a.ndjson", line=3, property="age", value="é", rule=Rule.RANGE, message="is outside of 0..200"
    )
    assert (
        violation.to_ndjson()
        == (
            '{"file":"a.ndjson","line":3,"property":"age","value":"é","rule":"range","code":"V202",'
            '"message":"is outside of 0..200"}\n'
        ).encode()
    )
    odd = Violation(file="f", line=None, property=None, value="\ud800", rule=Rule.NOT_UNICODE, message="m")
    assert json.loads(odd.to_ndjson())["value"] == "?"


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("text", "text"),
        (5, "5"),
        (2**70, str(2**70)),
        (0.1, "0.1"),
        (float("nan"), "nan"),
        (True, "true"),
        (None, "null"),
        ([1, "a", None], '[1,"a",null]'),
        ({"a": 1}, '{"a":1}'),
        (b"\xff", "b'\\xff'"),
        ("x" * 500, "x" * (limits.VIOLATION_VALUE_LENGTH_MAX - 1) + "…"),
    ],
)
def test_values_are_shown_short(value: object, expected: str) -> None:
    assert short_text(value) == expected


@pytest.mark.parametrize("size", [10**6, 10**7])
def test_huge_values_are_cut(size: int) -> None:
    assert len(short_text([0] * size)) == limits.VIOLATION_VALUE_LENGTH_MAX


def test_every_raw_value_can_be_shown() -> None:
    not_text: Any = pa.array([b"\xffa"], pa.binary()).view(pa.utf8())
    lists = pa.ListArray.from_arrays(pa.array([0, 1], pa.int32()), not_text)
    far = pa.array([2**62], pa.int64()).view(pa.timestamp("s", "UTC"))
    for values in (not_text, lists, far, MixedColumn(["\ud800", object(), {1: 2}])):
        violations = RuleViolations(
            rule=Rule.WRONG_TYPE, property="p", message="m", rows=np.arange(len(values)), values=values
        )
        assert all(len(text) <= limits.VIOLATION_VALUE_LENGTH_MAX for text in violations.shown_values())
