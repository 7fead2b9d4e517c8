"""The lease of one graph branch: at most one writer at a time checks, commits and publishes its write.

It needs only create-if-absent. `<epoch>.json` acquires an epoch, `<epoch>.renew-<n>.json` renews it and
`<epoch>.release.json` ends it. A writer *holds* the lease while its epoch is the highest listed one. Another writer
may take the next epoch if the holder added no object during the lease time, on the clock of that writer, or if the
process of the holder is known to have ended. The highest epoch is never deleted, so a number is never used again. A
writer that lost the lease changes nothing more.
"""

from __future__ import annotations

import logging
import random
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

import msgspec

from omnigraph.base import limits
from omnigraph.base.clock import SYSTEM_CLOCK, Clock
from omnigraph.base.decoding import decode_json
from omnigraph.base.errors import Applied, ConflictError, FormatError, OmnigraphError, StorageError
from omnigraph.base.failpoints import Failpoint, failpoint
from omnigraph.base.ids import BranchId, new_ulid
from omnigraph.base.process import ProcessIdentity, current_process, has_certainly_ended
from omnigraph.graph.manifest.layout import LOCKS, lock_directory
from omnigraph.storage.objects import ObjectStore

logger = logging.getLogger("omnigraph.lease")

LOCK_VERSION: Final = 1
_NAME: Final = re.compile(r"(?P<epoch>\d{20})(?:\.(?:renew-\d{6,}|release))?\.json")


class LockObject(ProcessIdentity, frozen=True, kw_only=True):
    """The content of `<epoch>.json`: which process holds the epoch, and for what."""

    v: int
    token: str
    purpose: str
    acquired_us: str

    def describe(self) -> str:
        return f"{self.purpose} by process {self.pid} on {self.host}"


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseTerms:
    """The times of the protocol, the clock, and the identity of the process that takes and inspects leases."""

    lease_seconds: float = limits.LEASE_SECONDS
    wait_seconds: float = limits.LEASE_WAIT_SECONDS_MAX
    clock: Clock = SYSTEM_CLOCK
    jitter: Callable[[], float] = random.random
    process: Callable[[], ProcessIdentity] = current_process


class LeaseBusyError(ConflictError):
    """Another writer held the lease during the whole bounded wait."""

    applied = Applied.NO


class LeaseLostError(ConflictError):
    """This writer was paused for longer than its lease, and another writer has the lease now."""


@dataclass(frozen=True, slots=True)
class _Listing:
    """The lock directory at one time: the highest epoch, the names of its objects, and those of earlier epochs."""

    epoch: int
    names: frozenset[str]
    older_names: tuple[str, ...]
    version: str = ""
    """The version of `<epoch>.json`, if the store has versions of objects."""

    @property
    def is_released(self) -> bool:
        return any(name.endswith(".release.json") for name in self.names)


@dataclass(slots=True, kw_only=True)
class Lease:
    """A held epoch. Writers call `hold` before every durable step."""

    store: ObjectStore
    directory: str
    epoch: int
    token: str
    terms: LeaseTerms
    renewed_at: float
    version: str = ""
    """The version of `<epoch>.json` as it was created."""
    renewals: int = 0
    is_lost: bool = False

    def hold(self) -> None:
        """Raise `LeaseLostError` unless this epoch is still the highest; renew it after a third of the lease time."""
        if self.is_lost or not self._is_highest():
            self.is_lost = True
            raise LeaseLostError(
                f"this writer lost its lease of epoch {self.epoch}: another writer holds it now",
                code="lease_lost",
                hint="The writer stopped. Read the graph again, then retry.",
                facts={"epoch": self.epoch, "folder": self.directory},
            )
        if self.terms.clock.monotonic() - self.renewed_at > self.terms.lease_seconds / 3:
            self._renew()

    @contextmanager
    def renewing(self) -> Iterator[None]:
        """Renew the lease in the background, for work under it that can take longer than the lease time."""
        done = threading.Event()

        def renew() -> None:
            while not done.wait(self.terms.lease_seconds / 3):
                try:
                    self.hold()
                except OmnigraphError:
                    return  # The next `hold` of the caller raises it.

        renewer = threading.Thread(target=renew, name="omnigraph-lease", daemon=True)
        renewer.start()
        try:
            yield
        finally:
            done.set()
            renewer.join()

    def release(self) -> None:
        """End the epoch, unless it is lost. A failure is only a warning: the epoch expires."""
        if self.is_lost:
            return
        failpoint(Failpoint.RELEASE_BEFORE)
        try:
            self.store.create(self._path(".release"), self._mark("release"), durable=False)
        except OmnigraphError as error:
            logger.warning("cannot release the lease %s: %s", self._path(""), error.message)
        failpoint(Failpoint.RELEASE_AFTER)

    def _is_highest(self) -> bool:
        """Return whether this writer has the highest epoch. A restored backup can give its number to another writer."""
        listing = _list(self.store, self.directory)
        if listing.epoch != self.epoch:
            return False
        if listing.version and listing.version == self.version:
            return True
        lock = _read_lock(self.store, self.directory, self.epoch)
        return lock is not None and lock.token == self.token

    def _renew(self) -> None:
        self.renewals += 1
        path = self._path(f".renew-{self.renewals:06d}")
        failpoint(Failpoint.RENEW_BEFORE)
        self.store.create(path, self._mark(f"renew {self.renewals}"), durable=False)
        self.renewed_at = self.terms.clock.monotonic()

    def _path(self, suffix: str) -> str:
        return f"{self.directory}/{self.epoch:020d}{suffix}.json"

    def _mark(self, mark: str) -> bytes:
        return msgspec.json.encode({"v": LOCK_VERSION, "token": self.token, "mark": mark})


