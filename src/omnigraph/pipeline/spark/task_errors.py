"""Sends an exception of a task from the worker to the driver: as text inside Spark's own error message.

In: an exception in a worker. Out: an equal Omnigraph error on the driver. A task fails by raising, so that Spark may
retry it elsewhere, and Spark keeps only the text of the last attempt. So the worker raises `TaskFailure`, whose text is
the encoded error between two marks, and the driver decodes it: an Omnigraph error has its class, code, hint and facts
again, any other one becomes a `TaskError`. The traceback of the worker is a note. The text may quote user data that
imitates an encoded error: so it is decoded as JSON, never as a pickle, and only loaded error classes are created.
"""

from __future__ import annotations

import base64
import re
import traceback
import zlib
from typing import Any, Final

import msgspec

from omnigraph.base import limits
from omnigraph.base.decoding import decode_json
from omnigraph.base.errors import Applied, OmnigraphError
from omnigraph.base.hints import hint_from_json, hint_to_json
from omnigraph.pipeline.runner import TaskError, task_failed

_ENCODED: Final = re.compile(r"<omnigraph-task-error ([A-Za-z0-9+/=]+)>")
_WORKER_ENDED: Final = "Python worker exited unexpectedly"
_CALL: Final = "An error occurred while calling "
_NO_MODULE: Final = re.compile(r"No module named '(omnigraph|lance|pyarrow)")


class TaskFailure(Exception):  # noqa: N818  # exists only between a worker and the driver
    """The encoded error of a task, which a worker raises."""


def encode_error(error: Exception) -> TaskFailure:
    """Return the error as an exception to raise in a worker."""
    trace = "".join(traceback.format_exception(error))[-limits.SPARK_ERROR_BYTES_MAX // 16 :]
    if isinstance(error, OmnigraphError):
        text = _encode(error, _class_names(error), trace)
        if text is not None:
            return TaskFailure(text)
    return TaskFailure(_encode(task_failed(error), [_class_name(TaskError)], trace) or "")


def decode_error(raised: Exception, log: str) -> OmnigraphError:
    """Return the error of the task from the exception that Spark raised on the driver."""
    text = str(raised)
    match = _ENCODED.search(text)
    if match is None:
        return _explain(text, log)
    try:
        encoded = decode_json(zlib.decompress(base64.b64decode(match[1])), _EncodedError)
    except (ValueError, zlib.error):  # the text only looks like an encoded error
        return _explain(text, log)
    error = _find_class(encoded.classes)(
        encoded.message, code=encoded.code, hint=hint_from_json(encoded.hint), facts=encoded.facts
    )
    if encoded.applied is not None:
        error.applied = Applied(encoded.applied)
    error.add_note(f"on a Spark executor:\n{encoded.trace}")
    return error


def decode_failure(text: str) -> OmnigraphError:
    """Return the error of a task that encoded its error and returned it."""
    return decode_error(TaskFailure(text), "")


def java_ended(log: str) -> OmnigraphError:
    """Return the error for a local session whose Java process ended."""
    return _spark_failed("its Java process was killed or ended unexpectedly", _memory_hint(log), log)


def executors_lack(package: str) -> OmnigraphError:
    """Return the error for a cluster whose Python lacks a package."""
    return TaskError(
        f"package '{package}' is missing in the Python of the Spark executors",
        code="executors_lack_package",
        hint="Install omnigraph there, or set PYSPARK_PYTHON to a Python on the executors that has it.",
        facts={"package": package},
    )


class _EncodedError(msgspec.Struct, frozen=True):
    """An exception in parts. `classes` are the Omnigraph classes that the driver may use, the closest first."""

    classes: list[str]
    message: str
    code: str
    hint: dict[str, Any]
    facts: dict[str, Any]
    applied: str | None
    trace: str


def _class_names(error: OmnigraphError) -> list[str]:
    """Return the classes of the error whose constructor takes a message, a code, a hint and facts."""
    classes = [kind for kind in type(error).__mro__ if issubclass(kind, OmnigraphError)]
    return [_class_name(kind) for kind in classes if kind.__init__ is OmnigraphError.__init__]


def _class_name(kind: type[OmnigraphError]) -> str:
    return f"{kind.__module__}:{kind.__qualname__}"


def _find_class(names: list[str]) -> type[OmnigraphError]:
    """Return the first of the classes that this process has loaded."""
    loaded: dict[str, type[OmnigraphError]] = {}
    pending: list[type[OmnigraphError]] = [OmnigraphError]
    while pending:
        kind = pending.pop()
        if kind.__init__ is OmnigraphError.__init__:
            loaded[_class_name(kind)] = kind
        pending += kind.__subclasses__()
    return next((loaded[name] for name in names if name in loaded), TaskError)


def _encode(error: OmnigraphError, classes: list[str], trace: str) -> str | None:
    """Return the text; None if a fact of the error is not JSON, or the text is too long for a message of Spark."""
    applied = None if error.applied is None else error.applied.value
    advice, facts = hint_to_json(error.advice), dict(error.facts)
    encoded = _EncodedError(classes, error.message, error.code, advice, facts, applied, trace)
    try:
        data = zlib.compress(msgspec.json.encode(encoded))
    except (TypeError, ValueError):
        return None
    text = f"<omnigraph-task-error {base64.b64encode(data).decode()}>"
    return text if len(text) <= limits.SPARK_ERROR_BYTES_MAX else None


def _explain(text: str, log: str) -> OmnigraphError:
    """Return the error for a failure of Spark itself: a worker that did not start, was killed, or lacks a package."""
    missing = _NO_MODULE.search(text)
    if missing is not None:
        return executors_lack(missing[1])
    if _WORKER_ENDED in text:
        error = _spark_failed("a Python worker was killed or ended unexpectedly", _memory_hint(log), log)
    else:
        lines = [line.strip() for line in text.splitlines() if line.strip()]
        # The first line of a Java error only names a call.
        messages = [line.removeprefix(": ") for line in lines if not line.startswith(_CALL)]
        reason = (messages or lines or ["no reason reported"])[0][:400]
        error = _spark_failed(reason, f"Read {log} for details.", log)
    error.add_note(text)
    return error


def _memory_hint(log: str) -> str:
    return f"Make sure that there is enough memory, and run the command or call again. Read {log} for details."


def _spark_failed(reason: str, hint: str, log: str) -> TaskError:
    return TaskError(f"Spark failed to run the tasks: {reason}", code="spark_failed", hint=hint, facts={"log": log})
