"""Turns what Lance, obstore and the operating system raise into our errors, by type and message.

Lance reports most failures as `OSError` or `ValueError` with a long text, so the message decides: the first rule
of `_RULES` whose pattern is found in it. The place itself is cut out of the text first, so that a directory
named `connection` is no network failure. What the operating system says of a disk (full, quota, input/output error, too
many open files) comes before what a file contains. Lance panics for some damaged files, so a panic is a format error
unless one of `_PANIC_RULES` finds another cause in its message.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
from obstore.exceptions import BaseError, PermissionDeniedError, UnauthenticatedError

from omnigraph.base.errors import (
    ConflictError,
    Fact,
    FormatError,
    InvariantError,
    NotFoundError,
    OmnigraphError,
    RefusedError,
    StorageError,
)

_SOURCE_POSITION: Final = re.compile(r",? ?(?:/[\w./-]+|[A-Za-z]:[\w.\\/-]+)\.rs:\d+:\d+")
_PANIC: Final = "PanicException"
_CAUSE_CHARACTERS_MAX: Final = 400


class DatasetExistsError(ConflictError):
    """A dataset to be created is there already."""


class CommitRaceError(ConflictError):
    """Lance refused a commit because another one landed first; nothing of this one is visible."""


@dataclass(frozen=True, slots=True)
class _Rule:
    pattern: re.Pattern[str]
    error: type[OmnigraphError]
    code: str
    sentence: str
    hint: str
    types: tuple[type[Exception], ...] = ()


def _rule(
    pattern: str, error: type[OmnigraphError], words: tuple[str, str, str], *types: type[Exception]
) -> _Rule:
    return _Rule(re.compile(pattern, re.IGNORECASE), error, *words, types)


_UNREACHABLE: Final = (
    "store_unreachable",
    "the store did not answer: could not {doing} at {uri}",
    "check the network, AWS_REGION and AWS_ENDPOINT_URL, then run it again",
)
_DAMAGE: Final = (
    "dataset_unreadable",
    "could not {doing} at {uri}: one of its files is corrupt or cut off",
    "run `omnigraph doctor` with `--deep`, which names the file, and restore it from a copy",
)

_RULES: Final = (
    _rule(
        r"commit result .* is unknown|may or may not have been applied",
        StorageError,
        (
            "commit_unknown",
            "it is not known whether the commit at {uri} took effect",
            "look at the newest version before trying again",
        ),
    ),
    _rule(
        r"commit conflict|concurrent (?:writer|transaction)|incompatible transaction|Too many concurrent",
        CommitRaceError,
        ("commit_race", "another writer was first at {uri}", "retry"),
    ),
    _rule(
        r"ref conflict",
        RefusedError,
        ("branch_in_use", "could not {doing} at {uri}: {cause}", "delete what was made from it first"),
    ),
    _rule(
        # The second one is what Lance says when a branch's name is taken.
        r"already exists|Clone operation should not enter build_manifest",
        DatasetExistsError,
        ("dataset_exists", "{uri} already exists", "choose another place"),
    ),
    _rule(
        r"NoSuchBucket|specified bucket does not exist",
        NotFoundError,
        (
            "bucket_missing",
            "the bucket of {uri} does not exist",
            "create the bucket first, or check its name and AWS_ENDPOINT_URL",
        ),
    ),
    _rule(
        # Without keys, the libraries ask the metadata service of a cloud machine, which there may be none of.
        r"credential|InvalidAccessKeyId|SignatureDoesNotMatch|status code: 401|latest/(?:api/token|meta-data)",
        StorageError,
        (
            "credentials",
            "the object store refused the credentials for {uri}",
            "set AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_REGION",
        ),
        UnauthenticatedError,
    ),
    _rule(
        r"permission denied|access ?denied|operation not permitted|forbidden|read-only file system|status code: 403",
        StorageError,
        (
            "permission_denied",
            "no permission to {doing} at {uri}",
            "check the permissions of the directory or bucket",
        ),
        PermissionDeniedError,
        PermissionError,
    ),
    _rule(
        r"resources exhausted",
        StorageError,
        (
            "memory_exhausted",
            "there was not enough memory to {doing} at {uri}",
            "change fewer rows at a time",
        ),
    ),
    _rule(
        r"no space left|os error 28\b",
        StorageError,
        (
            "disk_full",
            "could not {doing} at {uri}: no space left on the disk",
            "free some space and run it again",
        ),
    ),
    _rule(
        r"disk quota|quota exceeded|os error 122\b",
        StorageError,
        (
            "disk_full",
            "could not {doing} at {uri}: the disk quota is used up",
            "free some space or ask for a larger quota, then run it again",
        ),
    ),
    _rule(
        r"file too large|os error 27\b",
        StorageError,
        (
            "file_too_large",
            "could not {doing} at {uri}: a file is larger than the system allows",
            "raise the limit (`ulimit -f`), or use a file system that allows larger files, then run it again",
        ),
    ),
    _rule(
        r"too many open files|os error 2[34]\b",
        StorageError,
        (
            "too_many_open_files",
            "could not {doing} at {uri}: too many files are open",
            "raise the limit (`ulimit -n`), or run fewer processes at the same time, then run it again",
        ),
    ),
    _rule(
        r"input/output error|os error 5\b",
        StorageError,
        (
            "io_error",
            "could not {doing} at {uri}: the disk reported an input/output error",
            "check the disk and the system log (`dmesg`), then run it again; the files may be intact",
        ),
    ),
    _rule(
        r"not found: \S*(?:data|_deletions|_indices)/\S+|not found: \S+\.(?:lance|blob|arrow|bin|idx)\b",
        FormatError,
        (
            "dataset_unreadable",
            "could not {doing} at {uri}: one of its files is missing",
            "run `omnigraph doctor`, which names the file, and restore it from a copy",
        ),
    ),
    _rule(
        r"cannot be (?:read|written) by this version of Lance|upgrade Lance",
        FormatError,
        (
            "dataset_too_new",
            "could not {doing} at {uri}: another tool used a feature of Lance that this release cannot read",
            "restore the table to an older version with that tool, or upgrade omnigraph",
        ),
    ),
    _rule(
        r"not a directory|is a directory",
        StorageError,
        (
            "path_is_file",
            "could not {doing} at {uri}: a file is in the way",
            "choose another path, or move the file away",
        ),
        NotADirectoryError,
        IsADirectoryError,
        FileExistsError,
    ),
    _rule(
        r"was not found|not found:|no such file|does not exist",
        NotFoundError,
        ("object_missing", "could not {doing}: there is nothing at {uri}", "check the path"),
        FileNotFoundError,
    ),
    _rule(
        r"error sending request|timed? ?out|connection|\bdns\b|after \d+ retries|status code: 5\d\d",
        StorageError,
        _UNREACHABLE,
    ),
    _rule(
        r"status code: 416|invalid range|range not satisfiable",
        FormatError,
        _DAMAGE,
    ),
    _rule(
        # What is left of a store's own errors says nothing about the bytes in it.
        r"resolve region|Generic (?:S3|HTTP|HttpStore) error|HTTP error",
        StorageError,
        _UNREACHABLE,
    ),
    _rule(
        r"schema error|sql parser error|error during planning",
        InvariantError,
        ("filter_invalid", "could not {doing} at {uri}: {cause}", ""),
    ),
)

_DAMAGED: Final = _rule(r"", FormatError, _DAMAGE)

_PANIC_RULES: Final = tuple(rule for rule in _RULES if rule.error in (StorageError, FormatError))
"""What a panic can report of a store or a file. A damaged file can cause the messages of the other rules."""


# Ctrl-C while a library calls Python back, as to read the next batch, comes out as an error of that library.
_INTERRUPTED: Final = re.compile(r"(?:^|External error: )KeyboardInterrupt\b", re.MULTILINE)


def nothing_at(doing: str, uri: str) -> NotFoundError:
    """Return the error for a dataset or file that does not exist."""
    return NotFoundError(
        f"could not {doing}: there is nothing at {uri}",
        code="object_missing",
        hint="check the path",
        facts={"uri": uri},
    )


@contextmanager
def substrate_errors(doing: str, uri: str) -> Iterator[None]:
    """Within the block, raise ours instead of the library's error. `doing` reads like "open the dataset"."""
    try:
        yield
    except OmnigraphError:
        raise
    except (OSError, ValueError, RuntimeError, BaseError, pa.ArrowException) as error:
        if _INTERRUPTED.search(str(error)):
            raise KeyboardInterrupt from error
        raise translate(error, doing, uri) from error
    except BaseException as error:
        if type(error).__name__ != _PANIC:
            raise
        raise _find(error, doing, uri, _PANIC_RULES) from error


