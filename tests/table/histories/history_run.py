"""One history from its seed: a table, steps with deaths and other writers in them, checks."""

from __future__ import annotations

import contextlib
import random
import shutil
import tempfile
from collections import Counter
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from faults import DEAD, FaultStorage, Killed
from history_checks import Checker, partitions_of, secondary_of, shards_of
from history_model import FILES, RECORD_INDEX, RESHARD, HistoryModel, HistoryShape, draw_shape
from history_steps import EVERYTHING, KINDS, Step, Steps
from history_storage import HookStorage, TickingClock, WatchedStorage, same_each_time, watched

from keymark import Table
from keymark.table.errors import InputError, SnapshotExpiredError, TableError
from keymark.table.metadata.reshard_plan import is_switching
from keymark.table.storage.storage import Storage

# Memory instead of a disk, where the machine has a folder of it.
FOLDER = "/dev/shm" if Path("/dev/shm").is_dir() else None
CALLS_MAX = 45


@dataclass
class Figures:
    """What histories did, by kind."""

    histories: int = 0
    steps: Counter[str] = field(default_factory=Counter)
    events: Counter[str] = field(default_factory=Counter)
    checks: Counter[str] = field(default_factory=Counter)

    def add(self, other: Figures) -> None:
        self.histories += other.histories
        self.steps.update(other.steps)
        self.events.update(other.events)
        self.checks.update(other.checks)