def acquire_lease(store: ObjectStore, branch: BranchId | None, purpose: str, terms: LeaseTerms | None = None) -> Lease:
    """Wait for the lease of the branch (None: of the graph) and take it, or raise an error that names the holder."""
    terms = terms or LeaseTerms()
    directory = lock_directory(branch)
    waiter = _Waiter(store=store, directory=directory, terms=terms)
    while True:
        listing = _list(store, directory)
        if waiter.is_free(listing):
            lease = _take_epoch(store, directory, listing, purpose, terms)
            if lease is not None:
                return lease
        waiter.pause(listing)


@contextmanager
def hold_lease(
    store: ObjectStore, branch: BranchId | None, purpose: str, terms: LeaseTerms | None = None
) -> Iterator[Lease]:
    """Acquire the lease, and release it after the block."""
    lease = acquire_lease(store, branch, purpose, terms)
    try:
        yield lease
    finally:
        lease.release()


def lease_busy(holder: str, waited_seconds: float, epoch: int) -> LeaseBusyError:
    """Return the error of a writer that waited for too long."""
    return LeaseBusyError(
        f"cannot acquire the lease: {holder} still held it after a wait of {waited_seconds:.0f} s",
        code="lease_busy",
        hint="Nothing was written. Retry.",
        facts={"holder": holder, "epoch": epoch},
    )


def is_epoch_over(store: ObjectStore, branch: BranchId | None, epoch: int) -> bool:
    """Return whether an epoch certainly ended: released, not the highest, or its process is known to have ended."""
    directory = lock_directory(branch)
    listing = _list(store, directory)
    if listing.epoch != epoch:
        return True
    lock = _read_lock(store, directory, epoch)
    return listing.is_released or (lock is not None and has_certainly_ended(lock))


@dataclass(frozen=True, slots=True)
class LockInspection:
    """The lease in one directory. `is_over`: it was released, or its process is known to have ended."""

    directory: str
    is_over: bool
    holder: str


def lock_directories(store: ObjectStore) -> tuple[str, ...]:
    """Return every directory in which a lease was ever taken."""
    directories = {entry.path.rpartition("/")[0] for entry in store.list(LOCKS)}
    return tuple(sorted(directories))


def inspect_lock(store: ObjectStore, directory: str) -> LockInspection:
    """Return who holds the lease, without taking it; raise `FormatError` if it cannot be read."""
    listing = _list(store, directory)
    lock = None if listing.is_released or not listing.epoch else _read_lock(store, directory, listing.epoch)
    is_over = lock is None or has_certainly_ended(lock)
    return LockInspection(directory, is_over, "" if lock is None else lock.describe())


