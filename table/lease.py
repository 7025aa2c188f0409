"""One writer at a time: a lease on the table, kept by put-if-absent, with a fencing number.

    .hoodie/.keymark/lease/<n>          who holds lease number n, until when at first, and what it
                                        is putting
    .hoodie/.keymark/lease/<n>.until    until when now: renewed while held, 0 when released
    .hoodie/.keymark/lease/queue/<n>    who waits, in this order, and until when

The holder is who made the highest number. A lease that ran out, or whose holder is known to be
dead, is succeeded by making the next number. A holder that stood still for too long finds a higher
number: it checks that before it completes an instant, with other processes kept out, and stops.
Who waits comes before who has not waited: a writer that commits without a pause lets others in.

Where nobody can be kept out (object stores), a holder does not check its number: it makes the next
one, by put-if-absent, as a successor would, and so at most one of the two goes on. The files that
complete an instant are written into that number first. Whoever succeeds a holder that stopped right
there puts them before anything else: both of them come to the same end, however long the one stood
still.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import secrets
import socket
import sys
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from table.clock import Clock
from table.errors import (
    CommitConflictError,
    LeaseLostError,
    LockHeldError,
    StorageError,
    TableError,
)
from table.naming import LEASE
from table.options import Options
from table.storage import Storage

_DIGITS = 12
# A look at a local disk costs little, one at an object store several requests.
_POLL_SECONDS, _POLL_FAR_SECONDS = 0.02, 0.25
_QUEUE = f"{LEASE}/queue"

Puts = Sequence[tuple[str, bytes]]
"""(path, content) of files that appear together, in this order"""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseTerms:
    """How long to wait for the lease, how long it holds, and how often it is renewed; seconds."""

    wait: float
    validity: float
    renewal: float

    @classmethod
    def of(cls, options: Options) -> LeaseTerms:
        """The terms that options give; names as those of Hudi's StorageBasedLockProvider."""
        prefix = "hoodie.write.lock"
        return cls(
            wait=options.integer(f"{prefix}.wait_time_ms") / 1000,
            validity=options.integer(f"{prefix}.storage.validity.timeout.secs"),
            renewal=options.integer(f"{prefix}.storage.renew.interval.secs"),
        )


@dataclass(slots=True)
class Lease:
    """A lease that this process made; whether it still holds is for `check` to say.

    `settled` is false from the moment at which a successor may complete what this holder began,
    until it is known that none has to: what was written must not be taken back then.
    """

    storage: Storage
    clock: Clock
    terms: LeaseTerms
    number: int
    token: str
    settled: bool = True

    def check(self) -> None:
        """Raise LeaseLostError if another writer took the table."""
        if _highest(self.storage) != self.number:
            raise self._lost()

    @contextlib.contextmanager
    def fenced(self) -> Iterator[None]:
        """Do what makes a write visible: nobody takes the table between the check and the end.

        Where nobody can be kept out, the table is this holder's for the validity of a new lease.
        """
        with self.storage.guard() as alone:
            if alone:
                self.check()
            else:
                self._advance(())
            yield

    def publish(self, puts: Puts) -> None:
        """Put the files that complete an instant, all or none as any later writer sees it.

        Raises:
            LeaseLostError: another writer took the table; nothing was put.
            CommitConflictError: a file is there with another content.
            StorageError: a put failed. If `settled` is false, the next writer decides.
        """
        with self.storage.guard() as alone:
            if alone:
                self.check()
                _put_all(self.storage, puts)
                return
            self.settled = False
            try:
                self._advance(puts)
                _put_all(self.storage, puts)
            except LeaseLostError:
                raise
            except TableError as error:
                self._retract(error)
                raise
            # What stays behind here, a successor puts again, in vain.
            with contextlib.suppress(StorageError):
                self.storage.replace(_path(self.number), _content(self, ()))
                self.settled = True

    def _advance(self, puts: Puts) -> None:
        """Make the next number, unless a successor has made it."""
        before = self.number
        try:
            self.storage.put(_path(before + 1), _content(self, puts))
        except FileExistsError:
            raise self._lost() from None
        self.number = before + 1
        self.storage.delete(_path(before))
        self.storage.delete(_until(before))

    def _retract(self, error: TableError) -> None:
        """Take back the intention to put files, so that no successor puts them."""
        try:
            highest = _highest(self.storage)
            if highest != self.number:
                if _read(self.storage, highest).get("token") != self.token:
                    raise self._lost()
                # The answer to the put of that number was lost.
                self.number = highest
            self._advance(())
        except (StorageError, FileNotFoundError) as second:
            raise StorageError(f"{error}; the next writer finds out and goes on") from second
        self.settled = True

    def _lost(self) -> LeaseLostError:
        return LeaseLostError(
            f"the lease on {self.storage.root} ran out and another writer took the table"
        )


@contextlib.contextmanager
def hold(storage: Storage, clock: Clock, terms: LeaseTerms) -> Iterator[Lease]:
    """Hold the table exclusively; LockHeldError if another writer does for longer than the wait."""
    with contextlib.ExitStack() as stack:
        lease = _acquire(storage, clock, terms, stack)
        stop = threading.Event()
        renewal = threading.Thread(
            target=_renew, args=(lease, stop), daemon=True, name="keymark-lease"
        )
        renewal.start()
        try:
            yield lease
        finally:
            stop.set()
            renewal.join()
            # A release that cannot be stored is told by the end of the hold.
            if lease.settled:
                with contextlib.suppress(StorageError):
                    storage.replace(_until(lease.number), b"0")


