"""Every service dies at every storage call it makes: before or after, never between (I7 to I9).

Strategy: a table with everything on it, and for each service copies of it on which the service dies
at call 1, 2, ... until it passes untouched. A reader sees the table as it was, or as the service
leaves it; taking back what is left may die as well; then nothing is left over, and the service can
be asked for again.
"""

from __future__ import annotations

import itertools
import random
import shutil
from collections.abc import Callable
from dataclasses import dataclass

import pytest
from dict_model import DELETED
from history_model import BLOOM_FILTERS, COLUMN_STATS, RECORD_INDEX, RETAINED, HistoryShape
from history_run import Session
from history_steps import FALLBACK, Step, Steps
from history_storage import same_each_time, watched
from table_cases import DUP_POLICY

from keymark.table.errors import InputError

CALLS_MAX = 120
SHAPE = HistoryShape(
    composite=False,
    partitions=1,
    event_time=False,
    moves=True,
    ordering=True,
    max_file="6000",
    small_limit="5000",
    shards="3",
    hive_style=False,
    index="global_bloom",
    block="200",
    retained=3,
)


def of_partition(kind: str, partition: str) -> Callable[[Session], Step]:
    return lambda session: session.steps.of_partition(session.model, kind, partition)


def plain(kind: str, **options: str) -> Callable[[Session], Step]:
    def make(session: Session) -> Step:
        after = session.model.copy()
        if kind in ("clean", "archive"):
            after.cleaned(SHAPE, 1)
        return Step(kind, lambda table: getattr(table, kind)(), after, options=options)

    return make


def rollback(session: Session) -> Step:
    time = session.model.commits[-1].instant
    after = session.model.copy()
    after.back_to(len(after.commits) - 1)
    return Step("rollback", lambda table: table.rollback(time), after)


def restore(session: Session) -> Step:
    (time,) = session.model.savepoints
    after = session.model.copy()
    after.back_to([commit.instant for commit in after.commits].index(time) + 1)
    return Step("restore", lambda table: table.restore(time), after)


def savepoint(session: Session) -> Step:
    time = session.model.commits[-1].instant
    after = session.model.copy()
    after.savepoints.add(time)
    return Step("savepoint", lambda table: table.savepoint(), after)


def drop_savepoint(session: Session) -> Step:
    (time,) = session.model.savepoints
    after = session.model.copy()
    after.savepoints.clear()
    return Step("drop_savepoint", lambda table: table.drop_savepoint(time), after)


def repair(session: Session) -> Step:
    after = session.model.copy()
    return Step("repair", lambda table: table.repair_shard(0), after)


@dataclass(frozen=True)
class Service:
    """How to call it, what must be done before, and how many calls it makes at least."""

    make: Callable[[Session], Step]
    first: tuple[tuple[str, str], ...] = ()
    calls: int = 1


ARCHIVE = {"hoodie.keep.min.commits": "2", "hoodie.keep.max.commits": "3", RETAINED: "1"}
SERVICES = {
    "compact": Service(plain("compact"), calls=8),
    "clean": Service(plain("clean", **{RETAINED: "1"}), calls=8),
    "archive": Service(plain("archive", **ARCHIVE), (("drop_savepoint", ""), ("compact", ""))),
    "rollback": Service(rollback, calls=10),
    "restore": Service(restore, calls=10),
    "savepoint": Service(savepoint, calls=2),
    "drop savepoint": Service(drop_savepoint),
    "build statistics": Service(of_partition("build", COLUMN_STATS), calls=8),
    "build record index": Service(
        of_partition("build", RECORD_INDEX), (("drop_index", RECORD_INDEX),), calls=10
    ),
    "repair": Service(repair, calls=10),
    "drop record index": Service(of_partition("drop_index", RECORD_INDEX), calls=2),
    "schedule record index": Service(
        of_partition("schedule", RECORD_INDEX), (("drop_index", RECORD_INDEX),), calls=8
    ),
    "run record index": Service(
        of_partition("run", RECORD_INDEX),
        (("drop_index", RECORD_INDEX), ("schedule", RECORD_INDEX), ("write", "")),
        calls=10,
    ),
    "run statistics": Service(
        of_partition("run", COLUMN_STATS), (("schedule", COLUMN_STATS), ("write", "")), calls=8
    ),
    "abort": Service(of_partition("abort", COLUMN_STATS), (("schedule", COLUMN_STATS),), calls=4),
}