def translate(error: Exception, doing: str, uri: str) -> OmnigraphError:
    """The error of ours that says what `error` means."""
    return _find(error, doing, uri, _RULES)


def _find(error: BaseException, doing: str, uri: str, rules: tuple[_Rule, ...]) -> OmnigraphError:
    """The error of the first rule that applies; without one a file is damaged."""
    cause = plain_cause(error)
    searched = cause.replace(_path_of(uri), "")
    for rule in rules:
        if isinstance(error, rule.types) or rule.pattern.search(searched):
            return _made(rule, cause, doing, uri)
    return _made(_DAMAGED, cause, doing, uri)


def _made(rule: _Rule, cause: str, doing: str, uri: str) -> OmnigraphError:
    cause = cause[:_CAUSE_CHARACTERS_MAX]
    facts: dict[str, Fact] = {"uri": uri, "cause": cause}
    message = rule.sentence.format(doing=doing, uri=uri, cause=cause)
    return rule.error(message, code=rule.code, hint=rule.hint, facts=facts)


def _path_of(uri: str) -> str:
    return uri.split("://", 1)[-1].strip("/")


def plain_cause(error: BaseException) -> str:
    """What a library said, in one line and without its source positions."""
    text = str(error).split("\n\nDebug source")[0].strip()
    return " ".join(_SOURCE_POSITION.sub("", text).split())
