"""Eight writers race to complete one instant, round after round; some are stopped or killed.

On a disk the writers are processes, which get SIGSTOP for longer than their lease, or SIGKILL. In
memory and on S3 they are threads, which stand still or die before a call of the store. Of each
round exactly one content may be there, whole; who says that it won must be the one whose it is.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

from campaign import Outcome
from faults import Killed
from fenced_cases import FarStorage
from histories.history_storage import PassingStorage
from s3_server import s3_server

from keymark.table.errors import CommitConflictError, LeaseLostError, LockHeldError, TableError
from keymark.table.layout.naming import METADATA
from keymark.table.runtime.clock import SystemClock
from keymark.table.storage import lease as lease_module
from keymark.table.storage.lease import Lease, LeaseTerms, hold
from keymark.table.storage.local_storage import LocalStorage
from keymark.table.storage.storage import Storage
from keymark.table.storage.stores import storage_at

WRITERS = 8
_ROUNDS = 10
# (store, rounds): the server of S3's protocol takes a second for a round.
_STORES = (("disk", 1000), ("far", 1000), ("s3", 1000))
_TERMS = LeaseTerms(wait=2, validity=0.3, renewal=0.1)
_STOP_SECONDS = 0.5
_WON, _LOST, _FENCED = b"W", b"L", b"F"


def _paths(number: int) -> tuple[str, str]:
    time_ = f"{20260101000000000 + number}"
    return f"{METADATA}/.hoodie/{time_}.deltacommit", f".hoodie/{time_}.commit"


def _content(writer: int, number: int) -> bytes:
    return f"writer {writer}, round {number}\n".encode() * 20


def _complete(storage: Storage, writer: int, number: int) -> bytes:
    """One writer's part in a round: complete the instant, unless another has."""
    delta, commit = _paths(number)
    content = _content(writer, number)
    while True:
        try:
            with hold(storage, SystemClock(), _TERMS) as lease:
                _take_back(lease, delta, commit)
                lease.publish([(delta, content), (commit, content)])
        except LockHeldError:
            # Nobody knows of a store's writers whether they live: the ticket of a dead one counts.
            continue
        except LeaseLostError:
            return _FENCED
        except CommitConflictError:
            return _LOST
        return _WON


def _take_back(lease: Lease, delta: str, commit: str) -> None:
    """What a dead writer completed in the metadata table alone, as every write does."""
    if lease.storage.exists(delta) and not lease.storage.exists(commit):
        lease.storage.delete(delta)


@dataclass
class Round:
    """One race.

    Attributes:
        answers: of the writers that lived to give one.
        harmed: writers that were killed.
    """

    number: int
    answers: dict[int, bytes]
    harmed: set[int]

    def judge(self, storage: Storage, outcome: Outcome) -> None:
        """Compare what is there with what the writers say."""
        delta, commit = _paths(self.number)
        won = [writer for writer, answer in self.answers.items() if answer == _WON]
        outcome.counts["rounds"] += 1
        for answer in self.answers.values():
            names = {_WON: "won", _LOST: "lost", _FENCED: "fenced"}
            outcome.counts[f"answers: {names.get(answer, 'error')}"] += 1
            if answer not in names:
                outcome.failures.append(f"round {self.number}: {answer.decode()}")
        outcome.counts["writers killed"] += len(self.harmed)
        try:
            contents = {storage.read(delta), storage.read(commit)}
        except FileNotFoundError as error:
            outcome.failures.append(f"round {self.number}: nobody completed {error}")
            return
        owners = [w for w in range(WRITERS) if _content(w, self.number) in contents]
        if len(contents) != 1 or len(owners) != 1:
            outcome.failures.append(f"round {self.number}: contents of writers {owners}")
        elif won != owners and not (not won and set(owners) <= self.harmed | self._fenced()):
            outcome.failures.append(f"round {self.number}: {won} say they won, {owners} did")

    def _fenced(self) -> set[int]:
        return {writer for writer, answer in self.answers.items() if answer == _FENCED}


def _fork(work: Callable[[], bytes]) -> tuple[int, int]:
    """A process that does some work; its id, and where its answer can be read."""
    reading, writing = os.pipe()
    child = os.fork()
    if child:
        os.close(writing)
        return child, reading
    answer = b""
    try:
        signal.setitimer(signal.ITIMER_REAL, 0)
        answer = work()
    except BaseException as error:  # noqa: BLE001  the answer of a writer, whatever it is
        answer = repr(error).encode()
    finally:
        os.write(writing, answer[:1000])
        os._exit(0)