@dataclass
class Session:
    """A table, its model, and who works on it."""

    rng: random.Random
    shape: HistoryShape
    storage: WatchedStorage
    clock: TickingClock
    model: HistoryModel
    purges: int = 0
    weights: dict[str, int] = field(default_factory=lambda: KINDS)
    figures: Figures = field(default_factory=Figures)
    log: list[str] = field(default_factory=list)
    reader: tuple[Any, dict[str, Any]] | None = None
    handles: dict[str, Table] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.steps = Steps(self.rng, self.shape, self.purges, weights=self.weights)
        self.checker = Checker(self.storage.root, self.rng, self.figures.checks)

    @classmethod
    def create(cls, rng: random.Random, shape: HistoryShape, root: str, **weights: Any) -> Session:
        """An empty table of that shape; `weights` say how often steps are drawn (see Steps)."""
        clock = TickingClock()
        shape.create(Path(root))
        live = {FILES, *([RECORD_INDEX] if shape.index == "record" else [])}
        model = HistoryModel(shape, live=live, shards=int(shape.shards))
        return cls(rng, shape, watched(root), clock, model, **weights)

    def table(self, options: dict[str, str], storage: Storage | None = None) -> Table:
        """A handle, kept until the table is opened anew; one on another storage is always new."""
        given = {**self.shape.options, **options}
        if storage is not None:
            return Table(storage, given, clock=self.clock)
        name = repr(sorted(options.items()))
        if name not in self.handles:
            self.handles[name] = Table(self.storage, given, clock=self.clock)
        return self.handles[name]

    def go(self) -> None:
        """One step, in one of the ways in which a step can go."""
        if self.rng.random() < 0.2:
            self.handles.clear()
            self.figures.steps["open anew"] += 1
        step = self.steps.draw(self.model)
        self.figures.steps[step.kind] += 1
        self._read_on()
        running = step.kind in ("run index", "reshard") and step.refused is None
        if step.kind != "purge" and self.rng.random() < (0.3 if running else 0.12):
            self._killed(step, beside=running)
        elif running and self.rng.random() < 0.7:
            self._beside(step)
        else:
            self.perform(step)
        self.checker.settled(self.table({}), self.model)

    def perform(self, step: Step, storage: Storage | None = None) -> None:
        """Make a step's call and take its outcome over."""
        self.log.append(self._told(step))
        table = self.table(step.options, storage)
        try:
            result = step.run(table)
        except (TableError, FileNotFoundError) as error:
            wanted = step.refused or (InputError if step.may_refuse else None)
            if wanted is None or type(error) is not wanted:
                raise
            self.figures.events["refused"] += 1
            self._prepared(step)
            return
        assert step.refused is None, f"{step.kind} must be refused: {step.refused}"
        if step.kind == "purge":
            assert result.proven, result
        made = sorted(time for time in self._completed() if time > step.after.latest)
        assert made or not step.commits, step.kind
        assert step.kind == "purge" or len(made) == step.commits, made
        for instant in made:
            step.after.committed(instant)
        # Each round of a purge deletes the files of the round before that still held a trace.
        step.after.purged |= set(made[:-1])
        if made:
            got = {name: getattr(result, name) for name in step.counts}
            assert got == step.counts, got
            step.after.cleaned(self.shape)
        self._take(step)

    def _prepared(self, step: Step) -> None:
        """A refused write has built what its options ask for all the same."""
        if step.options:
            self.model.live = step.after.live

    def _take(self, step: Step) -> None:
        self.model = step.after
        self.model.dead_builds -= {step.partition}
        if RECORD_INDEX not in self.model.live:
            # Its next build makes as many as options say.
            self.model.shards = int(self.shape.shards)

    def _told(self, step: Step) -> str:
        options = {k.rpartition("hoodie.")[2]: v for k, v in step.options.items()}
        return f"{step.kind} {step.partition} {options} refused={step.refused}"

    def _read_on(self) -> None:
        """Readers that began earlier end now: their rows, or the snapshot is gone (I16)."""
        if self.reader is not None and self.rng.random() < 0.5:
            plan, rows = self.reader
            self.reader = None
            found: dict[str, Any] = {}
            try:
                for part in plan.tables():
                    found.update((row["_hoodie_record_key"], row["v"]) for row in part.to_pylist())
            except SnapshotExpiredError:
                self.figures.events["snapshot expired"] += 1
            else:
                assert found == {key: row["v"] for key, row in rows.items()}
                self.figures.events["late reading"] += 1
        if self.reader is None:
            self.reader = (self.table({}).scan(), dict(self.model.rows))

    def _killed(self, step: Step, *, beside: bool) -> None:
        """Die at some storage call of the step, perhaps again while that is taken back."""
        if not self.die(step, self.rng.randint(1, CALLS_MAX), beside=beside):
            return
        while self.rng.random() < 0.4:
            self.die_recovering(self.rng.randint(1, 12))
        self.recover()

    def die(self, step: Step, at: int, *, beside: bool = False) -> bool:
        """Die at that storage call; what is left must be read as before or after. Did it come?"""
        self.log.append("dying:")
        before = self.model.copy()
        dying = FaultStorage(self.storage, DEAD, at)
        try:
            if beside:
                self._beside(step, dying)
            else:
                self.perform(step, dying)
        except Killed:
            self.log[-1] += f" -- died at call {at}: {dying.log[at - 1]}"
            self.figures.events["died"] += 1
            self._settle(self.model.copy() if beside else before, step)
            self.handles.clear()
        return dying.struck

    def die_recovering(self, at: int) -> None:
        """Die while what a death left is taken back."""
        again = FaultStorage(self.storage, DEAD, at)
        with contextlib.suppress(Killed):
            self.table({}, again).rollback()
        self.figures.events["died again"] += again.struck
        self.log.append(f"recovery dying at call {at}: {again.struck}")
        self.checker.pending_entries(self.table({}), self.model)

    def recover(self) -> None:
        """Take back what deaths left."""
        self.perform(Step("recover", lambda table: table.rollback(), self.model))

    def _settle(self, before: HistoryModel, step: Step) -> None:
        """Before or after: decide by what is completed, and check that it is that."""
        after = step.after
        live, building = partitions_of(self.storage.root)
        if step.commits:
            times = self._completed()
            done = max(times, default="") > before.latest
            if done:
                after.committed(max(times))
                after.cleaned(self.shape)
            self.model = after if done else before
        elif step.kind in ("rollback", "restore"):
            taken = {c.instant for c in before.commits} - {c.instant for c in after.commits}
            self.model = after if taken & self._taken_back() else before
        elif step.kind in ("savepoint", "drop_savepoint"):
            self.model = after if self.checker.savepoints() == after.savepoints else before
        else:
            self.model = after if step.refused is None else before
        secondary = secondary_of(self.storage.root)
        settled = (("live", live), ("building", building), ("secondary", secondary))
        for name, found in settled:
            either = getattr(before, name) | getattr(step.after, name)
            both = getattr(before, name) & getattr(step.after, name)
            assert both <= found <= either, f"{name}: {found}"
            setattr(self.model, name, found)
        self._settle_shards(before, step)
        self.model.dead_builds |= {step.partition} if step.partition else set()
        self.model.dead_builds |= step.after.live - before.live
        self.checker.pending_entries(self.table({}), self.model)

    def _settle_shards(self, before: HistoryModel, step: Step) -> None:
        """The shards before or after, and what is under way."""
        shards, resharding = shards_of(self.storage, self.shape)
        assert shards in (before.shards, step.after.shards), shards
        known = {before.resharding, step.after.resharding}
        known |= {step.shards} if step.partition == RESHARD else set()
        assert resharding in known, resharding
        # One that died in its switch is taken back by the next write.
        gone = is_switching(self.storage)
        self.model.shards, self.model.resharding = shards, 0 if gone else resharding

    def _completed(self) -> set[str]:
        names = (path.name for path in (Path(self.storage.root) / ".hoodie").glob("*.commit"))
        return {name.partition(".")[0] for name in names}

    def _taken_back(self) -> set[str]:
        """Commits that are off the timeline, or that a completed rollback or restore names."""
        from keymark.table.timeline.timeline import Timeline

        timeline = Timeline.load(self.storage)
        kept = {instant.time for instant in timeline.completed({"commit"})}
        start = min(kept, default="")
        gone = {c.instant for c in self.model.commits if c.instant >= start} - kept
        return gone | timeline.rolled_back()

    def _beside(self, step: Step, storage: Storage | None = None) -> None:
        """Run a build or a re-sharding while another process works on the table.

        Sometimes it gives the work up.
        """
        reshards = step.partition == RESHARD
        # What one puts that was given up, and dies before it looks, nobody takes back.
        gives_up = self.rng.random() < 0.1 and not (reshards and storage)
        most = 60 if reshards else 250
        ended: list[Step] = []
        points = tuple(sorted(self.rng.randint(1, most) for _ in range(self.rng.randint(1, 4))))

        def work() -> None:
            if reshards:
                self.model.shards, self.model.resharding = shards_of(self.storage, self.shape)
            if gives_up and hook.done == len(points):
                if not reshards:
                    ended.append(self.steps.of_partition(self.model, "abort", step.partition))
                elif self.model.resharding:
                    ended.append(self.steps.of_reshard(self.model, "abort reshard", step.shards))
                for last in ended:
                    self.perform(last)
                return
            other = self.steps.draw_beside(self.model)
            self.figures.steps[other.kind] += 1
            self.figures.events[f"step beside {step.kind}"] += 1
            self.perform(other)
            self.checker.pending_entries(self.table({}), self.model)

        hook = HookStorage(storage or self.storage, points=points, work=work)
        self.log.append(f"{self._told(step)} with others at {points}, gives up: {gives_up}")
        try:
            step.run(self.table(step.options, hook))
        except InputError:
            if not ended:
                raise
            self.figures.events[f"{step.kind} given up beside"] += 1
            return
        finally:
            step.after = self._after_beside(step)
        if reshards or step.partition in self.model.building:
            self._take(step)

    def _after_beside(self, step: Step) -> HistoryModel:
        """What a build or a re-sharding leaves, after what others did meanwhile."""
        if step.partition == RESHARD:
            return self.steps.of_reshard(self.model, step.kind, step.shards).after
        return self.steps.of_partition(self.model, "run", step.partition).after


