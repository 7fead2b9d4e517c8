"""Errors of tasks in Spark's messages: the same class, code, hint and facts on the driver, and never code."""

from __future__ import annotations

import base64
import json
import pickle
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from omnigraph.base.errors import Applied, ConflictError, ContentError, Fact, OmnigraphError, Problem, TextError
from omnigraph.graph.coordination.lease import LeaseBusyError
from omnigraph.pipeline.runner import TaskError
from omnigraph.pipeline.spark.task_errors import decode_error, decode_failure, encode_error

PROBLEM = Problem(
    code="P1",
    message="unknown type",
    hint="did you mean Person?",
    source="s.pg",
    line=1,
    column=2,
    length=3,
    text="nod",
)


def send_to_driver(error: Exception) -> OmnigraphError:
    return decode_error(RuntimeError(f"Job aborted: {encode_error(error)}\nDriver stacktrace"), "spark.log")


def test_omnigraph_error_is_restored() -> None:
    facts: dict[str, Fact] = {"table": "node:P", "at": [1, 2], "none": None}
    error = send_to_driver(LeaseBusyError("another writer was first", code="race", hint="retry", facts=facts))
    assert type(error) is LeaseBusyError
    assert (error.message, error.code, error.hint) == ("another writer was first", "race", "retry")
    assert dict(error.facts) == facts
    assert error.applied is Applied.NO
    assert "on a Spark executor" in error.__notes__[0]


def test_applied_is_restored() -> None:
    lost = ConflictError("lost", code="race")
    lost.applied = Applied.UNKNOWN
    assert send_to_driver(lost).applied is Applied.UNKNOWN


def test_error_with_another_constructor_is_restored_as_its_kind() -> None:
    error = send_to_driver(TextError((PROBLEM,)))
    assert type(error) is ContentError
    assert error.code == "P1"
    assert error.facts["problems"] == [PROBLEM.to_json()]
    assert "unknown type" in error.render()


def test_other_error_is_a_failed_task() -> None:
    error = send_to_driver(ValueError("no square today"))
    assert type(error) is TaskError
    assert (error.code, error.message) == ("task_failed", "a task failed: ValueError: no square today")


def test_fact_that_is_not_json_does_not_hide_the_error() -> None:
    error = send_to_driver(ConflictError("cannot travel whole", code="race", facts={"lock": object()}))  # type: ignore[dict-item]
    assert "cannot travel whole" in error.message


def plant(path: str) -> None:
    """Create a file, as code in a message could."""
    Path(path).touch()


@dataclass(frozen=True, slots=True)
class CodeOfAClient:
    """Unpickling it runs code."""

    path: str

    def __reduce__(self) -> tuple[Callable[[str], None], tuple[str]]:
        return plant, (self.path,)


@pytest.mark.parametrize("form", ["code", "garbage", "other json", "not compressed"])
def test_value_that_looks_like_an_encoded_error_is_only_text(tmp_path: Path, form: str) -> None:
    """Spark quotes values of the user's data in its own errors."""
    executed = tmp_path / "executed"
    data = {
        "code": zlib.compress(pickle.dumps(CodeOfAClient(str(executed)))),
        "garbage": zlib.compress(b"\x00\x01"),
        "other json": zlib.compress(b"[1, 2]"),
        "not compressed": b"abcd",
    }[form]
    quoted = f"<omnigraph-task-error {base64.b64encode(data).decode()}>"
    error = decode_error(RuntimeError(f"[CAST_INVALID_INPUT] The value '{quoted}' cannot be cast"), "spark.log")
    assert not executed.exists()
    assert error.code == "spark_failed"
    assert "CAST_INVALID_INPUT" in error.message


def test_text_can_only_name_error_classes() -> None:
    packed: dict[str, object] = {
        "classes": ["subprocess:Popen", "omnigraph.base.errors:Problem"],
        "message": "m", "code": "c", "hint": "", "facts": {}, "applied": None, "trace": "",
    }  # fmt: skip
    text = base64.b64encode(zlib.compress(json.dumps(packed).encode())).decode()
    assert type(decode_failure(f"<omnigraph-task-error {text}>")) is TaskError