def write(session: Session) -> None:
    """Update two keys, move one, delete one, add one."""
    number = session.steps._number()
    rows = [("a", "x"), ("b", "x"), ("moving", "xyz"[number % 3]), (f"new {number}", "z")]
    batch = [
        {"k": k, "n": 0, "p": p, "q": "1", "ts": number, DELETED: False, "v": 10 * number + i}
        for i, (k, p) in enumerate(rows)
    ]
    batch.append({**batch[0], "k": f"new {number - 2}", "p": "z", DELETED: True})
    options = {FALLBACK: "global_bloom", DUP_POLICY: "fail"}
    step = Step("upsert", lambda _: None, session.model.copy(), options=options)
    session.perform(session.steps._with_run(step, batch))


@pytest.fixture(scope="module")
def start(tmp_path_factory):
    """A table of six commits, a savepoint, a record index and bloom filters."""
    root = str(tmp_path_factory.mktemp("start") / "t")
    rng = random.Random("dead services")
    with same_each_time(rng):
        session = Session.create(rng, SHAPE, root)
        for partition in (RECORD_INDEX, BLOOM_FILTERS):
            session.perform(of_partition("build", partition)(session))
        for number in range(6):
            write(session)
            if number == 2:
                session.perform(savepoint(session))
        session.checker.settled(session.table({}), session.model, thorough=True)
    return session


@pytest.fixture
def copies(start, tmp_path):
    """Makes sessions on fresh copies of that table."""
    numbers = itertools.count()

    def copy() -> Session:
        number = next(numbers)
        root = shutil.copytree(start.storage.root, tmp_path / f"t{number}")
        rng = random.Random(number)
        session = Session(rng, SHAPE, watched(str(root)), start.clock, start.model.copy())
        session.steps = Steps(rng, SHAPE, numbers=1000 * (number + 1))
        session.checker.named |= start.checker.named
        return session

    return copy


def prepare(session: Session, service: Service) -> None:
    for kind, partition in service.first:
        if kind == "write":
            write(session)
        elif kind in ("compact", "drop_savepoint"):
            step = plain("compact") if kind == "compact" else drop_savepoint
            session.perform(step(session))
        else:
            session.perform(of_partition(kind, partition)(session))


@pytest.mark.slow
@pytest.mark.parametrize("name", SERVICES)
def test_a_service_dies_at_every_call(name, copies):
    service = SERVICES[name]
    for at in range(1, CALLS_MAX):
        session = copies()
        with same_each_time(session.rng):
            prepare(session, service)
            before = session.model.copy()
            struck = session.die(service.make(session), at)
            if struck and at % 3 == 0:
                session.die_recovering(session.rng.randint(1, 8))
            session.recover()
            session.checker.settled(session.table({}), session.model, thorough=at % 8 == 1)
            undone = _same(session.model, before)
            if struck and undone:
                session.perform(service.make(session))
                session.checker.settled(session.table({}), session.model)
            if at % 4 == 0 or not struck:
                write(session)
                session.checker.settled(session.table({}), session.model)
            assert session.storage.changed() == []
        if not struck:
            break
    assert at > service.calls


def _same(model, before) -> bool:
    names = ("rows", "savepoints", "live", "building")
    return all(getattr(model, name) == getattr(before, name) for name in names)


@pytest.mark.parametrize("name", [*SERVICES])
def test_a_service_changes_what_it_says_and_nothing_else(name, copies):
    """Undisturbed: rows, places, statistics and listing are exact, and earlier readings stay."""
    session, service = copies(), SERVICES[name]
    with same_each_time(session.rng):
        prepare(session, service)
        session.perform(service.make(session))
        session.checker.settled(session.table({}), session.model, thorough=True)


def test_going_back_twice_is_going_back_once(copies):
    """The second time there is nothing of that name to take back, and nothing changes (I8)."""
    for make in (rollback, restore):
        session = copies()
        with same_each_time(session.rng):
            step = make(session)
            session.perform(step)
            again = Step(step.kind, step.run, session.model.copy())
            if make is rollback:
                again.refused = InputError
            session.perform(again)
            session.checker.settled(session.table({}), session.model, thorough=True)


def test_a_build_that_died_goes_on_after_writes(copies):
    """It takes up what was written since, without the record index, too."""
    session = copies()
    with same_each_time(session.rng):
        prepare(session, SERVICES["run record index"])
        assert session.die(of_partition("run", RECORD_INDEX)(session), 12)
        write(session)
        session.perform(of_partition("run", RECORD_INDEX)(session))
        session.checker.settled(session.table({}), session.model, thorough=True)
