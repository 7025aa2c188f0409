"""One writer at a time: a lease on the table, kept by put-if-absent, with a fencing number.

    .hoodie/.keymark/lease/<n>          who holds lease number n, and until when at first
    .hoodie/.keymark/lease/<n>.until    until when now: renewed while held, 0 when released
    .hoodie/.keymark/lease/queue/<n>    who waits, in this order, and until when

The holder is who made the highest number. A lease that ran out, or whose holder is known to be
dead, is succeeded by making the next number. A holder that stood still for too long finds a higher
number: it checks that before it completes an instant, with other processes kept out, and stops.
Who waits comes before who has not waited: a writer that commits without a pause lets others in.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import socket
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass

from table.clock import Clock
from table.errors import LeaseLostError, LockHeldError, StorageError
from table.naming import LEASE
from table.options import Options
from table.storage import Storage

_DIGITS = 12
_POLL_SECONDS = 0.02
_QUEUE = f"{LEASE}/queue"


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


@dataclass(frozen=True, slots=True)
class Lease:
    """A lease that this process made; whether it still holds is for `check` to say."""

    storage: Storage
    number: int

    def check(self) -> None:
        """Raise LeaseLostError if another writer took the table."""
        if _highest(self.storage) != self.number:
            raise LeaseLostError(
                f"the lease on {self.storage.root} ran out and another writer took the table"
            )

    @contextlib.contextmanager
    def fenced(self) -> Iterator[None]:
        """Do what makes a write visible: nobody takes the table between the check and the end."""
        with self.storage.guard():
            self.check()
            yield


@contextlib.contextmanager
def hold(storage: Storage, clock: Clock, terms: LeaseTerms) -> Iterator[Lease]:
    """Hold the table exclusively; LockHeldError if another writer does for longer than the wait."""
    with contextlib.ExitStack() as stack:
        lease = _acquire(storage, clock, terms, stack)
        stop = threading.Event()
        renewal = threading.Thread(
            target=_renew, args=(lease, clock, terms, stop), daemon=True, name="keymark-lease"
        )
        renewal.start()
        try:
            yield lease
        finally:
            stop.set()
            renewal.join()
            # A release that cannot be stored is told by the end of the hold.
            with contextlib.suppress(StorageError):
                storage.replace(_until(lease.number), b"0")


def _acquire(
    storage: Storage, clock: Clock, terms: LeaseTerms, stack: contextlib.ExitStack
) -> Lease:
    give_up = clock.seconds() + terms.wait
    with contextlib.ExitStack() as waiting:
        ticket = 0
        while True:
            with storage.guard():
                if not terms.wait or not _others_first(storage, clock, ticket):
                    lease = _succeed(storage, clock, terms)
                    if lease is not None:
                        stack.enter_context(storage.hold(_path(lease.number)))
                        return lease
                if terms.wait and not ticket:
                    ticket = waiting.enter_context(_queued(storage, clock, terms))
            if clock.seconds() >= give_up:
                raise LockHeldError(f"another writer holds {storage.root}: {_holder(storage)}")
            clock.sleep(_POLL_SECONDS)


@contextlib.contextmanager
def _queued(storage: Storage, clock: Clock, terms: LeaseTerms) -> Iterator[int]:
    """Stand in the queue, last."""
    numbers = (_number(status.name) for status in storage.list(_QUEUE))
    ticket = max(numbers, default=0) + 1
    path = f"{_QUEUE}/{ticket:0{_DIGITS}d}"
    storage.put(path, str(clock.millis() + int(terms.wait * 1000)).encode())
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
    content = {
        "token": secrets.token_hex(16),
        "owner": f"{socket.gethostname()}:{os.getpid()}",
        "expires": now + int(terms.validity * 1000),
    }
    try:
        storage.put(_path(last + 1), json.dumps(content).encode())
    except FileExistsError:
        return None
    if _highest(storage) != last + 1:
        # The listing was old: that number was given and succeeded long ago.
        storage.delete(_path(last + 1))
        return None
    for status in storage.list(LEASE):
        if _number(status.name) <= last:
            storage.delete(status.path)
    return Lease(storage, last + 1)


def _renew(lease: Lease, clock: Clock, terms: LeaseTerms, stop: threading.Event) -> None:
    while not stop.wait(terms.renewal):
        # A renewal that fails leaves the lease to run out: the check before the commit tells.
        with contextlib.suppress(StorageError):
            until = clock.millis() + int(terms.validity * 1000)
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
    with contextlib.suppress(FileNotFoundError, ValueError, KeyError, TypeError):
        return int(json.loads(storage.read(_path(number)))["expires"])
    return sys.maxsize


def _holder(storage: Storage) -> str:
    with contextlib.suppress(FileNotFoundError, ValueError, KeyError, TypeError):
        return str(json.loads(storage.read(_path(_highest(storage))))["owner"])
    return "unknown"


def _path(number: int) -> str:
    return f"{LEASE}/{number:0{_DIGITS}d}"


def _until(number: int) -> str:
    return f"{_path(number)}.until"
