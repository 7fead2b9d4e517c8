"""Translates errors of Lance, obstore and the operating system into Omnigraph's errors, by type and message.

Lance reports most failures as `OSError` or `ValueError` with a long message, so the message decides: the first rule of
`_RULES` whose pattern matches. The location is removed from the message first, so that a directory named `connection`
is not a network failure. Errors of a disk (full, quota, input/output error, too many open files) are matched before
errors about the contents of a file. Lance panics for some damaged files, so a panic is a format error unless one of
`_PANIC_RULES` matches its message.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Final

import pyarrow as pa
from obstore.exceptions import BaseError, PermissionDeniedError, UnauthenticatedError

from omnigraph.base import errors
from omnigraph.base.hints import Hint, action, hint

_SOURCE_POSITION: Final = re.compile(r",? ?(?:/[\w./-]+|[A-Za-z]:[\w.\\/-]+)\.rs:\d+:\d+")
_CAUSE_CHARACTERS_MAX: Final = 400


class DatasetExistsError(errors.ConflictError):
    """A dataset to create already exists."""


class CommitRaceError(errors.ConflictError):
    """Lance rejected a commit because another one was committed first; nothing of this one is visible."""


@dataclass(frozen=True, slots=True)
class _Rule:
    pattern: str
    code: str
    message: str
    hint: Hint | str
    error: type[errors.OmnigraphError] = errors.StorageError
    types: tuple[type[Exception], ...] = ()

    def matches(self, error: BaseException, text: str) -> bool:
        return isinstance(error, self.types) or re.search(self.pattern, text, re.IGNORECASE) is not None


_UNREACHABLE: Final = _Rule(
    r"error sending request|timed? ?out|connection|\bdns\b|after \d+ retries|status code: 5\d\d",
    "store_unreachable",
    "the store did not answer: could not {operation} at {uri}",
    "Check the network, AWS_REGION and AWS_ENDPOINT_URL, then retry.",
)
_DAMAGED: Final = _Rule(
    r"status code: 416|invalid range|range not satisfiable",
    "dataset_unreadable",
    "could not {operation} at {uri}: one of its files is corrupt or truncated",
    hint("Run {} to find the file, then restore it from a copy.", action("doctor", deep=True)),
    error=errors.FormatError,
)

_RULES: Final = (
    _Rule(
        r"commit result .* is unknown|may or may not have been applied",
        "commit_unknown",
        "commit result unknown: the store did not confirm the commit at {uri}",
        hint("Run {} to see whether it was applied before you retry.", action("commit list")),
    ),
    _Rule(
        r"commit conflict|concurrent (?:writer|transaction)|incompatible transaction|Too many concurrent",
        "commit_race",
        "another writer committed first at {uri}",
        "Retry.",
        error=CommitRaceError,
    ),
    _Rule(
        r"ref conflict",
        "branch_in_use",
        "could not {operation} at {uri}: {cause}",
        "Delete the branches created from it first.",
        error=errors.RefusedError,
    ),
    _Rule(
        # The second one is Lance's message for an existing branch name.
        r"already exists|Clone operation should not enter build_manifest",
        "dataset_exists",
        "{uri} already exists",
        "Choose another location.",
        error=DatasetExistsError,
    ),
    _Rule(
        r"NoSuchBucket|specified bucket does not exist",
        "bucket_missing",
        "the bucket of {uri} does not exist",
        "Create the bucket, or check its name and AWS_ENDPOINT_URL.",
        error=errors.NotFoundError,
    ),
    _Rule(
        # Without keys, the libraries ask the metadata service of a cloud machine, which may not exist.
        r"credential|InvalidAccessKeyId|SignatureDoesNotMatch|status code: 401|latest/(?:api/token|meta-data)",
        "credentials",
        "the object store rejected the credentials for {uri}",
        "Set AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_REGION.",
        types=(UnauthenticatedError,),
    ),
    _Rule(
        r"permission denied|access ?denied|operation not permitted|forbidden|read-only file system|status code: 403",
        "permission_denied",
        "no permission to {operation} at {uri}",
        "Check the permissions of the directory or bucket.",
        types=(PermissionDeniedError, PermissionError),
    ),
    _Rule(
        r"resources exhausted",
        "memory_exhausted",
        "not enough memory to {operation} at {uri}",
        "Change fewer rows in one operation.",
    ),
    _Rule(
        r"no space left|os error 28\b",
        "disk_full",
        "could not {operation} at {uri}: no space left on the disk",
        "Free some space, then retry.",
    ),
    _Rule(
        r"disk quota|quota exceeded|os error 122\b",
        "disk_full",
        "could not {operation} at {uri}: the disk quota is used up",
        "Free some space or raise the quota, then retry.",
    ),
    _Rule(
        r"file too large|os error 27\b",
        "file_too_large",
        "could not {operation} at {uri}: a file is larger than the system allows",
        "Raise the limit (`ulimit -f`) or use a file system that allows larger files, then retry.",
    ),
    _Rule(
        r"too many open files|os error 2[34]\b",
        "too_many_open_files",
        "could not {operation} at {uri}: too many files are open",
        "Raise the limit (`ulimit -n`) or run fewer processes at the same time, then retry.",
    ),
    _Rule(
        r"input/output error|os error 5\b",
        "io_error",
        "could not {operation} at {uri}: the disk reported an input/output error",
        "Check the disk and the system log (`dmesg`), then retry. The files may be intact.",
    ),
    _Rule(
        r"not found: \S*(?:data|_deletions|_indices)/\S+|not found: \S+\.(?:lance|blob|arrow|bin|idx)\b",
        "dataset_unreadable",
        "could not {operation} at {uri}: one of its files is missing",
        hint("Run {} to find the file, then restore it from a copy.", action("doctor")),
        error=errors.FormatError,
    ),
    _Rule(
        r"cannot be (?:read|written) by this version of Lance|upgrade Lance",
        "dataset_too_new",
        "could not {operation} at {uri}: an external tool used a feature of Lance that this release cannot read",
        "Restore the table to an older version with that tool, or upgrade omnigraph.",
        error=errors.FormatError,
    ),
    _Rule(
        r"not a directory|is a directory",
        "path_is_file",
        "could not {operation} at {uri}: expected a directory, got a file",
        "Choose another path or move the file.",
        types=(NotADirectoryError, IsADirectoryError, FileExistsError),
    ),
    _Rule(
        r"was not found|not found:|no such file|does not exist",
        "object_missing",
        "could not {operation}: {uri} does not exist",
        "Check the path.",
        error=errors.NotFoundError,
        types=(FileNotFoundError,),
    ),
    _UNREACHABLE,
    _DAMAGED,
    # The remaining errors of a store say nothing about the bytes in it.
    replace(_UNREACHABLE, pattern=r"resolve region|Generic (?:S3|HTTP|HttpStore) error|HTTP error"),
    _Rule(
        r"schema error|sql parser error|error during planning",
        "filter_invalid",
        "could not {operation} at {uri}: {cause}",
        "",
        error=errors.InvariantError,
    ),
)

_PANIC_RULES: Final = tuple(rule for rule in _RULES if rule.error in (errors.StorageError, errors.FormatError))
"""The rules for panics, about stores and files. A damaged file can cause the messages of the other rules."""

# Ctrl-C while a library calls back into Python, such as to read the next batch, becomes an error of that library.
_INTERRUPTED: Final = re.compile(r"(?:^|External error: )KeyboardInterrupt\b", re.MULTILINE)


@contextmanager
def translate_errors(operation: str, uri: str) -> Iterator[None]:
    """Translate errors of the libraries within the block. `operation` is a phrase such as "open the dataset"."""
    try:
        yield
    except errors.OmnigraphError:
        raise
    except (OSError, ValueError, RuntimeError, BaseError, pa.ArrowException) as error:
        if _INTERRUPTED.search(str(error)):
            raise KeyboardInterrupt from error
        raise translate_error(error, operation, uri) from error
    except BaseException as error:
        if type(error).__name__ != "PanicException":
            raise
        raise _apply_rules(error, operation, uri, _PANIC_RULES) from error


def translate_error(error: Exception, operation: str, uri: str) -> errors.OmnigraphError:
    """Return our error for an error of a library."""
    return _apply_rules(error, operation, uri, _RULES)


def _apply_rules(error: BaseException, operation: str, uri: str, rules: tuple[_Rule, ...]) -> errors.OmnigraphError:
    """Return the error of the first rule that matches; without a match, a file is damaged."""
    cause = plain_cause(error)
    searched = cause.replace(uri.split("://", 1)[-1].strip("/"), "")
    rule = next((rule for rule in rules if rule.matches(error, searched)), _DAMAGED)
    cause = cause[:_CAUSE_CHARACTERS_MAX]
    facts: dict[str, errors.Fact] = {"uri": uri, "cause": cause}
    message = rule.message.format(operation=operation, uri=uri, cause=cause)
    return rule.error(message, code=rule.code, hint=rule.hint, facts=facts)


def plain_cause(error: BaseException) -> str:
    """Return the message of a library in one line, without its source positions."""
    text = str(error).split("\n\nDebug source")[0].strip()
    return " ".join(_SOURCE_POSITION.sub("", text).split())
