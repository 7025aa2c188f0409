"""What a table must hold after any history: rows, earlier snapshots, savepoints, partitions.

The dict of `dict_model` plus time. `floor` is what cleaning promises: snapshots from there on are
read exactly and can be gone back to; older ones exactly or not at all.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from dict_model import KEYS, Model, Shape

FILES, RECORD_INDEX = "files", "record_index"
COLUMN_STATS, BLOOM_FILTERS = "column_stats", "bloom_filters"
PARTITIONS = (RECORD_INDEX, COLUMN_STATS, BLOOM_FILTERS)
SWITCHES = {
    RECORD_INDEX: "hoodie.metadata.record.index.enable",
    COLUMN_STATS: "hoodie.metadata.index.column.stats.enable",
    BLOOM_FILTERS: "hoodie.metadata.index.bloom.filter.enable",
}
RETAINED = "hoodie.cleaner.commits.retained"
KEEP = ("hoodie.keep.min.commits", "hoodie.keep.max.commits")
GROUPS = "hoodie.metadata.record.index.{}.filegroup.count"
PAGE_ROWS = {"1048576": "2048", "200": "3", "64": "1"}
"""Rows of a page by the size of an index block: small ones come together."""
MOVES_BY = {"global_bloom": "bloom", "compact": "simple"}
"""Whose option says whether keys move, where it is not the record index's."""
_PLACES = [("x", "1"), ("y", "2"), ("", "1"), (None, "2"), ("ü", "1"), ("a%b+c=d", "2")]
SECONDARY = ("v", "k", "n")
"""The columns that get secondary indexes."""
RESHARD = "reshard"
"""What stands for a re-sharding among the partitions that a dead build may have left files of."""
LOCAL = "partitioned_record"
INDEXES = ("record", "record", "compact", "global_bloom", LOCAL)
# A key that is also the name of a partition, corners of String.hashCode, and a key that is longer
# than one byte of length can say.
HARD_KEYS = ["ü", *KEYS, "Aa", "BB", "AaAa", "BBBB", "polygenelubricants", "😀", "k" * 300]

Rows = dict[str, dict[str, Any]]
Paths = dict[str, str]


@dataclass(frozen=True)
class HistoryShape(Shape):
    """A table with services and limits that are reached soon.

    `versions` > 0 cleans by file versions instead of commits; `keep` are the commits between which
    the timeline is archived, none for Hudi's; with `hashes` a record index has some beside it.
    """

    block: str = "1048576"
    compact_after: str = "10"
    retained: int = 10
    versions: int = 0
    keep: tuple[int, int] | None = None
    stat_columns: str = ""
    hashes: bool = False

    @property
    def options(self) -> dict[str, str]:
        """What every handle on the table is given."""
        given = {
            **super().options,
            **{GROUPS.format(end): self.shards for end in ("min", "max")},
            "hoodie.hfile.block.size": self.block,
            "keymark.parquet.page.rows": PAGE_ROWS[self.block],
            "hoodie.metadata.compact.max.delta.commits": self.compact_after,
            RETAINED: str(self.retained),
            "hoodie.write.lock.wait_time_ms": "0",
        }
        if self.index != "record":
            moves = given.pop("hoodie.record.index.update.partition.path")
            if self.index in MOVES_BY:
                given[f"hoodie.{MOVES_BY[self.index]}.index.update.partition.path"] = moves
        if self.versions:
            given["hoodie.cleaner.policy"] = "KEEP_LATEST_FILE_VERSIONS"
            given["hoodie.cleaner.fileversions.retained"] = str(self.versions)
        if self.keep:
            given |= dict(zip(KEEP, map(str, self.keep), strict=True))
        if self.hashes:
            given["keymark.record.index.hashes"] = "true"
        if self.stat_columns:
            given["hoodie.metadata.index.column.stats.column.list"] = self.stat_columns
        return given

    @property
    def folders(self) -> set[str]:
        """Folders of Keymark's own, but for those of builds and of secondary indexes."""
        runs = {LOCAL: "keys", "compact": "hashes", "record": "hashes" if self.hashes else "lease"}
        return {f".hoodie/.keymark/{name}" for name in ("lease", runs.get(self.index, "lease"))}

    def placed(self, row: dict[str, Any]) -> dict[str, Any]:
        """The row in the partition of its key, if the index looks for keys in one partition only.

        A key that comes with another partition would be another row, which the model does not know.
        """
        if self.index != LOCAL:
            return row
        p, q = _PLACES[sum(self.key(row).encode()) % len(_PLACES)]
        return {**row, "p": p, "q": q}


