"""One writer at a time: the lease, its end, and what becomes of a writer that lost it (I11).

Strategy: leases under a clock that the test moves; holders that die, stand still, or never let go;
many contenders in threads; and a write that is overtaken just before its commit.
"""

from __future__ import annotations

import contextlib
import threading
from dataclasses import dataclass

import pytest
from table_cases import create, data_rows, left_over, rows

from keymark import Table
from keymark.table.errors import LeaseLostError, LockHeldError
from keymark.table.layout.naming import LEASE
from keymark.table.runtime.clock import SystemClock
from keymark.table.storage.lease import LeaseTerms, hold
from keymark.table.storage.local_storage import LocalStorage

TERMS = LeaseTerms(wait=0, validity=60, renewal=3600)


@dataclass
class MovedClock:
    """A clock that only moves when told to, or by sleeping."""

    now: float = 1_000_000.0

    def millis(self):
        return int(self.now * 1000)

    def seconds(self):
        return self.now

    def sleep(self, seconds):
        self.now += seconds


class AliveForever(LocalStorage):
    """A storage that cannot tell whether a holder lives, as an object store cannot."""

    def held(self, path):
        del path
        return True


@pytest.fixture
def storage(tmp_path):
    return LocalStorage(str(tmp_path))


def test_a_second_holder_is_refused_until_the_first_is_through(storage):
    clock = MovedClock()
    with hold(storage, clock, TERMS) as first:
        with (
            pytest.raises(LockHeldError, match="another writer holds"),
            hold(storage, clock, TERMS),
        ):
            pass
        first.check()
    with hold(storage, clock, TERMS) as second:
        assert second.number == first.number + 1
        with pytest.raises(LeaseLostError):
            first.check()


def test_a_dead_holder_is_succeeded_at_once(storage):
    """The kernel lets go of what a dead process held, long before its lease runs out."""
    clock = MovedClock()
    with contextlib.suppress(KeyboardInterrupt), hold(storage, clock, TERMS) as dead:
        number = dead.number
        storage.delete(f"{LEASE}/{number:012d}.until")
        raise KeyboardInterrupt
    storage.delete(f"{LEASE}/{number:012d}.until")
    with hold(storage, clock, TERMS) as next_one:
        assert next_one.number == number + 1


def test_a_holder_that_stood_still_for_too_long_has_lost(tmp_path):
    storage, clock = AliveForever(str(tmp_path)), MovedClock()
    with hold(storage, clock, TERMS) as slow:
        clock.sleep(59)
        with pytest.raises(LockHeldError), hold(storage, clock, TERMS):
            pass
        clock.sleep(2)
        with hold(storage, clock, TERMS) as fast:
            fast.check()
            with pytest.raises(LeaseLostError, match="ran out"), slow.fenced():
                pass
        # The successor is through: the slow one does not get the table back by that.
        with pytest.raises(LeaseLostError):
            slow.check()


@pytest.mark.parametrize(
    "content",
    [b"\x00 not JSON", b"[" * 100_000, b'{"expires": Infinity}', b'{"expires": -1e999}'],
)
def test_a_lease_that_nobody_can_read_counts_as_long_as_its_holder_lives(tmp_path, content):
    storage, clock = LocalStorage(str(tmp_path)), MovedClock()
    storage.put(f"{LEASE}/{7:012d}", content)
    with storage.hold(f"{LEASE}/{7:012d}"):
        clock.sleep(10_000)
        with pytest.raises(LockHeldError), hold(storage, clock, TERMS):
            pass
    with hold(storage, clock, TERMS) as lease:
        assert lease.number == 8


def test_waiting_ends_when_the_holder_is_through(storage):
    entered, order = threading.Event(), []

    def wait():
        with hold(storage, SystemClock(), LeaseTerms(wait=60, validity=60, renewal=60)):
            order.append("second")

    with hold(storage, SystemClock(), TERMS):
        second = threading.Thread(target=wait)
        second.start()
        entered.set()
        order.append("first")
    second.join()
    assert order == ["first", "second"]