def run_history(
    seed: str, folder: str | None = FOLDER, index: str = "", *, everything: bool = False
) -> Figures:
    """Run the history of a seed; an AssertionError or a TableError says what went wrong.

    Args:
        seed: of the table's shape and of all steps.
        folder: where the table is made.
        index: that of the table; the seed chooses one if it is empty.
        everything: whether re-shardings and secondary indexes come in each history.
    """
    rng = random.Random(seed)
    shape = draw_shape(rng)
    if index:
        shape = replace(shape, index=index)
    steps = rng.choice([4, 6, 8, 8, 12, 12, 20, 60])
    if everything:
        return run_steps(rng, shape, 2 * steps, folder, weights=EVERYTHING)
    return run_steps(rng, shape, steps, folder)


def run_purges(seed: str, folder: str | None = FOLDER) -> Figures:
    """Run the history of a seed in which every third step or so is a purge."""
    rng = random.Random(seed)
    index = rng.choice(["global_bloom", "compact", "record"])
    shape = replace(draw_shape(rng), index=index)
    return run_steps(rng, shape, rng.choice([4, 6, 8, 8, 12, 12, 20]), folder, purges=50)


def run_steps(
    rng: random.Random,
    shape: HistoryShape,
    steps: int,
    folder: str | None = FOLDER,
    **weights: Any,
) -> Figures:
    """Run a history of so many steps on a table of that shape; `weights` as `Session` has them."""
    root = tempfile.mkdtemp(prefix="history-", dir=folder)
    try:
        with same_each_time(rng):
            session = Session.create(rng, shape, f"{root}/t", **weights)
            try:
                for _ in range(steps):
                    session.go()
                session.checker.settled(session.table({}), session.model, thorough=True)
                assert session.storage.changed() == []
            except BaseException as error:
                error.add_note(f"{shape}\n" + "\n".join(session.log))
                raise
    finally:
        shutil.rmtree(root, ignore_errors=True)
    session.figures.histories = 1
    return session.figures
