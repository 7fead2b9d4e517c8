"""Turns what Lance, obstore and the operating system raise into our errors, by type and message.

Lance reports most failures as `OSError` or `ValueError` with a long text, so the message decides. The text's first
sentence is kept as a fact; source positions of the library are cut off.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa
from obstore.exceptions import BaseError, PermissionDeniedError, UnauthenticatedError

from omnigraph.base.errors import ConflictError, FormatError, NotFoundError, OmnigraphError, StorageError

_SOURCE_POSITION = re.compile(r",? ?(?:/[\w./-]+|[A-Za-z]:[\w.\\/-]+)\.rs:\d+:\d+")
_CONFLICT = re.compile(
    r"commit conflict|concurrent (?:writer|transaction)|incompatible transaction|Too many concurrent", re.IGNORECASE
)
_DENIED = re.compile(r"permission denied|access ?denied|forbidden|read-only file system|\b403\b", re.IGNORECASE)
_BUCKET = re.compile(r"NoSuchBucket|specified bucket does not exist", re.IGNORECASE)
_NO_CREDENTIALS = re.compile(r"credential|InvalidAccessKeyId|SignatureDoesNotMatch|\b401\b", re.IGNORECASE)
_NOT_FOUND = re.compile(r"was not found|not found:|no such file|does not exist", re.IGNORECASE)
_EXISTS = re.compile(r"already exists", re.IGNORECASE)
_FULL = re.compile(r"no space left|disk quota", re.IGNORECASE)
_TRANSPORT = re.compile(r"error sending request|timed? ?out|connection|dns|after \d+ retries|\b5\d\d\b", re.IGNORECASE)


class DatasetExistsError(ConflictError):
    """A dataset to be created is there already."""


class CommitRaceError(ConflictError):
    """Lance refused a commit because another one landed first; nothing of this one is visible."""


@contextmanager
def substrate_errors(doing: str, uri: str) -> Iterator[None]:
    """Within the block, raise ours instead of the library's error. `doing` reads like "open the dataset"."""
    try:
        yield
    except OmnigraphError:
        raise
    except (OSError, ValueError, RuntimeError, BaseError, pa.ArrowException) as error:
        raise translate(error, doing, uri) from error


def translate(error: Exception, doing: str, uri: str) -> OmnigraphError:
    """The error of ours that says what `error` means."""
    text = _first_line(error)
    facts = {"uri": uri, "cause": text}
    if _CONFLICT.search(text):
        return CommitRaceError(f"another writer was first at {uri}", code="commit_race", hint="retry", facts=facts)
    if _EXISTS.search(text):
        return DatasetExistsError(f"{uri} already exists", code="dataset_exists", hint="choose another", facts=facts)
    if _BUCKET.search(text):
        hint = "create the bucket first, or check its name and AWS_ENDPOINT_URL"
        return NotFoundError(f"the bucket of {uri} does not exist", code="bucket_missing", hint=hint, facts=facts)
    if isinstance(error, PermissionDeniedError) or _DENIED.search(text):
        hint = "check the permissions of the directory or bucket"
        return StorageError(f"no permission to {doing} at {uri}", code="permission_denied", hint=hint, facts=facts)
    if _FULL.search(text):
        hint = "free some room and run it again"
        return StorageError(f"no space left to {doing} at {uri}", code="disk_full", hint=hint, facts=facts)
    if isinstance(error, UnauthenticatedError) or _NO_CREDENTIALS.search(text):
        hint = "set AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_REGION"
        return StorageError(f"the object store refused the credentials for {uri}", code="credentials", hint=hint, facts=facts)
    if _NOT_FOUND.search(text):
        hint = "check the path"
        return NotFoundError(f"nothing to {doing} at {uri}", code="object_missing", hint=hint, facts=facts)
    if _TRANSPORT.search(text):
        hint = "check the network and AWS_ENDPOINT_URL, then run it again"
        return StorageError(f"the store did not answer: could not {doing} at {uri}", code="store_unreachable", hint=hint, facts=facts)
    hint = "the file may be truncated or corrupt; `omnigraph doctor` looks at everything"
    return FormatError(f"could not {doing} at {uri}: {text}", code="dataset_unreadable", hint=hint, facts=facts)


def _first_line(error: Exception) -> str:
    text = str(error).split("\n\nDebug source")[0].strip()
    return " ".join(_SOURCE_POSITION.sub("", text).split())[:400]
