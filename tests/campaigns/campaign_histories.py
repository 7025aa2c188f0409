"""Random histories of a table, each compared with a dict after every step.

    steps   all that a table can be asked, with deaths and other writers (table/histories)
    purges  the same, but every third step or so is a purge
    local   purges of a table whose bloom index looks in one partition only, so that a key can be
            in several; values and names of partitions are keys, too

A purge must end with `proven: true` in each of them, and nothing may be left of the keys.
"""

from __future__ import annotations

import contextlib
import random
import warnings
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
from campaign import Outcome
from history_run import run_history, run_purges
from history_storage import TickingClock, same_each_time
from purge_cases import entries, grep
from table_cases import SMALL_BLOOMS

from keymark import Table
from keymark.table.errors import InputError
from keymark.table.storage.local_storage import LocalStorage

CASES, AT_ONCE = 1000, 5
KINDS = ("steps", "purges", "local", "local", "purges", "local")
KEYS = [
    *(f"k{number}" for number in range(20)),
    "ü",
    "a b",
    "ä",
    "c,d",
    "customer-1",
    "customer-12",
]
# In a completed clean the byte after a partition's name is a length that reads 2: a name that ends
# with customer-1 would be found there as customer-12.
PARTITIONS = (["p0", "p1", "ü"], ["x", "y", "ü 😀", "k18"], ["x", "of customer-1 alone"])


@dataclass(frozen=True)
class Histories:
    """Histories in batches of a case; their seeds are in its name."""

    seed: int = 18
    seconds: float = 300
    share: int = 3

    def cases(self) -> list[str]:
        return [f"{KINDS[number % len(KINDS)]}-{number:04d}" for number in range(CASES)]

    def run(self, case: str, folder: Path) -> Outcome:
        kind, _, number = case.partition("-")
        outcome = Outcome()
        for each in range(AT_ONCE):
            seed = f"{self.seed}/{kind}/{int(number) * AT_ONCE + each}"
            if kind == "local":
                counts = LocalBloom(random.Random(seed), folder / str(each)).run()
            else:
                run = run_history if kind == "steps" else run_purges
                figures = run(seed, str(folder))
                counts = Counter(histories=1, purges=figures.steps["purge"])
                counts["steps"] = sum(figures.steps.values())
                counts["checks"] = sum(figures.checks.values())
            outcome.counts.update(counts)
        return outcome


@dataclass
class LocalBloom:
    """One history of a table with a partition-local bloom index."""

    rng: random.Random
    root: Path

    def run(self) -> Counter[str]:
        rng, counts = self.rng, Counter(histories=1)
        partitions = rng.choice(PARTITIONS)
        values = rng.choice([KEYS, ["v1", "v2"], [*KEYS[-4:], "v1", "about customer-12"]])
        options = self._options()
        clock, log, number = TickingClock(), [f"{partitions} {values[:2]} {options}"], 0
        with same_each_time(rng), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            identity = {"name": "t", "record_key": "k", "partition_path": "p", "ordering": "ts"}
            Table.create(self.root, index="bloom", options=options, **identity)
            for number in range(rng.choice([6, 12, 20])):
                table = Table(LocalStorage.at(self.root), options, clock=clock)
                keys = [rng.choice(KEYS) for _ in range(rng.choice([1, 2, 3, 6]))]
                step = rng.choice(["upsert"] * 4 + ["delete", "back"] + ["purge"] * 3 + ["service"])
                log.append(f"{step} {keys}")
                if step in ("upsert", "delete"):
                    rows = {"k": keys, "p": [rng.choice(partitions) for _ in keys]}
                    rows |= {"ts": [number] * len(keys), "v": [rng.choice(values) for _ in keys]}
                    getattr(table, step)(pa.table(rows))
                elif step == "purge":
                    self._purge(table, sorted({*keys, "k18", "ü"}), log)
                    counts["purges"] += 1
                else:
                    self._serve(table, step)
                counts["steps"] += 1
        return counts

    def _options(self) -> dict[str, str]:
        rng = self.rng
        retained = rng.choice([1, 2, 10])
        chosen = {
            **SMALL_BLOOMS,
            "hoodie.cleaner.commits.retained": str(retained),
            "hoodie.metadata.compact.max.delta.commits": rng.choice(["1", "2", "4", "10"]),
            "hoodie.parquet.max.file.size": rng.choice(["2500", "6000", "125829120"]),
            "hoodie.metadata.index.column.stats.enable": rng.choice(["true", "false"]),
            "hoodie.metadata.index.bloom.filter.enable": rng.choice(["true", "false"]),
            "hoodie.hfile.block.size": rng.choice(["64", "200", "1048576"]),
        }
        if retained < 10:
            chosen["hoodie.keep.min.commits"] = str(retained + 1)
            chosen["hoodie.keep.max.commits"] = str(retained + 2)
        return chosen

    def _purge(self, table: Table, keys: list[str], log: list[str]) -> None:
        report = table.purge(keys)
        assert report.proven, (report, log)
        left = [place for place in entries(self.root, keys) if "/metadata/files/" not in place[0]]
        if not report.keys_in_other_values:
            left += grep(self.root, [key for key in keys if len(key) >= 8])
        assert not left, (left, log)

    def _serve(self, table: Table, step: str) -> None:
        commits = [path.stem for path in (self.root / ".hoodie").glob("*.commit")]
        if step == "service":
            getattr(table, self.rng.choice(["compact", "clean", "archive"]))()
        elif commits:
            # It is refused where a purge or a clean took files of the snapshot before.
            with contextlib.suppress(InputError):
                table.rollback(max(commits))


CAMPAIGN = Histories()