def test_of_many_contenders_one_holds_at_a_time(tmp_path):
    inside, most, count = 0, 0, 0
    mutex = threading.Lock()

    def work():
        nonlocal inside, most, count
        storage = LocalStorage(str(tmp_path))
        for _ in range(5):
            with hold(storage, SystemClock(), LeaseTerms(wait=60, validity=60, renewal=60)):
                with mutex:
                    inside += 1
                    most = max(most, inside)
                with mutex:
                    inside -= 1
                    count += 1

    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (most, count) == (1, 30)


QUEUE = f"{LEASE}/queue"
PATIENT = LeaseTerms(wait=60, validity=60, renewal=60)


def test_who_waits_comes_before_who_takes_it_again(storage):
    """A writer that commits without a pause cannot keep others out."""
    order = []

    def wait():
        with hold(storage, SystemClock(), PATIENT):
            order.append("waiter")

    with hold(storage, SystemClock(), PATIENT):
        waiter = threading.Thread(target=wait)
        waiter.start()
        while not storage.list(QUEUE):
            pass
    with hold(storage, SystemClock(), PATIENT):
        order.append("again")
    waiter.join()
    assert order == ["waiter", "again"]
    assert storage.list(QUEUE) == []


def test_the_dead_and_those_who_gave_up_wait_for_nothing(tmp_path):
    storage, clock = LocalStorage(str(tmp_path)), MovedClock()
    storage.put(f"{QUEUE}/{1:012d}", str(clock.millis() + 60_000).encode())
    storage.put(f"{QUEUE}/{2:012d}", b"\x00 no number")
    with hold(storage, clock, PATIENT):
        assert storage.list(QUEUE) == []
    unknowing = AliveForever(str(tmp_path))
    storage.put(f"{QUEUE}/{1:012d}", str(clock.millis() + 30_000).encode())
    before = clock.now
    with hold(unknowing, clock, PATIENT):
        assert 30 <= clock.now - before < 31
    assert storage.list(QUEUE) == []


def test_who_does_not_wait_does_not_queue(storage):
    with hold(storage, SystemClock(), TERMS):
        with pytest.raises(LockHeldError), hold(storage, SystemClock(), TERMS):
            pass
        assert not storage.exists(QUEUE)
        clock = MovedClock()
        with pytest.raises(LockHeldError), hold(storage, clock, PATIENT):
            pass
        assert storage.list(QUEUE) == []


class Overtaken(LocalStorage):
    """Lets another writer take the table just before this one completes its commit."""

    def guard(self):
        delta = self.list(".hoodie/metadata/.hoodie")
        inflight = any(s.name.endswith("deltacommit.inflight") and "T" not in s.name for s in delta)
        done = {s.name.partition(".")[0] for s in delta if s.name.endswith(".deltacommit")}
        begun = {s.name.partition(".")[0] for s in delta if s.name.endswith(".inflight")}
        if inflight and begun - done and not self.list(".overtaken"):
            self.put(".overtaken/once", b"")
            highest = max(int(s.name.partition(".")[0]) for s in self.list(LEASE))
            self.put(f"{LEASE}/{highest + 1:012d}", b'{"expires": 0}')
        return super().guard()


def test_a_fenced_writer_commits_nothing_and_leaves_the_table_to_the_other(tmp_path):
    root = tmp_path / "t"
    create(root).upsert(rows([1, 2]))
    before = data_rows(Table.open(root))
    with pytest.raises(LeaseLostError, match="another writer took the table"):
        Table(Overtaken(str(root))).upsert(rows([3]))
    LocalStorage(str(root)).delete_tree(".overtaken")
    assert data_rows(Table.open(root)) == before
    result = Table.open(root).upsert(rows([4]))
    assert result.inserted == 1
    assert data_rows(Table.open(root)).keys() == {"k1", "k2", "k4"}
    assert Table.open(root).check().ok
    assert left_over(root) == []
