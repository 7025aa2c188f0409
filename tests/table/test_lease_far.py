"""The lease where there are no locks: at most one of two holders completes an instant.

Strategy: a store in memory, a clock that the test moves, and holders that stop at any storage call
of a publication and go on after a successor came.
"""

from __future__ import annotations

import contextlib
import json
import threading
from concurrent.futures import ThreadPoolExecutor

import obstore
import pytest
from faults import DEAD, FROZEN, FULL, FaultStorage, Killed
from table_cases import create, data_rows, rows
from test_lease import PATIENT, TERMS, MovedClock

from keymark import Table
from keymark.table.errors import CommitConflictError, LeaseLostError, LockHeldError, StorageError
from keymark.table.layout.naming import LEASE
from keymark.table.runtime.clock import SystemClock
from keymark.table.storage.lease import hold
from keymark.table.storage.lease_files import expires_at, lease_path
from keymark.table.storage.object_storage import ObjectStorage
from keymark.table.storage.stores import storage_at

PUTS = [("m/1.deltacommit", b"delta"), ("1.commit", b"commit")]


@pytest.fixture
def storage(tmp_path):
    return storage_at(f"memory://{tmp_path.name}", {})


def published(storage):
    return [(path, storage.read(path)) for path, _ in PUTS if storage.exists(path)]


def test_a_holder_goes_on_to_the_next_number(storage):
    clock = MovedClock()
    with hold(storage, clock, TERMS) as lease:
        with lease.fenced():
            assert lease.number == 2
        lease.publish(PUTS)
        assert (lease.number, lease.settled) == (3, True)
        lease.check()
        with pytest.raises(LockHeldError), hold(storage, clock, TERMS):
            pass
    assert published(storage) == PUTS
    for path, _ in PUTS:
        storage.delete(path)
    with hold(storage, clock, TERMS):
        # What was settled is not put again, whatever became of it since.
        assert published(storage) == []


def test_who_lost_the_table_publishes_nothing(storage):
    clock = MovedClock()
    with hold(storage, clock, TERMS) as slow:
        clock.sleep(61)
        with hold(storage, clock, TERMS) as fast:
            for use in (lambda: slow.publish(PUTS), lambda: slow.fenced().__enter__()):
                with pytest.raises(LeaseLostError, match="ran out"):
                    use()
            assert published(storage) == []
            fast.check()
        assert not slow.settled


def test_another_commit_of_the_instant_stays(storage):
    storage.put("1.commit", b"theirs")
    with hold(storage, MovedClock(), TERMS) as lease:
        with pytest.raises(CommitConflictError, match=r"1\.commit exists"):
            lease.publish(PUTS)
        assert lease.settled
    assert storage.read("1.commit") == b"theirs"


def stopped_at(call, inner, clock):
    """A holder that dies before a storage call of its publication; whether it came so far."""
    faulty = FaultStorage(inner, DEAD)
    with contextlib.ExitStack() as stack, contextlib.suppress(Killed):
        lease = stack.enter_context(hold(faulty, clock, TERMS))
        faulty.at = faulty.calls + call
        lease.publish(PUTS)
        faulty.at = 0
        stack.pop_all()
        return lease, False
    return lease, True


@pytest.mark.parametrize("call", range(1, 7))
def test_a_holder_that_stops_anywhere_has_published_all_or_nothing(storage, call):
    clock = MovedClock()
    lease, died = stopped_at(call, storage, clock)
    assert died == (call <= 5)
    clock.sleep(61)
    with hold(storage, clock, TERMS):
        # From the number that holds the record on, it is all.
        assert published(storage) == ([] if call == 1 else PUTS)
    # The one that stopped goes on: it finds its own files, or that it lost.
    lease.storage.inner.at = 0
    with pytest.raises(LeaseLostError):
        lease.publish(PUTS)
    assert published(storage) == ([] if call == 1 else PUTS)


class StandsStill(FaultStorage):
    """Lets a successor come and go before the put of one path."""

    def put(self, path, data):
        if path == self.path:
            self.path = None
            self.work()
        self.inner.put(path, data)

    commit = put


@pytest.mark.parametrize("path", [path for path, _ in PUTS])
def test_a_holder_that_stands_still_in_the_middle_comes_to_the_same_end(storage, path):
    clock, order = MovedClock(), []

    def come():
        clock.sleep(61)
        with hold(storage, clock, TERMS) as successor:
            order.append((successor.number, published(storage)))

    still = StandsStill(storage)
    still.path, still.work = path, come
    with hold(still, clock, TERMS) as lease:
        lease.publish(PUTS)
    assert order == [(3, PUTS)]
    assert published(storage) == PUTS


