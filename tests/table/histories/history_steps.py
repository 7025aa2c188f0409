"""The steps of a history: what each does to a table, and what it does to the model.

A step is drawn together with its outcome: the model after it, or the refusal. So that a step can be
killed anywhere: the table must then be as before or as after.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from dict_model import frame
from history_model import (
    FILES,
    LOCAL,
    PARTITIONS,
    RECORD_INDEX,
    RESHARD,
    RETAINED,
    SECONDARY,
    SWITCHES,
    HistoryModel,
    HistoryShape,
    draw_batch,
)
from table_cases import DUP_POLICY, begin_reshard

from keymark import Table
from keymark.table.errors import DuplicateKeyError, IndexUnavailableError, InputError

FALLBACK = "keymark.index.fallback"
WRITES = ("upsert", "upsert", "upsert", "insert", "drop", "bulk_insert", "delete")
# Steps of a build, and how often each is drawn where it can be done.
BUILDS = {"build": 2, "schedule": 4, "run": 6, "abort": 1, "drop_index": 2}
KINDS = {
    "write": 54,
    "service": 14,
    "back": 10,
    "partition": 14,
    "secondary": 6,
    "reshard": 6,
    "recover": 2,
}
# Where all that an index can do is to happen in each history.
EVERYTHING = {**KINDS, "secondary": 15, "reshard": 24}


@dataclass
class Step:
    """One call on a table.

    Attributes:
        kind: for the figures.
        run: makes the call.
        after: the model if it succeeds.
        options: of the handle, over those of the shape.
        refused: the error that must come instead.
        may_refuse: an InputError may come instead.
        commits: it makes a commit, whose instant the result names.
        counts: what the result must count.
        partition: of the metadata table, or secondary index, that it builds, drops or gives up.
        shards: that it gives the record index.
    """

    kind: str
    run: Callable[[Table], Any]
    after: HistoryModel
    options: dict[str, str] = field(default_factory=dict)
    refused: type[Exception] | None = None
    may_refuse: bool = False
    commits: bool = False
    counts: dict[str, int] = field(default_factory=dict)
    partition: str = ""
    shards: int = 0


def reshard(table: Table, shards: int) -> None:
    """Give the record index so many shards, or go on with that."""
    assert table.reshard_index(shards).after == shards


@dataclass
class Steps:
    """Draws steps for a table of one shape.

    `purges` is the weight of purges beside those among the services, `weights` those of all others.
    """

    rng: random.Random
    shape: HistoryShape
    purges: int = 0
    numbers: int = 0
    weights: dict[str, int] = field(default_factory=lambda: KINDS)

    def draw(self, model: HistoryModel) -> Step:
        """Any step."""
        weights = {**self.weights, "purges": self.purges}
        kind = self.rng.choices(tuple(weights), tuple(weights.values()))[0]
        return getattr(self, f"_{kind}")(model)

    def draw_beside(self, model: HistoryModel) -> Step:
        """A step of another process while a build or a re-sharding runs."""
        kind = self.rng.choices(("write", "service", "recover"), (70, 25, 5))[0]
        return getattr(self, f"_{kind}")(model, beside=True)

    def _number(self) -> int:
        self.numbers += 1
        return self.numbers

    def _write(self, model: HistoryModel, *, beside: bool = False) -> Step:
        kind = self.rng.choice(WRITES)
        batch = [self.shape.placed(row) for row in draw_batch(self.rng, self._number)]
        policy = "drop" if kind == "drop" else "fail"
        options = {DUP_POLICY: policy}
        if self.rng.random() < (1.0 if beside else 0.6):
            options[FALLBACK] = "global_bloom"
        before = model.copy()
        for partition, switch in SWITCHES.items():
            if not beside and self.rng.random() < 0.04:
                options[switch] = "true"
                if partition not in model.building:
                    before.live |= {FILES, partition}
        if kind == "bulk_insert" and RECORD_INDEX not in before.live:
            # Without a record index it looks no key up: what it is given must be new.
            kind = "upsert" if before.clashes(batch) else kind
            options[DUP_POLICY] = "none"
        step = Step(kind=kind, run=lambda _: None, after=before, options=options)
        usable = self.shape.index != "record" or RECORD_INDEX in before.live
        usable |= kind == "bulk_insert"  # which asks no index then
        if not usable and FALLBACK not in options:
            step.refused = IndexUnavailableError
        elif kind in ("insert", "bulk_insert") and before.clashes(batch):
            step.refused = DuplicateKeyError
        return self._with_run(step, batch)

    def _with_run(self, step: Step, batch: list[dict[str, Any]]) -> Step:
        if step.kind == "bulk_insert":
            batch = [row | {"_hoodie_is_deleted": False} for row in batch]
        rows = frame(batch, flags=step.kind != "bulk_insert")
        if step.kind == "delete" and self.shape.index == LOCAL:
            # It must know the partitions.
            columns = [*self.shape.record_key, *self.shape.partition_fields]
            named = frame(batch, flags=False).select(columns)
            step.run = lambda table: table.delete(named)
        elif step.kind == "delete":
            keys = [step.after.shape.key(row) for row in batch]
            step.run = lambda table: table.delete(keys)
        else:
            method = "insert" if step.kind == "drop" else step.kind
            step.run = lambda table: getattr(table, method)(rows)
        if step.refused is None:
            change = {"upsert": "upsert", "delete": "delete"}.get(step.kind, "insert")
            step.counts = getattr(step.after, change)(batch)
            step.commits = True
        return step

    def _service(self, model: HistoryModel, *, beside: bool = False) -> Step:
        kinds = ["compact", "clean", "archive", "savepoint", "savepoint"]
        kinds += ["drop_savepoint"] if model.savepoints else []
        kinds += ["repair"] if RECORD_INDEX in model.live else []
        kinds += ["purge"] if not beside else []
        kind = self.rng.choice(kinds)
        after = model.copy()
        step = Step(kind=kind, run=lambda table: getattr(table, kind)(), after=after)
        if kind == "compact" and model.resharding:
            step.refused = InputError
        elif kind == "repair":
            number = self.rng.randrange(model.shards)
            step.run = lambda table: table.repair_shard(number)
            step.refused = InputError if model.resharding else None
        elif kind == "clean":
            most = self.shape.keep[0] - 1 if self.shape.keep else 10
            retained = self.rng.choice([1, min(2, most), self.shape.retained])
            step.options = {RETAINED: str(retained)}
            after.cleaned(self.shape, retained)
        elif kind == "savepoint":
            self._savepoint(step, model)
        elif kind == "drop_savepoint":
            instant = self._one_of(sorted(model.savepoints))
            step.run = lambda table: table.drop_savepoint(instant)
            step.refused = None if instant in model.savepoints else InputError
            after.savepoints.discard(instant)
        elif kind == "purge":
            self._purge(step, model)
        return step

    def _purges(self, model: HistoryModel) -> Step:
        step = Step(kind="purge", run=lambda _: None, after=model.copy())
        self._purge(step, model)
        return step

    def _purge(self, step: Step, model: HistoryModel) -> None:
        asked = {model.shape.key(row) for row in draw_batch(self.rng, self._number)}
        keys = sorted(asked | set(self.rng.sample(sorted(model.rows), min(1, len(model.rows)))))
        step.run = lambda table: table.purge(keys)
        step.options = {FALLBACK: "global_bloom"}
        kept = [c.rows for c in model.commits if c.instant in model.savepoints]
        at_work = model.building or model.resharding
        if at_work or any(rows.keys() & set(keys) for rows in kept):
            step.refused = InputError
            return
        step.commits = bool(model.rows.keys() & set(keys))
        step.after.purge(keys)

    def _savepoint(self, step: Step, model: HistoryModel) -> None:
        if not model.commits:
            step.refused = InputError
            return
        commit = self.rng.choice([model.commits[-1], self.rng.choice(model.commits)])
        chosen = commit.instant
        given = None if commit is model.commits[-1] and self.rng.random() < 0.5 else chosen
        step.run = lambda table: table.savepoint(given)
        if chosen in model.savepoints:
            step.refused = InputError
        if chosen in model.purged:
            step.refused = InputError
        step.may_refuse = not model.readable(chosen) and commit is not model.commits[-1]
        step.after.savepoints.add(chosen)

    def _back(self, model: HistoryModel) -> Step:
        """Rollback of the latest commit, mostly, or restore of a savepoint, mostly the latest."""
        if model.savepoints and self.rng.random() < 0.7:
            return self._restore(model)
        instants = [commit.instant for commit in model.commits]
        latest = instants[-1] if instants else ""
        time = latest if self.rng.random() < 0.85 else self._one_of(instants)
        step = Step(kind="rollback", run=lambda table: table.rollback(time), after=model.copy())
        at_work = model.building or model.resharding
        if not latest or time != latest or at_work or time in model.savepoints:
            step.run = lambda table: table.rollback(time or "20000101000000000")
            step.refused = InputError
            return step
        before = instants[-2] if len(instants) > 1 else ""
        step.may_refuse = not model.readable(before)
        if before in model.purged:
            step.refused = InputError
            return step
        step.after.back_to(len(instants) - 1)
        return step

    def _restore(self, model: HistoryModel) -> Step:
        known = sorted(model.savepoints)
        time = known[-1] if self.rng.random() < 0.8 else self._one_of(known)
        step = Step(kind="restore", run=lambda table: table.restore(time), after=model.copy())
        later = [commit.instant for commit in model.commits if commit.instant > time]
        at_work = model.building or model.resharding
        blocked = later and (at_work or model.savepoints & set(later))
        if time not in model.savepoints or blocked:
            step.refused = InputError
        else:
            step.after.back_to(len(model.commits) - len(later))
        return step

    def _partition(self, model: HistoryModel) -> Step:
        """A build, one of its parts, or a drop; mostly what can be done now."""
        fit = {
            "build": {FILES, *PARTITIONS} - model.live - model.building,
            "schedule": set(PARTITIONS) - model.live - model.building,
            "run": model.building,
            "abort": model.building,
            "drop_index": model.live,
        }
        if self.rng.random() < 0.05:
            return self.of_partition(
                model, self.rng.choice(tuple(BUILDS)), self.rng.choice((*PARTITIONS, FILES))
            )
        weights = [BUILDS[kind] * bool(fit[kind]) for kind in BUILDS]
        if not any(weights):
            return self._recover(model)
        kind = self.rng.choices(tuple(BUILDS), weights)[0]
        return self.of_partition(model, kind, self.rng.choice(sorted(fit[kind])))

    def of_partition(self, model: HistoryModel, kind: str, partition: str) -> Step:
        """A call about one partition of the metadata table."""
        after = model.copy()
        method = kind if kind == "drop_index" else f"{kind}_index"
        step = Step(
            kind=f"{kind} index".replace("_index index", " index"),
            run=lambda table: getattr(table, method)(partition),
            after=after,
            partition=partition,
        )
        live, building = partition in model.live, partition in model.building
        others = (model.live | model.building) - {FILES}
        refused = {
            "build": building,
            "schedule": live or building,
            "run": not building,
            "abort": not building,
            "drop_index": not live or (partition == FILES and others) or model.resharding,
        }[kind]
        if refused:
            step.refused = InputError
            return step
        after.building -= {partition}
        after.live -= {partition}
        if kind in ("build", "run"):
            after.live |= {FILES, partition}
        elif kind == "schedule":
            after.live |= {FILES}
            after.building |= {partition}
        return step

    def _secondary(self, model: HistoryModel) -> Step:
        """Build a secondary index, mostly one that is not there, or drop one."""
        column, after = self.rng.choice(SECONDARY), model.copy()
        drops = column in model.secondary and self.rng.random() < 0.7
        kind = "drop" if drops else "build"
        step = Step(
            kind=f"{kind} secondary",
            run=lambda table: getattr(table, f"{kind}_secondary")(column),
            after=after,
            partition=f"secondary({column})",
        )
        after.secondary = model.secondary - {column} if drops else model.secondary | {column}
        return step

    def _reshard(self, model: HistoryModel) -> Step:
        """Deal the record index out, at once or but for the switch; go on with it; give it up."""
        kinds = {"reshard": 5, "begin reshard": 4, "abort reshard": 1}
        number = self.rng.choice([1, 2, 3, 4, 6])
        if model.resharding:
            kinds = {"reshard": 5, "begin reshard": 1, "abort reshard": 3}
            number = self.rng.choice([number, *[model.resharding] * 5])
        kind = self.rng.choices(tuple(kinds), tuple(kinds.values()))[0]
        return self.of_reshard(model, kind, number)

    def of_reshard(self, model: HistoryModel, kind: str, number: int) -> Step:
        """A call about a re-sharding to a number of shards."""
        after = model.copy()
        step = Step(kind, lambda _: None, after, partition=RESHARD, shards=number)
        if kind == "abort reshard":
            step.run = lambda table: table.abort_reshard()
            step.refused = None if model.resharding else InputError
            after.resharding = 0
            return step
        call = begin_reshard if kind == "begin reshard" else reshard
        step.run = lambda table: call(table, number)
        under_way = model.building or model.resharding not in (0, number)
        if RECORD_INDEX not in model.live or under_way:
            step.refused = InputError
        elif kind == "reshard":
            after.shards, after.resharding = number, 0
        elif number != model.shards:
            after.resharding = number
        return step

    def _recover(self, model: HistoryModel, *, beside: bool = False) -> Step:
        del beside
        return Step(kind="recover", run=lambda table: table.rollback(), after=model.copy())

    def _one_of(self, known: list[str]) -> str:
        return self.rng.choice([*known, *known, "20000101000000000"])
