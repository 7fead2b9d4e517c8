"""The directories and files of a Lance dataset: what each path is. Pure.

In: paths below a dataset's root. Out: the Lance branch, version or group that a path belongs to. A file group is the
unit that is deleted together: a data file with its blobs, or an index with its files. Files that are not Lance's have
no group. `references` reads which files versions reference.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from omnigraph.storage.lance.durability import VERSION_DIGITS, VERSION_MAX

VERSIONS_DIRECTORY: Final = "_versions/"
BRANCHES_DIRECTORY: Final = "tree/"
REFERENCES_LAST: Final = 2
"""The sort key, next to `manifests_first`, of a reference to a Lance branch."""

_REFERENCES: Final = "_refs/branches/"
_REFERENCE_SUFFIX: Final = ".json"
_SINGLE_FILES: Final = ("_transactions/", "_deletions/")
_DIRECTORIES: Final = (VERSIONS_DIRECTORY, *_SINGLE_FILES, "_indices/", "data/")
_UNFINISHED: Final = re.compile(r".+#\d+")
_MANIFEST: Final = re.compile(r"_versions/(\d+)\.manifest")
_DATA: Final = re.compile(r"(data/[^/]+?)(?:\.lance(?:#\d+)?|/.+)")
_INDEX: Final = re.compile(r"(_indices/[^/]+)/.+")


def split_branch(path: str) -> tuple[str | None, str]:
    """Return the Lance branch of a file, and its path below that branch. Names by external tools may have slashes."""
    if not path.startswith(BRANCHES_DIRECTORY):
        return None, path
    branch_path = path.removeprefix(BRANCHES_DIRECTORY)
    for directory in _DIRECTORIES:
        name, separator, rest = branch_path.partition(f"/{directory}")
        if separator:
            return name, directory + rest
    name, _, rest = branch_path.partition("/")
    return name, rest


def file_group(path: str) -> str | None:
    """Return the group of a file by its path below its branch; None for a file that is not Lance's."""
    if path.startswith(_SINGLE_FILES):
        return path
    match = _DATA.fullmatch(path) or _INDEX.fullmatch(path)
    return None if match is None else match[1]


def is_unfinished(path: str) -> bool:
    """Return whether the file is a draft, which a crash leaves and nothing references."""
    return "#" in path and _UNFINISHED.fullmatch(path) is not None


def file_group_key(branch: str | None, group: str) -> str:
    """Return the path of a group below the dataset's root."""
    return group if branch is None else f"{BRANCHES_DIRECTORY}{branch}/{group}"


def file_group_keys(paths: Iterable[str]) -> frozenset[str]:
    """Return the groups of files, by their paths below the dataset's root."""
    pairs = (split_branch(path) for path in paths)
    return frozenset(file_group_key(branch, file_group(rest) or rest) for branch, rest in pairs)


def manifest_version(path: str) -> int | None:
    """Return the version of a manifest by its path below its branch; None for another file."""
    match = _MANIFEST.fullmatch(path) if path.startswith(VERSIONS_DIRECTORY) else None
    if match is None:
        return None
    number = int(match[1])
    return VERSION_MAX - number if len(match[1]) == VERSION_DIGITS else number


def referenced_branch(path: str) -> str | None:
    """Return the Lance branch that a reference file names; None for another file."""
    if not (path.startswith(_REFERENCES) and path.endswith(_REFERENCE_SUFFIX)):
        return None
    return path.removeprefix(_REFERENCES).removesuffix(_REFERENCE_SUFFIX)


def manifests_first(path: str) -> int:
    """Return a sort key that puts manifests first: a partially deleted version must not look complete."""
    return 0 if path.startswith(VERSIONS_DIRECTORY) else 1