@pytest.mark.parametrize("kind", [FULL, FROZEN])
def test_a_put_that_fails_is_taken_back_or_left_to_the_next(storage, kind):
    """A full disk stores no further number: the next writer finishes what was begun."""
    clock = MovedClock()
    faulty = FaultStorage(storage, kind)
    with hold(faulty, clock, TERMS) as lease:
        faulty.at = faulty.calls + 4
        with pytest.raises(StorageError, match="next writer"):
            lease.publish(PUTS)
    assert not lease.settled
    assert published(storage) == PUTS[:1]
    clock.sleep(61)
    with hold(storage, clock, TERMS):
        assert published(storage) == PUTS


class FailsOnce(FaultStorage):
    """One put of one path fails; whether it was done is up to the test."""

    def put(self, path, data):
        if path == self.path:
            self.path = None
            if self.done:
                self.inner.put(path, data)
            raise StorageError(f"cannot write {path}")
        self.inner.put(path, data)

    commit = put


@pytest.mark.parametrize("done", [False, True])
@pytest.mark.parametrize("path", [f"{LEASE}/{2:012d}", *(path for path, _ in PUTS)])
def test_who_was_told_of_a_failure_can_take_back(storage, path, done):
    clock, faulty = MovedClock(), FailsOnce(storage)
    faulty.path, faulty.done = path, done
    with hold(faulty, clock, TERMS) as lease:
        with pytest.raises(StorageError, match="cannot write"):
            lease.publish(PUTS)
        assert lease.settled
        for name, _ in PUTS:
            storage.delete(name)
    with hold(storage, clock, TERMS):
        assert published(storage) == []


def test_of_many_contenders_one_holds_at_a_time(storage):
    inside, most, mutex = 0, 0, threading.Lock()

    def work(_):
        nonlocal inside, most
        for _ in range(3):
            with hold(storage, SystemClock(), PATIENT) as lease:
                with mutex:
                    inside += 1
                    most = max(most, inside)
                with lease.fenced(), mutex:
                    inside -= 1

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(4)))
    assert (inside, most) == (0, 1)


def faulty_writes(url, options, kind):
    """Writes that fail at call 1, 2, ... until none fails, each on a table of its own."""
    for number in range(1, 200):
        table = create(f"{url}/{kind}{number}", options)
        table.upsert(rows([1, 2]))
        storage = FaultStorage(table.storage, kind, number)
        yield table.storage, storage
        if not storage.struck:
            return


@pytest.mark.parametrize("kind", [FULL, DEAD])
def test_a_write_that_fails_anywhere_loses_and_doubles_nothing(tmp_path, kind):
    clock = MovedClock()
    for storage, faulty in faulty_writes(f"memory://{tmp_path.name}", {}, kind):
        told = True
        try:
            Table(faulty, clock=clock).upsert(rows([2, 3], ts=2))
        except (StorageError, Killed):
            told = False
        found = data_rows(Table(storage)).keys()
        assert found == {"k1", "k2", "k3"} if told else found >= {"k1", "k2"}
        clock.sleep(301)
        Table(storage, clock=clock).upsert(rows([4], ts=3))
        after = data_rows(Table(storage)).keys()
        assert after >= found | {"k4"}
        assert Table(storage).check().ok
    assert faulty.calls > 15


@pytest.mark.parametrize("dies", [False, True])
def test_a_number_that_was_made_and_deleted_by_others_gives_nobody_the_table(storage, dies):
    """A holder stops before it makes a number; others make it, go on from it and delete it."""
    clock, faulty = MovedClock(), StandsStill(storage)

    def come():
        clock.sleep(61)
        with hold(storage, clock, TERMS) as successor:
            successor.publish([("2.commit", b"theirs")])
            assert successor.number == 3
        if dies:
            faulty.kind, faulty.at = DEAD, faulty.calls + 1

    faulty.path, faulty.work = f"{LEASE}/{2:012d}", come
    with pytest.raises((LeaseLostError, Killed)), hold(faulty, clock, TERMS) as lease:
        lease.publish(PUTS)
    assert published(storage) == []
    clock.sleep(61)
    with hold(storage, clock, TERMS):
        assert published(storage) == []