def race_of_processes(root: str, number: int, rng: random.Random) -> Round:
    """A round on a disk."""
    storage = LocalStorage.at(root, durable=False)
    begin = time.monotonic() + 0.05

    def work(writer: int) -> bytes:
        time.sleep(max(0.0, begin - time.monotonic()))
        return _complete(storage, writer, number)

    children = [_fork(lambda writer=writer: work(writer)) for writer in range(WRITERS)]  # type: ignore[misc]
    harmed, stopped = set(), []
    for _ in range(rng.randrange(3)):
        time.sleep(rng.random() * 0.08)
        victim = rng.randrange(WRITERS)
        if rng.random() < 0.5:
            os.kill(children[victim][0], signal.SIGKILL)
            harmed.add(victim)
        else:
            os.kill(children[victim][0], signal.SIGSTOP)
            stopped.append(victim)
    if stopped:
        time.sleep(_STOP_SECONDS)
    for victim in stopped:
        os.kill(children[victim][0], signal.SIGCONT)
    answers = {}
    for writer, (child, reading) in enumerate(children):
        with os.fdopen(reading, "rb") as pipe:
            answer = pipe.read()
        os.waitpid(child, 0)
        if answer:
            answers[writer] = answer
    return Round(number, answers, harmed)


@dataclass
class MortalStorage(PassingStorage):
    """Stands still, or dies, before the call of that number."""

    at: int = 0
    dies: bool = False
    calls: int = 0
    dead: bool = False

    def _count(self) -> None:
        self.calls += 1
        if self.calls == self.at and not self.dies:
            time.sleep(_STOP_SECONDS)
        self.dead |= self.dies and self.calls == self.at
        if self.dead:
            raise Killed

    def read(self, path: str) -> bytes:
        self._count()
        return self.inner.read(path)

    def list(self, path: str) -> Any:
        self._count()
        return self.inner.list(path)

    def put(self, path: str, data: bytes) -> None:
        self._count()
        self.inner.put(path, data)

    def commit(self, path: str, data: bytes) -> None:
        self._count()
        self.inner.commit(path, data)

    def replace(self, path: str, data: bytes) -> None:
        self._count()
        self.inner.replace(path, data)

    def delete(self, path: str) -> None:
        self._count()
        self.inner.delete(path)


class LockedStorage(FarStorage):
    """The store in memory for threads: a put looks and writes in one step."""

    _lock = threading.Lock()

    def put(self, path: str, data: bytes) -> None:
        with self._lock:
            super().put(path, data)

    def delete(self, path: str) -> None:
        with self._lock:
            super().delete(path)

    def replace(self, path: str, data: bytes) -> None:
        with self._lock:
            super().replace(path, data)

    def walk(self, path: str) -> Any:
        with self._lock:
            return super().walk(path)


def race_of_threads(storage: Storage, number: int, rng: random.Random) -> Round:
    """A round on a store."""
    mortals = [MortalStorage(storage) for _ in range(WRITERS)]
    for victim in rng.sample(range(WRITERS), rng.randrange(3)):
        mortals[victim].at, mortals[victim].dies = rng.randrange(1, 40), rng.random() < 0.5
    answers: dict[int, bytes] = {}
    harmed = set()

    def work(writer: int) -> None:
        try:
            answers[writer] = _complete(mortals[writer], writer, number)
        except Killed:
            harmed.add(writer)
        except TableError as error:
            answers[writer] = repr(error).encode()

    with ThreadPoolExecutor(WRITERS) as pool:
        list(pool.map(work, range(WRITERS)))
    return Round(number, answers, harmed)


@contextlib.contextmanager
def _store(name: str, folder: Path) -> Iterator[Storage]:
    if name == "disk":
        yield LocalStorage.at(str(folder), durable=False)
    elif name == "far":
        yield LockedStorage(f"far://{folder.name}")
    else:
        with s3_server() as server:
            yield storage_at(f"{server.bucket()}/t", server.options)


@dataclass(frozen=True)
class RacingWriters:
    """The campaign."""

    seed: int = 1
    seconds: float = 240.0
    share: int = 2

    def cases(self) -> Sequence[str]:
        most = max(rounds for _, rounds in _STORES) // _ROUNDS
        return [
            f"{store} {batch}"
            for batch in range(most)
            for store, rounds in _STORES
            if batch < rounds // _ROUNDS
        ]

    def run(self, case: str, folder: Path) -> Outcome:
        name, batch = case.split()
        outcome, rng = Outcome(), random.Random(f"{self.seed} {case}")
        with (
            mock.patch.object(lease_module, "_POLL_FAR_SECONDS", 0.02),
            _store(name, folder) as storage,
        ):
            for number in range(int(batch) * _ROUNDS, (int(batch) + 1) * _ROUNDS):
                if name == "disk":
                    race = race_of_processes(str(folder), number, rng)
                else:
                    race = race_of_threads(storage, number, rng)
                race.judge(storage, outcome)
                outcome.counts[f"{name}: rounds"] += 1
        return outcome


CAMPAIGN = RacingWriters()
