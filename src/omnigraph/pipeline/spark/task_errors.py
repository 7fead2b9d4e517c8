"""How an exception of a task travels from the worker to the driver: as text inside Spark's own error message.

A task fails by raising, so that Spark may try it again elsewhere. Of the last attempt Spark keeps only a text, on
every kind of cluster. So the worker raises `TaskFailure`, whose text is the packed error between two marks, and the
driver unpacks it: an error of ours comes back as the same class with its code, hint and facts; any other one as a
`TaskError` with its message. The worker's traceback is a note on the error. Such a text may quote values of the user's
data, so the packed error is JSON and can only name classes of errors that are loaded.
"""

from __future__ import annotations

import base64
import re
import traceback
import zlib
from typing import Any, Final

import msgspec

from omnigraph.base import limits
from omnigraph.base.errors import Applied, ErrorKind, OmnigraphError
from omnigraph.base.hints import Argument, Hint, hint_from_json, hint_to_json

_PACKED: Final = re.compile(r"<omnigraph-task-error ([A-Za-z0-9+/=]+)>")
_WORKER_ENDED: Final = "Python worker exited unexpectedly"
_CALL: Final = "An error occurred while calling "
_NO_MODULE: Final = re.compile(r"No module named '(omnigraph|lance|pyarrow)")


class TaskFailure(Exception):  # noqa: N818  # only ever seen between a worker and the driver
    """What a worker raises: the packed error of a task."""


class TaskError(OmnigraphError):
    """A task on a Spark executor failed in a way nobody expected, or its executor was lost."""

    kind = ErrorKind.INTERNAL


class _Packed(msgspec.Struct, frozen=True):
    """An exception in parts. `classes` are the classes that one of ours can come back as, the closest first."""

    classes: list[str]
    message: str
    code: str
    hint: dict[str, Any]
    facts: dict[str, Any]
    applied: str | None
    trace: str


def pack_error(error: Exception) -> TaskFailure:
    """The error as something to raise in a worker."""
    trace = "".join(traceback.format_exception(error))[-limits.SPARK_ERROR_BYTES_MAX // 16 :]
    if isinstance(error, OmnigraphError):
        applied = None if error.applied is None else error.applied.value
        ours = _Packed(
            _class_names(error),
            error.message,
            error.code,
            hint_to_json(error.advice),
            dict(error.facts),
            applied,
            trace,
        )
        text = _encode(ours)
        if text is not None:
            return TaskFailure(text)
    name = type(error).__name__
    message = f"a task failed: {name}: {error}"[: limits.SPARK_ERROR_BYTES_MAX]
    advice = Hint("Run the command again with {} to see the traceback.", (Argument("debug"),))
    plain = _Packed(
        [_class_name(TaskError)],
        message,
        "task_failed",
        hint_to_json(advice),
        {"exception": name},
        None,
        trace,
    )
    return TaskFailure(_encode(plain) or "")


def unpack_failure(text: str) -> OmnigraphError:
    """The error of a task that packed it and went on."""
    return unpack_error(TaskFailure(text), "")


def unpack_error(raised: Exception, log: str) -> OmnigraphError:
    """The task's own error out of what Spark raised on the driver."""
    text = str(raised)
    found = _PACKED.search(text)
    if found is None:
        return _explain(text, log)
    try:
        packed = msgspec.json.decode(zlib.decompress(base64.b64decode(found[1])), type=_Packed)
    except (ValueError, zlib.error):  # a text that only looks like a packed error
        return _explain(text, log)
    error = _find_class(packed.classes)(
        packed.message, code=packed.code, hint=hint_from_json(packed.hint), facts=packed.facts
    )
    if packed.applied is not None:
        error.applied = Applied(packed.applied)
    error.add_note(f"on a Spark executor:\n{packed.trace}")
    return error


def _class_names(error: OmnigraphError) -> list[str]:
    """The classes of the error that are made from a message, a code, a hint and facts alone."""
    classes = [one for one in type(error).__mro__ if issubclass(one, OmnigraphError)]
    return [_class_name(one) for one in classes if one.__init__ is OmnigraphError.__init__]


def _class_name(kind: type[OmnigraphError]) -> str:
    return f"{kind.__module__}:{kind.__qualname__}"


def _find_class(names: list[str]) -> type[OmnigraphError]:
    """The first of the classes that this process has loaded."""
    loaded: dict[str, type[OmnigraphError]] = {}
    waiting: list[type[OmnigraphError]] = [OmnigraphError]
    while waiting:
        kind = waiting.pop()
        if kind.__init__ is OmnigraphError.__init__:
            loaded[_class_name(kind)] = kind
        waiting += kind.__subclasses__()
    return next((loaded[name] for name in names if name in loaded), TaskError)


def _encode(packed: _Packed) -> str | None:
    """None when a fact of the error is not JSON, or the error is larger than a message of Spark may be."""
    try:
        data = zlib.compress(msgspec.json.encode(packed))
    except (TypeError, ValueError):
        return None
    text = f"<omnigraph-task-error {base64.b64encode(data).decode()}>"
    return text if len(text) <= limits.SPARK_ERROR_BYTES_MAX else None


def _explain(text: str, log: str) -> OmnigraphError:
    """Spark's own failure: a worker that could not start, was killed, or lacks a package."""
    missing = _NO_MODULE.search(text)
    if missing is not None:
        return executors_lack(missing[1])
    if _WORKER_ENDED in text:
        error = _failed("a Python worker was killed or ended by itself", _perhaps_memory(log), log)
    else:
        lines = [line.strip() for line in text.splitlines() if line.strip()]
        # The first line of an error of Java only names a call.
        told = [line.removeprefix(": ") for line in lines if not line.startswith(_CALL)]
        error = _failed((told or lines or ["no reason given"])[0][:400], f"{log} says more", log)
    error.add_note(text)
    return error


def java_ended(log: str) -> OmnigraphError:
    """The error for a local session whose Java process is gone."""
    return _failed("its Java process was killed or ended by itself", _perhaps_memory(log), log)


def _perhaps_memory(log: str) -> str:
    return f"make sure that there is enough memory and run it again; {log} says more"


def _failed(reason: str, hint: str, log: str) -> TaskError:
    return TaskError(
        f"Spark could not run the tasks: {reason}", code="spark_failed", hint=hint, facts={"log": log}
    )


def executors_lack(package: str) -> OmnigraphError:
    """The error for a cluster whose Python lacks a package."""
    return TaskError(
        f"the Python of the Spark executors has no package '{package}'",
        code="executors_lack_package",
        hint="install omnigraph there, or point PYSPARK_PYTHON at a Python on the executors that has it",
        facts={"package": package},
    )