def test_what_a_dead_successor_had_to_put_is_put_by_the_next(storage):
    clock = MovedClock()
    stopped_at(3, storage, clock)
    clock.sleep(61)
    dead = FaultStorage(storage, DEAD)
    dead.at = 2
    with pytest.raises(Killed), hold(dead, clock, TERMS):
        pass
    assert published(storage) == []
    clock.sleep(61)
    with hold(storage, clock, TERMS):
        assert published(storage) == PUTS
    for path, _ in PUTS:
        storage.delete(path)
    with hold(storage, clock, TERMS):
        assert published(storage) == []


class RenewsLate(FaultStorage):
    """Lets something happen just before the new end of a lease is stored."""

    work = None

    def replace(self, path, data):
        if path.endswith(".until") and self.work is not None:
            work, self.work = self.work, None
            work()
        self.inner.replace(path, data)


def test_who_renews_too_late_asks_before_each_change(storage):
    """The successor had read the end before, so the renewal hides nothing from the holder."""
    clock, slow = MovedClock(), RenewsLate(storage)
    with contextlib.ExitStack() as stack, hold(slow, clock, TERMS) as lease:
        slow.work = lambda: stack.enter_context(hold(storage, clock, TERMS))
        clock.sleep(61)
        lease.renew()
        assert slow.work is None
        for number in range(3):
            with pytest.raises(LeaseLostError, match="ran out"):
                lease.storage.put(f"late/{number}", b"")
        clock.sleep(30)
        with pytest.raises(LeaseLostError, match="ran out"):
            lease.renew()
    assert not storage.exists("late")


def test_a_renewal_in_time_spares_the_questions(storage):
    clock = MovedClock()
    with hold(storage, clock, TERMS) as lease:
        for _ in range(3):
            clock.sleep(59)
            lease.renew()
            assert lease.tenure.until == expires_at(storage, lease.number)
            assert lease.tenure.until == clock.millis() + 60_000


class MakesSlowly(RenewsLate):
    """The put of the next number takes until it is told to end."""

    def put(self, path, data):
        if path == f"{LEASE}/{2:012d}":
            self.begun.set()
            self.end.wait(60)
        self.inner.put(path, data)


def test_a_renewal_of_a_number_says_nothing_about_the_next(storage):
    """The holder goes on to the next number while its other thread renews the one before."""
    clock, slow = MovedClock(), MakesSlowly(storage)
    slow.begun, slow.end = threading.Event(), threading.Event()
    with hold(slow, clock, TERMS) as lease:

        def go_on():
            with lease.fenced():
                pass

        def finish():
            slow.end.set()
            going.join()

        going = threading.Thread(target=go_on)
        going.start()
        slow.begun.wait(60)
        clock.sleep(5)
        slow.work = finish
        lease.renew()
        assert lease.number == 2
        assert lease.tenure.until == expires_at(storage, 2)


@pytest.mark.parametrize("path", [1, None, ["m/1.deltacommit"]])
def test_a_record_of_puts_without_paths_counts_as_none(storage, path):
    puts = [["1.commit", "eA=="], [path, "eA=="]]
    storage.put(lease_path(1), json.dumps({"expires": 0, "puts": puts}).encode())
    with hold(storage, MovedClock(), TERMS) as lease:
        assert lease.number == 2
    assert published(storage) == []


def test_who_loses_the_table_while_a_folder_is_listed_deletes_nothing(storage, monkeypatch):
    clock, walk = MovedClock(), ObjectStorage.walk
    storage.put("x/old", b"")

    def slowly(self, path):
        monkeypatch.undo()
        clock.sleep(61)
        with hold(storage, clock, TERMS):
            storage.put("x/theirs", b"")
        return walk(self, path)

    with hold(storage, clock, TERMS) as slow:
        monkeypatch.setattr(ObjectStorage, "walk", slowly)
        with pytest.raises(LeaseLostError):
            slow.storage.delete_tree("x")
    assert [status.path for status in storage.walk("x")] == ["x/old", "x/theirs"]


def test_what_comes_into_a_folder_while_it_is_deleted_stays(storage, monkeypatch):
    """Another took the table while the request of its former holder was on its way."""
    delete = obstore.delete
    storage.put("x/old", b"")
    storage.put("x/older", b"")

    def slowly(store, keys):
        monkeypatch.undo()
        delete(store, keys)
        storage.put("x/theirs", b"")

    monkeypatch.setattr(obstore, "delete", slowly)
    storage.delete_tree("x")
    assert [status.path for status in storage.walk("x")] == ["x/theirs"]