@dataclass(slots=True, kw_only=True)
class _Waiter:
    """Watches the holder on the clock of this process, and polls more often the longer it waits."""

    store: ObjectStore
    directory: str
    terms: LeaseTerms
    started: float = -1.0
    seen_names: frozenset[str] = frozenset()
    seen_at: float = 0.0
    holder: LockObject | None = None

    def is_free(self, listing: _Listing) -> bool:
        now = self.terms.clock.monotonic()
        if self.started < 0:
            self.started = now
        if listing.epoch == 0 or listing.is_released:
            return True
        if listing.names != self.seen_names:
            self.seen_names, self.seen_at = listing.names, now
            self.holder = _read_lock(self.store, self.directory, listing.epoch)
        has_ended = self.holder is not None and has_certainly_ended(self.holder, self.terms.process())
        return has_ended or now - self.seen_at > self.terms.lease_seconds

    def pause(self, listing: _Listing) -> None:
        waited = self.terms.clock.monotonic() - self.started
        if waited > self.terms.wait_seconds:
            holder = self.holder.describe() if self.holder else "other writers"
            raise lease_busy(holder, waited, listing.epoch)
        remaining = max(0.0, 1.0 - waited)
        ceiling = (
            limits.LEASE_POLL_SECONDS_MIN + (limits.LEASE_POLL_SECONDS_MAX - limits.LEASE_POLL_SECONDS_MIN) * remaining
        )
        self.terms.clock.sleep(ceiling * (0.25 + 0.75 * self.terms.jitter()))


def _take_epoch(store: ObjectStore, directory: str, listing: _Listing, purpose: str, terms: LeaseTerms) -> Lease | None:
    epoch, token = listing.epoch + 1, new_ulid()
    process = msgspec.structs.asdict(terms.process())
    acquired_us = str(terms.clock.now_us())
    lock = LockObject(v=LOCK_VERSION, token=token, purpose=purpose, acquired_us=acquired_us, **process)
    started = terms.clock.monotonic()
    failpoint(Failpoint.ACQUIRE_BEFORE)
    if not store.create(f"{directory}/{epoch:020d}.json", msgspec.json.encode(lock)):
        return None
    failpoint(Failpoint.ACQUIRE_AFTER)
    lease = Lease(store=store, directory=directory, epoch=epoch, token=token, terms=terms, renewed_at=started)
    try:
        listing_after = _list(store, directory)
    except OmnigraphError:
        lease.release()  # No process should wait for a writer that stops here.
        raise
    if listing_after.epoch != epoch:
        return None
    lease.version = listing_after.version
    _delete_older(store, directory, listing_after)
    return lease


def _delete_older(store: ObjectStore, directory: str, listing: _Listing) -> None:
    """Delete the objects of earlier epochs, except those that cannot be read: they may be needed to find an error.

    A failure is only a warning: the next holder deletes them.
    """
    try:
        for name in listing.older_names:
            path = f"{directory}/{name}"
            is_mark = "." in name.removesuffix(".json")
            if is_mark or _decode(store.read(path) or b"") is not None:
                failpoint(Failpoint.COLLECT_BEFORE)
                store.delete(path)
    except StorageError as error:
        logger.warning("cannot delete earlier leases of %s: %s", directory, error.message)


def _list(store: ObjectStore, directory: str) -> _Listing:
    epochs: dict[int, list[str]] = {}
    versions: dict[str, str] = {}
    for entry in store.list(directory):
        name = entry.path.removeprefix(f"{directory}/")
        match = _NAME.fullmatch(name)
        if match is None:
            raise _unreadable(f"{store.location.uri}/{entry.path}", "the file name is invalid")
        epochs.setdefault(int(match["epoch"]), []).append(name)
        versions[name] = entry.version
    if not epochs:
        return _Listing(0, frozenset(), ())
    highest = max(epochs)
    older = tuple(name for epoch, names in sorted(epochs.items()) if epoch != highest for name in names)
    return _Listing(highest, frozenset(epochs[highest]), older, versions.get(f"{highest:020d}.json", ""))


def _read_lock(store: ObjectStore, directory: str, epoch: int) -> LockObject | None:
    """Return the holder of an epoch; None if its object was deleted since, so that the epoch is over."""
    path = f"{directory}/{epoch:020d}.json"
    data = store.read(path)
    if data is None:
        return None
    lock = _decode(data)
    if lock is None:
        raise _unreadable(f"{store.location.uri}/{path}", "the file is damaged or was written by a newer release")
    return lock


def _decode(data: bytes) -> LockObject | None:
    try:
        lock = decode_json(data, LockObject)
    except msgspec.DecodeError:
        return None
    return lock if lock.v == LOCK_VERSION else None


def _unreadable(path: str, reason: str) -> FormatError:
    return FormatError(
        f"cannot read the lock '{path}': {reason}",
        code="lock_unreadable",
        hint="Nothing was written. Upgrade omnigraph. If that does not help, stop all writers and move the file out of "
        "the graph.",
        facts={"path": path, "reason": reason},
    )
