"""Pages of changes: which changes a page contains, and the tokens with which the next request continues.

In: changes in a fixed order, a filter and a limit. Out: one page. A token is opaque to callers: base64 of a document
with a checksum. It names the graph, the branch and the filter for which it was issued, and is rejected elsewhere.
"""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from binascii import Error as Base64Error
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Final, TypeVar
from zlib import crc32

import msgspec

from omnigraph.base.decoding import decode_json
from omnigraph.base.errors import NotFoundError, UsageError
from omnigraph.graph.manifest.records import table_id
from omnigraph.wire.changes import EntityChangeOutput, entity_change_output

if TYPE_CHECKING:
    from omnigraph.graph.diff import EntityChange
    from omnigraph.schema.catalog import Catalog, Entity
    from omnigraph.wire.changes import ChangeFeedOutput
    from omnigraph.wire.requests import ChangeFilter, FeedParameters

PAGE_CHANGES_MAX: Final = 8_192
PAGE_BYTES_MAX: Final = 4 * 1024**2
"""About how long the changes of a page may be."""

Token = TypeVar("Token", bound="PageToken")


class PageToken(msgspec.Struct, frozen=True, kw_only=True, tag=True, forbid_unknown_fields=True):
    """Where the next page begins. `skipped`: how many changes of its first commit were delivered."""

    graph: str
    """The first commit of the graph, which no other graph has."""
    filter: str
    skipped: Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)] = 0


class FeedToken(PageToken, frozen=True, kw_only=True, tag=True):
    """The next page of a feed. `after`: the last complete commit; `until`: the head that the first page saw."""

    branch: str
    """The id of the branch."""
    after: str | None
    until: str


class Cursor(PageToken, frozen=True, kw_only=True, tag=True):
    """Where the next poll of a feed begins: after a commit."""

    branch: str
    after: str


class DiffToken(PageToken, frozen=True, kw_only=True, tag=True):
    """The next page of a difference, or of the changes of a commit, which has no `before`."""

    before: str | None
    after: str


class LogToken(PageToken, frozen=True, kw_only=True, tag=True):
    """The next page of a log: after a commit."""

    after: str


def encode_token(token: PageToken) -> str:
    """Return the token as text for a caller."""
    body = msgspec.json.encode(token)
    return urlsafe_b64encode(crc32(body).to_bytes(4) + body).decode().rstrip("=")


def decode_token(text: str, kind: type[Token], *, graph: str, chosen: str = "") -> Token:
    """Return a token that this graph issued for this filter; raise otherwise."""
    try:
        data = urlsafe_b64decode(text + "=" * (-len(text) % 4))
        if crc32(data[4:]).to_bytes(4) != data[:4]:
            raise rejected("it is damaged")
        token = decode_json(data[4:], kind)
    except (Base64Error, ValueError, msgspec.DecodeError) as error:
        raise rejected("another kind of request issued it") from error
    if token.graph != graph:
        raise rejected("it belongs to another graph")
    if token.filter != chosen:
        raise rejected("it belongs to another filter")
    return token


def head_of_cursor(text: str) -> str:
    """Return the commit of a cursor that this process issued."""
    return decode_json(urlsafe_b64decode(text + "=" * (-len(text) % 4))[4:], Cursor).after


@dataclass(frozen=True, slots=True, kw_only=True)
class FeedWait:
    """How long to wait for which branch to have another head, and the poll that follows."""

    branch: str
    head: str
    seconds: float
    following: FeedParameters


def plan_wait(parameters: FeedParameters, page: ChangeFeedOutput) -> FeedWait | None:
    """Return how to wait for a commit; None if the page has one, or if the request does not ask for it."""
    seconds = parameters.wait or 0.0
    if page.blocks or not seconds > 0 or not isinstance(page.cursor, str):
        return None
    return FeedWait(
        branch=parameters.branch.strip(),
        head=head_of_cursor(page.cursor),
        seconds=seconds,
        following=msgspec.structs.replace(parameters, cursor=page.cursor, start=None, page_token=None, wait=None),
    )


def rejected(reason: str) -> UsageError:
    """Return the error for a cursor or a page token that cannot be used."""
    return UsageError(
        f"change cursor rejected: {reason}",
        code="change_cursor_rejected",
        hint="Start again without the cursor or page token.",
    )


def filter_text(chosen: ChangeFilter) -> str:
    """Return the filter as text: equal filters have equal text."""
    parts = [sorted(set(values or ())) for values in (chosen.kind, chosen.type, chosen.op)]
    return msgspec.json.encode(parts).decode() if any(parts) else ""


@dataclass(frozen=True, slots=True)
class ChosenTypes:
    """The types of a filter: their tables under any name, and the names themselves, for types that were dropped."""

    tables: frozenset[str]
    aliases: frozenset[str]

    @classmethod
    def of(cls, names: Collection[str], catalogs: Sequence[Catalog], *, require: bool = True) -> ChosenTypes:
        """Resolve names or aliases in the newest schemas; raise if none has a type and `require` is set."""
        tables: set[str] = set()
        for name in names:
            entities = [entity for catalog in catalogs if (entity := _find_type(catalog, name)) is not None]
            if require and not entities:
                catalogs[-1].require_type(name)  # raises
            tables |= {table_id(entity.id, entity.incarnation) for entity in entities}
        aliases = {alias for name in names for alias in ([name] if ":" in name else [f"node:{name}", f"edge:{name}"])}
        return cls(frozenset(tables), frozenset(aliases))

    def has(self, change: EntityChange) -> bool:
        """Return whether a change is about one of the types."""
        return change.table_id in self.tables or change.table in self.aliases


def _find_type(catalog: Catalog, name: str) -> Entity | None:
    try:
        return catalog.require_type(name)
    except NotFoundError:
        return None


def select_changes(
    changes: Iterable[EntityChange], chosen: ChangeFilter, types: ChosenTypes | None, *, wide_as_text: bool = False
) -> Iterator[EntityChangeOutput]:
    """Yield the changes that pass the filter; `types` are those of the filter, None for all."""
    own = (change for change in changes if types is None or types.has(change))
    for change in (entity_change_output(change, wide_as_text=wide_as_text) for change in own):
        if (chosen.kind is None or change.kind in chosen.kind) and (chosen.op is None or change.op in chosen.op):
            yield change


@dataclass(slots=True)
class PageSize:
    """How much fits on a page: a number of changes, and a number of bytes."""

    changes_left: int
    bytes_left: int = PAGE_BYTES_MAX

    @classmethod
    def of(cls, limit: int) -> PageSize:
        """Return the size of a page with at most `limit` changes."""
        if not 1 <= limit <= PAGE_CHANGES_MAX:
            raise UsageError(
                f"invalid limit: expected 1 to {PAGE_CHANGES_MAX:,}, got {limit}",
                code="limit_invalid",
                hint="Pass a smaller limit, and follow `next_page_token`.",
            )
        return cls(limit)

    @property
    def is_full(self) -> bool:
        """Whether nothing more fits."""
        return self.changes_left <= 0 or self.bytes_left <= 0

    def take(self, changes: Iterator[EntityChangeOutput], skipped: int = 0) -> tuple[list[EntityChangeOutput], bool]:
        """Return the changes that fit, after those to skip, and whether there are more."""
        rest = islice(changes, skipped, None)
        taken: list[EntityChangeOutput] = []
        for change in rest:
            if self.is_full:
                return taken, True
            taken.append(change)
            self.changes_left -= 1
            self.bytes_left -= len(msgspec.json.encode(change))
        return taken, False
