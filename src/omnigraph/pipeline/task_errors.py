"""How an exception of a task travels from the worker to the driver: as text inside Spark's own error message.

A task fails by raising, so that Spark may try it again elsewhere. Of the last attempt Spark keeps only a text, on
every kind of cluster. So the worker raises `TaskFailure`, whose text is the packed error between two marks, and the
driver unpacks it: an error of ours comes back as the same class with its code, hint and facts; any other one as a
`TaskError` with its message. The worker's traceback is a note on the error.
"""

from __future__ import annotations

import base64
import pickle
import re
import traceback
import zlib
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

from omnigraph.base.errors import ErrorKind, OmnigraphError
from omnigraph.base.limits import SPARK_ERROR_BYTES_MAX

_PACKED: Final = re.compile(r"<omnigraph-task-error ([A-Za-z0-9+/=]+)>")
_WORKER_ENDED: Final = "Python worker exited unexpectedly"
_CALL: Final = "An error occurred while calling "
_NO_MODULE: Final = re.compile(r"No module named '(omnigraph|lance|pyarrow)")


class TaskFailure(Exception):  # noqa: N818  # only ever seen between a worker and the driver
    """What a worker raises: the packed error of a task."""


class TaskError(OmnigraphError):
    """A task on a Spark executor failed in a way nobody expected, or its executor was lost."""

    kind = ErrorKind.INTERNAL


@dataclass(frozen=True, slots=True)
class _Packed:
    """An exception in parts. `state` has the attributes of one of ours, with plain facts."""

    kind: type[OmnigraphError] | None
    message: str
    state: dict[str, Any]
    trace: str


def pack_error(error: Exception) -> TaskFailure:
    """The error as something to raise in a worker."""
    trace = "".join(traceback.format_exception(error))[-SPARK_ERROR_BYTES_MAX // 16 :]
    if isinstance(error, OmnigraphError):
        state = {**vars(error), "facts": dict(error.facts)}
        text = _encode(_Packed(type(error), error.message, state, trace))
        if text is not None:
            return TaskFailure(text)
    name = type(error).__name__
    plain = _Packed(None, f"{name}: {error}"[:SPARK_ERROR_BYTES_MAX], {"exception": name}, trace)
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
    packed: _Packed = pickle.loads(zlib.decompress(base64.b64decode(found[1])))
    if packed.kind is None:
        error: OmnigraphError = TaskError(
            f"a task failed: {packed.message}",
            code="task_failed",
            hint="run it again with --debug to see where",
            facts=packed.state,
        )
    else:
        error = packed.kind.__new__(packed.kind, packed.message)
        vars(error).update(packed.state)
        error.facts = MappingProxyType(packed.state["facts"])
    error.add_note(f"on a Spark executor:\n{packed.trace}")
    return error


def _encode(packed: _Packed) -> str | None:
    """None when the error cannot be pickled, or is larger than a message of Spark may be."""
    try:
        data = zlib.compress(pickle.dumps(packed))
    except (pickle.PicklingError, TypeError, AttributeError):
        return None
    text = f"<omnigraph-task-error {base64.b64encode(data).decode()}>"
    return text if len(text) <= SPARK_ERROR_BYTES_MAX else None


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