@contextlib.contextmanager
def exclusively(storage: Storage, clock: Clock, terms: LeaseTerms) -> Iterator[None]:
    """Keep other writers of Keymark's out of a folder that may hold no table yet."""
    with storage.guard() as alone:
        if alone:
            yield
            return
    with hold(storage, clock, terms):
        yield


def _acquire(
    storage: Storage, clock: Clock, terms: LeaseTerms, stack: contextlib.ExitStack
) -> Lease:
    give_up = clock.seconds() + terms.wait
    with contextlib.ExitStack() as waiting:
        ticket = 0
        while True:
            with storage.guard() as alone:
                if not terms.wait or not _others_first(storage, clock, ticket):
                    lease = _succeed(storage, clock, terms)
                    if lease is not None:
                        stack.enter_context(storage.hold(_path(lease.number)))
                        return lease
                if terms.wait and not ticket:
                    ticket = waiting.enter_context(_queued(storage, clock, terms))
            if clock.seconds() >= give_up:
                raise LockHeldError(f"another writer holds {storage.root}: {_holder(storage)}")
            clock.sleep(_POLL_SECONDS if alone else _POLL_FAR_SECONDS)


@contextlib.contextmanager
def _queued(storage: Storage, clock: Clock, terms: LeaseTerms) -> Iterator[int]:
    """Stand in the queue, last."""
    until = str(clock.millis() + int(terms.wait * 1000)).encode()
    while True:
        numbers = (_number(status.name) for status in storage.list(_QUEUE))
        ticket = max(numbers, default=0) + 1
        path = f"{_QUEUE}/{ticket:0{_DIGITS}d}"
        with contextlib.suppress(FileExistsError):
            storage.put(path, until)
            break
    try:
        with storage.hold(path):
            yield ticket
    finally:
        with contextlib.suppress(StorageError):
            storage.delete(path)


def _others_first(storage: Storage, clock: Clock, ticket: int) -> bool:
    """Whether somebody waits longer; tickets of the dead and of those who gave up go."""
    for status in storage.list(_QUEUE):
        if ticket and _number(status.name) >= ticket:
            continue
        with contextlib.suppress(FileNotFoundError, ValueError):
            if int(storage.read(status.path)) >= clock.millis() and storage.held(status.path):
                return True
        storage.delete(status.path)
    return False


def _succeed(storage: Storage, clock: Clock, terms: LeaseTerms) -> Lease | None:
    """Make the next number if the present holder is through; None if it is not."""
    last, now = _highest(storage), clock.millis()
    if last and _expires(storage, last) > now and storage.held(_path(last)):
        return None
    lease = Lease(storage, clock, terms, last + 1, secrets.token_hex(16))
    try:
        storage.put(_path(last + 1), _content(lease, ()))
    except FileExistsError:
        return None
    if _highest(storage) != last + 1:
        # The listing was old: that number was given and succeeded long ago.
        storage.delete(_path(last + 1))
        return None
    for status in storage.list(LEASE):
        if _number(status.name) <= last:
            _put_recorded(storage, status.path)
            storage.delete(status.path)
    return lease


def _put_recorded(storage: Storage, path: str) -> None:
    """Complete what a holder was putting when it stopped; another's files stay as they are."""
    try:
        recorded = json.loads(storage.read(path))["puts"]
        puts = [(path, base64.b64decode(content)) for path, content in recorded]
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return
    with contextlib.suppress(CommitConflictError):
        _put_all(storage, puts)


def _put_all(storage: Storage, puts: Puts) -> None:
    """Put files, of which some may be there already, put by whoever finished this."""
    for path, content in puts:
        try:
            storage.put(path, content)
        except FileExistsError as error:
            if storage.read(path) != content:
                raise CommitConflictError(f"instant {path} exists: another writer won") from error


def _content(lease: Lease, puts: Puts) -> bytes:
    """What the file of a lease's number says."""
    document = {
        "token": lease.token,
        "owner": f"{socket.gethostname()}:{os.getpid()}",
        "expires": lease.clock.millis() + int(lease.terms.validity * 1000),
        "puts": [(path, base64.b64encode(content).decode()) for path, content in puts],
    }
    return json.dumps(document).encode()


def _renew(lease: Lease, stop: threading.Event) -> None:
    while not stop.wait(lease.terms.renewal):
        # A renewal that fails leaves the lease to run out: the check before the commit tells.
        with contextlib.suppress(StorageError):
            until = lease.clock.millis() + int(lease.terms.validity * 1000)
            lease.storage.replace(_until(lease.number), str(until).encode())


def _highest(storage: Storage) -> int:
    """The highest number that was made; 0 before the first."""
    return max((_number(status.name) for status in storage.list(LEASE)), default=0)


def _number(name: str) -> int:
    digits = name.partition(".")[0]
    return int(digits) if digits.isdecimal() and len(digits) == _DIGITS else 0


def _expires(storage: Storage, number: int) -> int:
    """When a lease runs out, in epoch milliseconds; a damaged one ends with its holder only."""
    with contextlib.suppress(FileNotFoundError, ValueError):
        return int(storage.read(_until(number)))
    try:
        return int(_read(storage, number)["expires"])
    except (KeyError, TypeError, ValueError):
        return sys.maxsize


def _holder(storage: Storage) -> str:
    return str(_read(storage, _highest(storage)).get("owner", "unknown"))


def _read(storage: Storage, number: int) -> dict[str, Any]:
    """What the file of a number says; nothing where it is gone or damaged."""
    try:
        found = json.loads(storage.read(_path(number)))
    except (FileNotFoundError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _path(number: int) -> str:
    return f"{LEASE}/{number:0{_DIGITS}d}"


def _until(number: int) -> str:
    return f"{_path(number)}.until"
