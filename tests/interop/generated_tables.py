"""Tables drawn from a seed, made: a history of two writers in turns, one of which dies at times.

Keymark and Hudi write to the table by turns, each on what the other left; either may have made it.
Between writes Keymark builds, drops and re-shards indexes that Hudi knows and others that it does
not know. Some of its writes and services are killed at a storage call: Keymark's recovery or the
next writer, which may be Hudi, takes back what is left.
At the end, and once on the way, all must agree: the rows exactly, by both readers, and for each key
the place that Hudi reads from the data with what the indexes answer. After a death the rows must
be those before or after, as the timeline says.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
from drawn_table import LITERALS, OWN, Drawn, Row, Step, draw
from faults import DEAD, FaultStorage, Killed
from hudi_judge import (
    PARTITIONS,
    Hudi,
    by_key,
    findings,
    metadata_partitions,
    options_of,
    places,
    texts,
)
from table_cases import DUP_POLICY, begin_reshard

from keymark import Table
from keymark.table.metadata.reshard_plan import resharding
from keymark.table.storage.local_storage import LocalStorage


@dataclass
class Figures:
    """What was done and compared."""

    tables: int = 0
    rows: int = 0
    keys_in_index: int = 0
    comparisons: int = 0
    secondary: int = 0
    steps: Counter[str] = field(default_factory=Counter)
    shapes: Counter[str] = field(default_factory=Counter)


@dataclass
class Pair:
    """A table that Keymark and Hudi write to by turns, and the rows it must hold.

    Attributes:
        hudi: the other writer.
        root: of the table.
        drawn: what it is like.
        rng: of the step that is made.
        rows: record key -> its row.
        numbers: record key -> number of its row.
        homes: record key -> partition columns of the partition that its row is in.
        made: numbers of rows so far.
        ts: the ordering value of the latest write.
        dead: what a death left is still there.
        exact: secondary indexes open no other files than those with a match.
        figures: what was done.
    """

    hudi: Hudi
    root: Path
    drawn: Drawn
    rng: random.Random = field(default_factory=random.Random)
    rows: dict[str, Row] = field(default_factory=dict)
    numbers: dict[str, int] = field(default_factory=dict)
    homes: dict[str, Row] = field(default_factory=dict)
    made: int = 0
    ts: int = 0
    dead: bool = False
    exact: bool = True
    figures: Figures = field(default_factory=Figures)

    def take(self, step: Step) -> list[str]:
        """Make a step; the differences, if it compares or dies."""
        self.rng = random.Random(step.seed)
        if self.drawn.index in OWN or step.writer == "keymark":
            self._make()
        before = dict(self.rows), dict(self.numbers), dict(self.homes)
        latest = self._latest_commit()
        found: list[str] = []
        try:
            if step.operation in self.drawn.services:
                self._serve(step)
            else:
                self._write(step)
        except Killed:
            self.dead, self.exact = True, False
            self.figures.steps["keymark died"] += 1
            if self._latest_commit() == latest:
                self.rows, self.numbers, self.homes = before
            found += [f"beside a death: {text}" for text in self._compare_rows(self.table())]
            if step.recovers:
                self._recover()
        return found + (self.compare() if step.compares else [])

    def _write(self, step: Step) -> None:
        """One write."""
        self.ts += 1
        self.figures.steps[f"{step.writer} {step.operation}"] += 1
        batch = self._deleted() if step.operation == "delete" else self._written(step.operation)
        rows = pa.Table.from_pylist(batch, self.drawn.schema)
        if step.writer == "hudi":
            self._by_hudi(rows, step.operation)
        else:
            options = {}
            if step.operation == "bulk_insert" and self.drawn.index == "record":
                # Its keys are new, which it cannot look up where the record index was dropped.
                options = {DUP_POLICY: "none"}
            getattr(self.table(step.dies, options), step.operation)(rows)
        self.dead, self.exact = False, step.writer == "keymark"

    def _by_hudi(self, rows: pa.Table, operation: str) -> None:
        known = self.drawn.properties
        if (self.root / ".hoodie").exists():
            known[PARTITIONS] = ",".join(metadata_partitions(self.root))
        options = options_of(known, self.hudi.version) | self.drawn.options
        self.hudi.write(self.root, rows, operation, options)

    def _make(self) -> None:
        if not (self.root / ".hoodie").exists():
            self.drawn.create(self.root)

    def table(self, dies: int = 0, options: Mapping[str, str] | None = None) -> Table:
        """The table as Keymark opens it; killed before that call that changes storage, if any."""
        storage = FaultStorage(LocalStorage.at(str(self.root)), DEAD, dies)
        return Table(storage, self.drawn.own_options | dict(options or {}))

    def _latest_commit(self) -> str:
        names = (path.name for path in (self.root / ".hoodie").glob("*.commit"))
        return max(names, default="")

    def _recover(self) -> None:
        self.figures.steps["keymark recover"] += 1
        self.table().rollback()
        self.dead = False

    def _serve(self, step: Step) -> None:
        """One of Keymark's services; a re-sharding that was begun is gone on with instead."""
        table = self.table(step.dies)
        plan = resharding(table.storage)
        has_index = "record_index" in metadata_partitions(self.root)
        name = step.operation
        if plan is not None and name != "secondary":
            name = "reshard"
        elif not has_index and ("reshard" in name or name == "hashes"):
            name = "index"
        services: dict[str, Callable[[Table], str]] = {
            "back": self._back,
            "index": self._index,
            "secondary": self._secondary,
            "hashes": self._hashes,
        }
        if name.endswith("reshard"):
            shards = self.rng.choice([1, 2, 3, 4, 7]) if plan is None else plan.after
            did = name
            if name == "reshard":
                table.reshard_index(shards)
            else:
                begin_reshard(table, shards)
        elif name in services:
            did = services[name](table)
        else:
            did = name
            getattr(table, name)()
        self.figures.steps[f"keymark {did}"] += 1

    def _back(self, table: Table) -> str:
        """A savepoint, a write, and back to the savepoint."""
        kept, exact = (dict(self.rows), dict(self.numbers), dict(self.homes)), self.exact
        saved = table.savepoint()
        self._write(Step("keymark", "upsert", ""))
        table.restore(saved)
        table.drop_savepoint(saved)
        self.rows, self.numbers, self.homes = kept
        # The write has taken in what Hudi wrote, and is taken back with it.
        self.exact = exact
        return "back"

    def _index(self, table: Table) -> str:
        """Drop the table's index, or build it: of those of Keymark's own anew, too."""
        if self.drawn.index == "record":
            there = "record_index" in metadata_partitions(self.root)
            return self._build_or_drop(table, "record_index", there)
        if table.choice.name != self.drawn.index:
            table.use_index(self.drawn.index)
            return f"use {self.drawn.index}"
        return self._build_or_drop(table, self.drawn.index, self.rng.random() < 0.5)

    def _hashes(self, table: Table) -> str:
        """Drop the hashes beside the record index, or build them."""
        return self._build_or_drop(table, "compact", bool(table.config.key_runs))

    def _build_or_drop(self, table: Table, name: str, there: bool) -> str:
        if there:
            table.drop_index(name)
            return f"drop {name}"
        table.build_index(name)
        return f"build {name}"

    def _secondary(self, table: Table) -> str:
        """Drop the secondary index of a column, or build it."""
        column = self.rng.choice(self.drawn.secondary)
        if column in table.config.secondary_columns:
            table.drop_secondary(column)
            return "drop secondary"
        table.build_secondary(column)
        return "build secondary"

    def _written(self, operation: str) -> list[Row]:
        fresh = range(self.made, self.made + self.rng.randrange(1, 40))
        self.made = fresh.stop
        known = sorted(self.numbers.values()) if operation == "upsert" else []
        chosen = [*fresh, *self.rng.sample(known, min(len(known), self.rng.randrange(30)))]
        rows = []
        for number in chosen:
            ts = self.rng.randrange(6) if self.drawn.event_time else self.ts
            row = self.drawn.row(number, self.rng, ts)
            key = self.drawn.key(row)
            rows.append(row)
            stored = self.rows.get(key)
            if stored is None or row["ts"] >= stored["ts"]:
                self.rows[key], self.numbers[key] = row, number
                home = {name: row[name] for name in self.drawn.partitions}
                self.homes[key] = home if self.drawn.moves else self.homes.get(key, home)
        self.rng.shuffle(rows)
        return rows

    def _deleted(self) -> list[Row]:
        chosen = self.rng.sample(sorted(self.rows), min(len(self.rows), self.rng.randrange(1, 12)))
        for key in chosen:
            del self.numbers[key], self.homes[key]
        return [self.rows.pop(key) for key in chosen]

    def compare(self) -> list[str]:
        """All differences, by both readers; what a death left is taken back before."""
        if self.dead:
            self._recover()
        table = self.table()
        found = findings(self.hudi, self.root, self._as_hudi_reads())
        found += self._compare_keymark(table)
        self.figures.rows += len(self.rows)
        self.figures.comparisons += 1
        return found

    def _compare_rows(self, table: Table) -> list[str]:
        """Which reader sees other rows."""
        rows, _ = self.hudi.read(self.root)
        found = [] if by_key(rows) == self._as_hudi_reads() else ["Hudi reads other rows"]
        if by_key(pa.concat_tables(table.scan().tables())) != self._wanted(self.rows):
            found.append("Keymark reads other rows")
        return found

    def _compare_keymark(self, table: Table) -> list[str]:
        """What Keymark reads, looks up, checks and opens."""
        rows = pa.concat_tables(table.scan().tables())
        found = []
        if by_key(rows) != self._wanted(self.rows):
            found.append("Keymark reads other rows")
        answers = table.lookup(pa.array([*self.rows, "absent"], pa.string())).to_pylist()
        told = {a["record_key"]: (a["partition_path"], a["file_id"]) for a in answers}
        if told != {**places(rows), "absent": (None, None)}:
            found.append("Keymark's lookup finds other places")
        has_index = "record_index" in metadata_partitions(self.root)
        if has_index or table.config.key_runs or table.config.secondary_columns:
            checked = table.check()
            self.figures.keys_in_index += checked.keys if has_index else 0
            found += [] if checked.ok else [f"table check: {checked}"]
        for name in table.config.secondary_columns:
            found += self._compare_secondary(table, name)
        return found

    def _compare_secondary(self, table: Table, name: str) -> list[str]:
        """Which files a comparison opens: those with a match; after Hudi's writes others too."""
        value = self.rng.choice([None, *(row[name] for row in self.rows.values())])
        literal = LITERALS[name.partition("_")[2]]
        where = f"{name} IS NULL" if value is None else f"{name} = {literal(value)}"
        plan = table.scan()
        files = zip(plan.files, plan.tables(), strict=True)
        wanted = {file.path for file, rows in files if value in rows[name].to_pylist()}
        opened = {file.path for file in table.files(where)}
        self.figures.secondary += 1
        if wanted <= opened and (opened == wanted or not self.exact):
            return []
        return [f"{where}: opens {sorted(opened)}, matches are in {sorted(wanted)}"]

    def _as_hudi_reads(self) -> dict[str, str]:
        """Rows as Hudi's Spark reader shows them: it takes partition columns from the path.

        Where a row stays in its old partition, it does not tell the value that the row came with.
        """
        return self._wanted({key: row | self.homes[key] for key, row in self.rows.items()})

    def _wanted(self, rows: dict[str, Row]) -> dict[str, str]:
        """Rows as `by_key` tells them."""
        table = pa.Table.from_pylist(list(rows.values()), self.drawn.schema)
        return dict(zip(rows, texts(table), strict=True))


def run_table(hudi: Hudi, seed: str, folder: Path) -> tuple[Figures, list[str]]:
    """Make the table of a seed; what was done, and the differences."""
    drawn, steps = draw(seed)
    pair = Pair(hudi=hudi, root=folder / "t", drawn=drawn)
    found: list[str] = []
    for number, step in enumerate(steps):
        found += [f"after step {number} ({step.operation}): {text}" for text in pair.take(step)]
    pair.figures.tables = 1
    pair.figures.shapes.update(
        [
            drawn.index,
            f"{len(drawn.keys)} key columns",
            f"{len(drawn.partitions)} partition columns",
            *(["secondary indexes"] if drawn.secondary else []),
        ]
    )
    pair.figures.shapes.update(f"column {kind}" for kind in drawn.columns)
    return pair.figures, found
