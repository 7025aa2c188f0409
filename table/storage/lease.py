"""One writer at a time: a lease on the table, kept by put-if-absent, with a fencing number.

    .hoodie/.keymark/lease/<n>          who holds lease number n, until when at first, and what it
                                        is putting
    .hoodie/.keymark/lease/<n>.until    until when now: renewed while held, 0 when released
    .hoodie/.keymark/lease/queue/<n>    who waits, in this order, and until when

The holder is who made the highest number. A lease that ran out, or whose holder is known to be
dead, is succeeded by making the next number. A holder that stood still for too long finds a higher
number: it checks that before it completes an instant, with other processes kept out, and stops.
Who waits comes before who has not waited: a writer that commits without a pause lets others in.

Where there are no locks (object stores), a holder does not check its number: it makes the next
one, by put-if-absent, as a successor would, and so at most one of the two continues. The files that
complete an instant are written into that number first. The successor of a holder that paused right
there copies them into its own number and puts them before anything else: both of them come to the
same end, however long the pause was. Numbers below the highest are deleted and never read: a
holder that slept so long that its next number was made and deleted by others can make it again, and
has won nothing by that.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import secrets
import socket
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from keymark.table.errors import (
    CommitConflictError,
    LeaseLostError,
    LockHeldError,
    StorageError,
    TableError,
)
from keymark.table.layout.naming import LEASE, STAGING
from keymark.table.properties.options import Options
from keymark.table.runtime.clock import Clock
from keymark.table.storage.fence import FencedStorage, Tenure
from keymark.table.storage.lease_files import (
    expires_at,
    highest_number,
    lease_number,
    lease_path,
    read_lease,
    until_path,
)
from keymark.table.storage.storage import Storage

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

    Attributes:
        storage: the table's, for all that the holder does. Once a successor took the table, what
            the holder still puts, replaces or deletes fails (table/storage/fence.py).
        clock: the time.
        terms: how long it holds.
        number: of the lease.
        token: identifies this holder.
        tenure: how long the holder may go on without asking.
        settled: false from the moment at which a successor may complete what this holder began,
            until it is known that none has to. What was written must not be taken back then.
    """

    storage: Storage
    clock: Clock
    terms: LeaseTerms
    number: int
    token: str
    tenure: Tenure
    settled: bool = True

    @classmethod
    def made(
        cls, storage: Storage, clock: Clock, terms: LeaseTerms, number: int, *, alone: bool
    ) -> Lease:
        """A lease of that number, which is still free.

        Args:
            storage: the table's.
            clock: the time.
            terms: how long it holds.
            number: of the lease.
            alone: whether other processes are kept out for now.
        """
        token = secrets.token_hex(16)
        tenure = Tenure(token, clock.millis() + int(terms.validity * 1000))
        if alone:
            own = storage.staged(staging_name(number, token))
        else:
            own = FencedStorage(storage, clock, tenure)
        return cls(own, clock, terms, number, token, tenure)

    def check(self) -> None:
        """Raise LeaseLostError if another writer took the table."""
        if highest_number(self.storage) != self.number:
            raise self._lost()

    @contextlib.contextmanager
    def fenced(self) -> Iterator[None]:
        """Do what makes a write visible: no writer takes the table between the check and the end.

        Where there are no locks, the table is this holder's for the validity of a new lease.
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
                if not self._put_recorded_here(puts):
                    return
            except LeaseLostError:
                raise
            except TableError as error:
                self._retract(error)
                raise
            # If this fails, the next holder repeats the puts harmlessly.
            with contextlib.suppress(StorageError, LeaseLostError):
                content = _content(self, self.tenure.until, ())
                self.storage.replace(lease_path(self.number), content)
                self.settled = True

    def _put_recorded_here(self, puts: Puts) -> bool:
        """Put files that the lease's number records; False if a successor has put them.

        The next holder of the table puts them before anything else.
        """
        try:
            _put_all(self.storage, puts)
        except LeaseLostError:
            for path, content in puts:
                with contextlib.suppress(FileNotFoundError):
                    if self.storage.read(path) != content:
                        raise _conflict(path) from None
            return False
        return True

    def _advance(self, puts: Puts) -> None:
        """Make the next number, unless a successor has made it.

        Successors delete the numbers that they left behind. So a number that could be made is worth
        nothing, unless it is the highest.
        """
        before, until = self.number, self._next_end()
        try:
            self.storage.put(lease_path(before + 1), _content(self, until, puts))
        except FileExistsError:
            raise self._lost() from None
        if highest_number(self.storage) != before + 1:
            with contextlib.suppress(LeaseLostError, StorageError):
                self.storage.delete(lease_path(before + 1))
            raise self._lost()
        self.number, self.tenure.until = before + 1, until
        self.storage.delete(lease_path(before))
        self.storage.delete(until_path(before))

    def _retract(self, error: TableError) -> None:
        """Take back the intention to put files, so that no successor puts them."""
        try:
            highest = highest_number(self.storage)
            if highest != self.number:
                if read_lease(self.storage, highest).get("token") != self.token:
                    raise self._lost()
                # The answer to the put of that number was lost.
                self.number = highest
            self._advance(())
        except StorageError as second:
            raise StorageError(f"{error}; the next writer finds out and finishes it") from second
        self.settled = True

    def renew(self) -> None:
        """Store that the lease holds for another while.

        Whoever read the former end after it had passed may make the next number all the same. So a
        renewal that comes too late does not spare the holder its questions.
        """
        number, until = self.number, self._next_end()
        self.storage.replace(until_path(number), str(until).encode())
        if number == self.number and self.clock.millis() < self.tenure.until:
            self.tenure.until = until

    def release(self, storage: Storage) -> None:
        """Let the next one have the table, unless a successor must finish what this one began.

        If the release cannot be stored, the lease expires.

        Args:
            storage: the table's, as others write to it.
        """
        if self.settled:
            with contextlib.suppress(StorageError, LeaseLostError):
                self.storage.replace(until_path(self.number), b"0")
        if not isinstance(self.storage, FencedStorage):
            with contextlib.suppress(StorageError):
                storage.delete_tree(f"{STAGING}/{staging_name(self.number, self.token)}")

    def lost(self) -> bool:
        """Whether another writer took the table, as far as storage shows it."""
        try:
            number = highest_number(self.storage)
            return read_lease(self.storage, number).get("token") != self.token
        except StorageError:
            return False

    def _next_end(self) -> int:
        return self.clock.millis() + int(self.terms.validity * 1000)

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
        except LeaseLostError:
            raise
        except (TableError, OSError) as error:
            if lease.lost():
                # Whatever it met, this is why.
                raise LeaseLostError(
                    f"another writer took {storage.root} meanwhile; then came: {error}"
                ) from error
            raise
        finally:
            stop.set()
            renewal.join()
            # What was deleted last stays deleted; if not, nothing refers to it.
            with contextlib.suppress(StorageError):
                storage.sync()
            lease.release(storage)


@contextlib.contextmanager
def exclusively(storage: Storage, clock: Clock, terms: LeaseTerms) -> Iterator[Storage]:
    """Keep other writers of Keymark's out of a folder that may hold no table yet.

    Yields the storage for all that is done there: who loses the folder can change it no longer.
    """
    with storage.guard() as alone:
        if alone:
            yield storage
            return
    with hold(storage, clock, terms) as lease:
        yield lease.storage


def _acquire(
    storage: Storage, clock: Clock, terms: LeaseTerms, stack: contextlib.ExitStack
) -> Lease:
    give_up = clock.seconds() + terms.wait
    with contextlib.ExitStack() as waiting:
        ticket = 0
        while True:
            with storage.guard() as alone:
                if not terms.wait or not _others_first(storage, clock, ticket):
                    lease = _succeed(storage, clock, terms, alone=alone)
                    if lease is not None:
                        stack.enter_context(storage.hold(lease_path(lease.number)))
                        return lease
                if terms.wait and not ticket:
                    ticket = waiting.enter_context(_queued(storage, clock, terms))
            if clock.seconds() >= give_up:
                holder = read_lease(storage, highest_number(storage)).get("owner", "unknown")
                raise LockHeldError(f"another writer holds {storage.root}: {holder}")
            clock.sleep(_POLL_SECONDS if alone else _POLL_FAR_SECONDS)


@contextlib.contextmanager
def _queued(storage: Storage, clock: Clock, terms: LeaseTerms) -> Iterator[int]:
    """Stand in the queue, last."""
    until = str(clock.millis() + int(terms.wait * 1000)).encode()
    while True:
        numbers = (lease_number(status.name) for status in storage.list(_QUEUE))
        ticket = max(numbers, default=0) + 1
        path = f"{_QUEUE}/{ticket:012d}"
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
        if ticket and lease_number(status.name) >= ticket:
            continue
        with contextlib.suppress(FileNotFoundError, ValueError):
            if int(storage.read(status.path)) >= clock.millis() and storage.held(status.path):
                return True
        storage.delete(status.path)
    return False


def _succeed(storage: Storage, clock: Clock, terms: LeaseTerms, *, alone: bool) -> Lease | None:
    """Make the next number if the present holder is through; None if it is not.

    The staging folders of earlier holders go before anything else is looked at. From then on none
    of them can change a file. What the holder before had to put is recorded in the new number at
    once: of all numbers only the highest counts.
    """
    last, now = highest_number(storage), clock.millis()
    if last and expires_at(storage, last) > now and storage.held(lease_path(last)):
        return None
    lease = Lease.made(storage, clock, terms, last + 1, alone=alone)
    due = _recorded(storage, last)
    try:
        storage.put(lease_path(last + 1), _content(lease, lease.tenure.until, due))
    except FileExistsError:
        return None
    if highest_number(storage) != last + 1:
        # The listing was old: that number was given and succeeded long ago.
        storage.delete(lease_path(last + 1))
        return None
    lease.storage.sweep()
    if due:
        # Another's files stay as they are.
        with contextlib.suppress(CommitConflictError):
            _put_all(lease.storage, due)
        content = _content(lease, lease.tenure.until, ())
        lease.storage.replace(lease_path(lease.number), content)
    for status in storage.list(LEASE):
        if lease_number(status.name) <= last:
            lease.storage.delete(status.path)
    return lease


def _recorded(storage: Storage, number: int) -> Puts:
    """What the holder of a number was putting when it stopped."""
    try:
        found = read_lease(storage, number)["puts"]
        puts = [(path, base64.b64decode(content)) for path, content in found]
    except (ValueError, KeyError, TypeError):
        return []
    return puts if all(isinstance(path, str) for path, _ in puts) else []


def _put_all(storage: Storage, puts: Puts) -> None:
    """Put files, of which a successor that finished this may have put some."""
    for path, content in puts:
        try:
            storage.commit(path, content)
        except FileExistsError as error:
            if storage.read(path) != content:
                raise _conflict(path) from error


def _conflict(path: str) -> CommitConflictError:
    return CommitConflictError(f"instant {path} exists: another writer won")


def staging_name(number: int, token: str) -> str:
    """The staging folder of a holder: names of later holders are greater."""
    return f"{number:012d}-{token}"


def _content(lease: Lease, until: int, puts: Puts) -> bytes:
    """What the file of a lease's number says."""
    document = {
        "token": lease.token,
        "owner": f"{socket.gethostname()}:{os.getpid()}",
        "expires": until,
        "puts": [(path, base64.b64encode(content).decode()) for path, content in puts],
    }
    return json.dumps(document).encode()


def _renew(lease: Lease, stop: threading.Event) -> None:
    while not stop.wait(lease.terms.renewal):
        # If a renewal fails, the lease expires, and the check before the commit fails.
        with contextlib.suppress(StorageError, LeaseLostError):
            lease.renew()