def draw_shape(rng: random.Random) -> HistoryShape:
    """A table's shape; the first choices are the plainest."""
    ordering = rng.choice([True, True, False])
    retained = rng.choice([10, 1, 1, 2, 3])
    keep = rng.choice([None, (retained + 1, retained + 2), (retained + 2, retained + 4)])
    return HistoryShape(
        composite=rng.random() < 0.3,
        partitions=rng.choice([1, 0, 2]),
        event_time=ordering and rng.random() < 0.5,
        moves=rng.random() < 0.6,
        ordering=ordering,
        max_file=rng.choice(["125829120", "6000", "2500"]),
        small_limit=rng.choice(["104857600", "0", "5000"]),
        shards=rng.choice(["1", "3"]),
        hive_style=rng.random() < 0.3,
        index=rng.choice(INDEXES),
        block=rng.choice(["1048576", "200", "64"]),
        compact_after=rng.choice(["10", "1", "2", "4"]),
        retained=retained,
        versions=rng.choice([0, 0, 0, 1, 2]),
        keep=keep,
        stat_columns=rng.choice(["", "", "ts,v"]),
        hashes=rng.random() < 0.4,
    )


def draw_batch(rng: random.Random, number: Callable[[], int]) -> list[dict[str, Any]]:
    """Rows of few keys, so that they meet again; `number` gives each its own value."""
    few = rng.random() < 0.7
    return [
        {
            "k": rng.choice(HARD_KEYS[:8] if few else HARD_KEYS),
            "n": rng.choice([None, 0, 7]),
            "p": rng.choice(["x", "y", "", None, "ü", "ü 😀", "a%b+c=d"]),
            "q": rng.choice(["1", "2"]),
            "ts": rng.randrange(5),
            "_hoodie_is_deleted": rng.random() < 0.2,
            "v": number(),
        }
        for _ in range(rng.choice([1, 2, 3, 5, 8]))
    ]


@dataclass(frozen=True)
class Snapshot:
    """The rows and places after a commit."""

    instant: str
    rows: Rows
    paths: Paths


@dataclass
class HistoryModel(Model):
    """The table as it must be now, and as it was.

    Attributes:
        commits: completed commits that were not taken back, oldest first.
        savepoints: instants that have one.
        floor: the oldest snapshot that cleaning promises.
        latest: the greatest instant that a commit ever had; `ever` are all of them.
        live, building: partitions of the metadata table.
        secondary: the columns with a secondary index.
        shards: of the record index; without one, those that it would get.
        resharding: the number that it is being dealt out to; 0 if it is not.
        purged: instants of snapshots that held a key which was purged: they may not be read.
        dead_builds: partitions of which a dead build or drop may have left files.
    """

    commits: list[Snapshot] = field(default_factory=list)
    savepoints: set[str] = field(default_factory=set)
    floor: str = ""
    latest: str = ""
    ever: set[str] = field(default_factory=set)
    purged: set[str] = field(default_factory=set)
    live: set[str] = field(default_factory=set)
    building: set[str] = field(default_factory=set)
    secondary: set[str] = field(default_factory=set)
    shards: int = 0
    resharding: int = 0
    dead_builds: set[str] = field(default_factory=set)

    def copy(self) -> HistoryModel:
        """A model that can go another way."""
        return HistoryModel(
            shape=self.shape,
            rows=dict(self.rows),
            paths=dict(self.paths),
            commits=list(self.commits),
            savepoints=set(self.savepoints),
            floor=self.floor,
            latest=self.latest,
            ever=set(self.ever),
            purged=set(self.purged),
            live=set(self.live),
            building=set(self.building),
            secondary=set(self.secondary),
            shards=self.shards,
            resharding=self.resharding,
            dead_builds=set(self.dead_builds),
        )

    def committed(self, instant: str) -> None:
        """Note what the rows are as of a new commit."""
        assert instant > self.latest, f"instant {instant} comes after {self.latest}"
        self.latest = instant
        self.ever.add(instant)
        self.commits.append(Snapshot(instant, dict(self.rows), dict(self.paths)))

    def cleaned(self, shape: HistoryShape, retained: int | None = None) -> None:
        """A clean may have run: what it may not have touched."""
        times = [commit.instant for commit in self.commits]
        if shape.versions:
            self.floor = max([self.floor, *times])
            return
        kept = shape.retained if retained is None else retained
        if len(times) > kept:
            # What the last of the commits that go had written is where the first that stays began.
            self.floor = max(self.floor, times[-kept - 1])

    def readable(self, instant: str) -> bool:
        """Whether the snapshot of a commit must be there."""
        return instant >= self.floor or instant in self.savepoints

    def purge(self, keys: list[str]) -> None:
        """Take keys out of the rows, and note which snapshots held one."""
        self.purged |= {c.instant for c in self.commits if c.rows.keys() & set(keys)}
        for key in keys:
            self.rows.pop(key, None)
            self.paths.pop(key, None)

    def back_to(self, count: int) -> None:
        """Take all commits but the first `count` back."""
        del self.commits[count:]
        last = self.commits[-1] if self.commits else Snapshot("", {}, {})
        self.rows, self.paths = dict(last.rows), dict(last.paths)
