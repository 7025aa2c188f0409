"""After a step: rows, places, every partition of the metadata table, storage and time travel.

Rows and places are read by listing storage, not through the package, and through it; both must be
the model's. What the metadata table holds is compared key by key and byte by byte.
"""

from __future__ import annotations

import io
import json
import random
import re
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import fastavro
from history_model import (
    BLOOM_FILTERS,
    COLUMN_STATS,
    FILES,
    HARD_KEYS,
    RECORD_INDEX,
    RESHARD,
    HistoryModel,
    HistoryShape,
)
from table_cases import by_listing, data_rows, files, files_stored

from keymark import Table
from keymark.table.errors import InputError
from keymark.table.format.parquet.base_file import read_footer
from keymark.table.index.protocol import spec_of
from keymark.table.layout.naming import is_bucket_file_id
from keymark.table.metadata.bloom import bloom_records
from keymark.table.metadata.column_stats import column_stats_records
from keymark.table.metadata.records import SCHEMA, decode_locations
from keymark.table.metadata.reshard_plan import resharding
from keymark.table.properties.config import decode_properties
from keymark.table.read.arrow import plan_read
from keymark.table.state.table_state import TableState
from keymark.table.storage.local_storage import LocalStorage
from keymark.table.storage.storage import Storage
from keymark.table.timeline.instant_name import instant_millis
from keymark.table.values.cover import Chains
from keymark.table.values.indexed import folder_of
from keymark.table.values.runs import load_runs

COLUMNS = ("k", "n", "p", "q", "ts", "v")
META = ".hoodie/metadata"
_PARSED = fastavro.parse_schema(json.loads(SCHEMA))
_INSTANT = re.compile(r"^(\d+)\.([a-z]+)(?:\.(requested|inflight))?$")
_BASE = re.compile(r"_(\d+)\.parquet$")
_FIRST_LOG = re.compile(r"\.log\.1_0-0-0$")
_COMPLETED_AS = {"compaction": "commit", "inflight": "commit"}


def java_hash(key: str) -> int:
    """String.hashCode, by its definition."""
    h = 0
    units = key.encode("utf-16-be")
    for at in range(0, len(units), 2):
        h = (31 * h + int.from_bytes(units[at : at + 2], "big")) & 0xFFFFFFFF
    return h - (1 << 32) if h >> 31 else h


def shard_of(key: str, count: int) -> int:
    """abs(abs(h) % n) with Java's abs and %, which are those of C."""
    h = java_hash(key)
    positive = h if h == -(1 << 31) else abs(h)
    return abs(positive) % count


def properties_of(root: str) -> dict[str, str]:
    path = Path(root) / ".hoodie/hoodie.properties"
    if not path.exists():
        path = path.with_suffix(".properties.backup")
    return decode_properties(path.read_bytes(), str(path))


def partitions_of(root: str) -> tuple[set[str], set[str]]:
    """The partitions in use and those being built, as hoodie.properties names them."""
    found = properties_of(root)
    option = "hoodie.table.metadata.partitions"
    return tuple(
        {name for name in found.get(key, "").split(",") if name}
        for key in (option, f"{option}.inflight")
    )


def secondary_of(root: str) -> set[str]:
    """The columns with a secondary index, as hoodie.properties names them."""
    listed = properties_of(root).get("keymark.secondary.columns", "")
    return {name for name in listed.split(",") if name}


def shards_of(storage: Storage, shape: HistoryShape) -> tuple[int, int]:
    """The shards of the record index, and the number that it is being dealt out to, or 0.

    Without an index those that it would get.
    """
    state, plan = TableState.load(storage), resharding(storage)
    shards = int(shape.shards)
    if RECORD_INDEX in state.config.metadata_partitions:
        shards = len(state.metadata.slices(RECORD_INDEX))
    return shards, plan.after if plan is not None else 0


def values_of(model: HistoryModel, rows: dict[str, dict[str, Any]] | None = None) -> dict[str, Any]:
    """Key -> values of the data columns."""
    chosen = model.rows if rows is None else rows
    return {key: tuple(row[c] for c in COLUMNS) for key, row in chosen.items()}


@dataclass
class Checker:
    """Compares one table with its model after each step, and remembers what it has seen.

    `done` counts the checks by kind.
    """

    root: str
    rng: random.Random
    done: Counter[str] = field(default_factory=Counter)
    named: set[str] = field(default_factory=set)

    def settled(self, table: Table, model: HistoryModel, *, thorough: bool = False) -> None:
        """All of it: nobody died since the last write."""
        self._see()
        stored = by_listing(self.root)
        assert {key: values for key, (_, values) in stored.items()} == values_of(model)
        assert {key: path for key, ((path, _), _) in stored.items()} == model.paths
        places = {key: place for key, (place, _) in stored.items()}
        self._state(table, model, places)
        assert partitions_of(self.root) == (model.live, model.building)
        assert secondary_of(self.root) == model.secondary
        found = shards_of(table.storage, model.shape)
        assert found == (model.shards, model.resharding)
        assert self.savepoints() == model.savepoints
        strays = self.strays(model)
        assert not strays, strays
        self.done["storage"] += 1
        self.travel(table, model, every=thorough)
        if thorough or self.rng.random() < 0.2:
            self.by_api(table, model, places)

    def pending_entries(self, table: Table, model: HistoryModel) -> None:
        """What readers can see when a writer has died."""
        self._see()
        self._state(table, model, None)
        checked = table.check()
        assert checked.ok, checked
        self.done["check beside pending work"] += 1

    def _state(
        self, table: Table, model: HistoryModel, places: dict[str, tuple[str, str]] | None
    ) -> None:
        state = TableState.load(table.storage)
        plan = plan_read(state, state.snapshot.files, None, None)
        read: dict[str, Any] = {}
        where: dict[str, tuple[str, str]] = {}
        for file, part in zip(plan.files, plan.tables(), strict=True):
            for row in part.to_pylist():
                key = row["_hoodie_record_key"]
                assert key not in read, f"{key} occurs twice"
                read[key] = tuple(row[c] for c in COLUMNS)
                where[key] = (file.partition_path, file.file_id)
        assert read == values_of(model)
        assert {key: path for key, (path, _) in where.items()} == model.paths
        assert places is None or places == where
        self.done["rows"] += 1
        if places is not None and FILES in model.live:
            listed = {
                f"{partition}/{name}" if partition else name: size
                for partition, names in state.listing.items()
                for name, size in names.items()
            }
            assert listed == files_stored(self.root)
            self.done["files"] += 1
        live = set(state.config.metadata_partitions)
        if RECORD_INDEX in live:
            self._record_index(state, where, model.ever)
        if COLUMN_STATS in live:
            self._column_stats(state, settled=places is not None)
        if BLOOM_FILTERS in live:
            self._bloom_filters(state, settled=places is not None)

    def _record_index(
        self, state: TableState, where: dict[str, tuple[str, str]], commits: set[str]
    ) -> None:
        """I1 to I4: the same keys, at the same places, once, in their shard, in byte order.

        Instants are those of commits: Hudi may pass over an entry of any other.
        """
        known = {instant_millis(time, state.config.zone) for time in commits}
        shards = state.metadata.shards(RECORD_INDEX)
        index: dict[str, tuple[str, str]] = {}
        for number, shard in enumerate(shards):
            keys, values = shard.scan()
            found = [key.decode() for key in keys.to_pylist()]
            assert keys.to_pylist() == sorted(set(keys.to_pylist()))
            assert all(shard_of(key, len(shards)) == number for key in found)
            rows = decode_locations(values, shard.slice.file_id).to_pylist()
            for key, row in zip(found, rows, strict=True):
                index[key] = (row["partition_path"], row["file_id"])
                assert row["instant_ms"] in known, f"{key}: no commit is of {row['instant_ms']}"
        assert index == where
        self.done["index"] += 1

    def _column_stats(self, state: TableState, *, settled: bool) -> None:
        listed = properties_of(self.root).get("hoodie.metadata.index.column.stats.column.list", "")
        columns = [name for name in listed.split(",") if name]

        def records(file: tuple[str, str], footer: Any) -> Any:
            chosen = SimpleNamespace(names=columns or footer.metadata.schema.names)
            return column_stats_records(*file, footer.metadata, chosen)

        self._compare(state, COLUMN_STATS, self._by_file(state, records), settled=settled)

    def _bloom_filters(self, state: TableState, *, settled: bool) -> None:
        def records(file: tuple[str, str], footer: Any) -> Any:
            return bloom_records(*file, footer, _BASE.search(file[1])[1])

        self._compare(state, BLOOM_FILTERS, self._by_file(state, records), settled=settled)

    def _by_file(self, state: TableState, records: Any) -> tuple[dict[str, bytes], ...]:
        """Key -> value of the records that must be there, and of those that may be."""
        current = {file.path for file in state.snapshot.files}
        must: dict[str, bytes] = {}
        may: dict[str, bytes] = {}
        for partition, names in state.listing.items():
            for name in names:
                path = f"{partition}/{name}" if partition else name
                if path not in current and not state.storage.exists(path):
                    # A clean died between the file and its leaving the list.
                    continue
                footer = read_footer(state.storage.open(path))
                found = dict(zip(*records((partition, name), footer), strict=True))
                may |= found
                must |= found if path in current else {}
        return must, may

    def _compare(
        self, state: TableState, partition: str, wanted: tuple[Any, Any], *, settled: bool
    ) -> None:
        field_name = {COLUMN_STATS: "ColumnStatsMetadata", BLOOM_FILTERS: "BloomFilterMetadata"}
        found = {}
        for shard in state.metadata.shards(partition):
            keys, values = shard.scan()
            for key, value in zip(keys.to_pylist(), values.to_pylist(), strict=True):
                record = fastavro.schemaless_reader(io.BytesIO(value), _PARSED)
                if not record[field_name[partition]]["isDeleted"]:
                    found[key.decode()] = value
        must, may = wanted
        missing = must.keys() - found.keys()
        assert not missing, f"{partition}: {len(missing)} of {len(must)} records are missing"
        wrong = [key for key in found if key in may and found[key] != may[key]]
        assert not wrong, f"{partition}: {len(wrong)} records are not what their footers say"
        extra = found.keys() - may.keys()
        assert not (extra and settled), f"{partition}: {len(extra)} records of files that are gone"
        self.done[partition] += 1

    def travel(self, table: Table, model: HistoryModel, *, every: bool) -> None:
        """Earlier snapshots: those that cleaning promises exactly, others exactly or refused."""
        chosen = model.commits if every else []
        if model.commits and not every:
            chosen = [self.rng.choice(model.commits)]
        current = model.commits[-1].instant if model.commits else ""
        for commit in chosen:
            try:
                found = data_rows(table, as_of=commit.instant)
            except InputError:
                kept = model.readable(commit.instant) or commit.instant == current
                assert not kept or commit.instant in model.purged, (
                    f"as of {commit.instant} must be readable"
                )
                self.done["expired"] += 1
            else:
                assert commit.instant not in model.purged, "a purged key is read"
                assert found == values_of(model, commit.rows)
                self.done["travel"] += 1

    def by_api(self, table: Table, model: HistoryModel, places: dict[str, tuple[str, str]]) -> None:
        """Lookup, check, and the reading of some keys, as users call them."""
        checked = table.check()
        assert checked.ok, checked
        assert checked.keys == len(model.rows)
        told = ("is being built", "is being re-sharded" if model.resharding else "is being built")
        unbuilt = [line for line in checked.pending if not any(text in line for text in told)]
        assert not unbuilt or model.dead_builds, unbuilt
        if RECORD_INDEX in model.live or table.choice.name != "record":
            asked = [*sorted(model.rows), "absent", *HARD_KEYS, *sorted(model.rows)[:2]]
            for row in table.lookup(asked).to_pylist():
                location = places.get(row["record_key"], (None, None))
                assert (row["partition_path"], row["file_id"]) == location
        keys = sorted(model.rows)[::3]
        plan = table.scan(keys=[*keys, "absent"])
        if RECORD_INDEX in model.live:
            opened = {(file.partition_path, file.file_id) for file in plan.files}
            wanted = {places[key] for key in keys}
            if not spec_of(table.choice.name).is_global:
                # A key may have a row in each partition: the record index does not name them all.
                wanted = {(f.partition_path, f.file_id) for f in table.scan().files}
            # File ids that all look like buckets by chance are not pruned.
            by_chance = all(is_bucket_file_id(file_id) for _, file_id in opened)
            assert by_chance or opened == wanted
        assert data_rows(table, keys=[*keys, "absent"]).keys() == set(keys)
        for column in sorted(model.secondary):
            self._secondary(table, model, places, column)
        self.done["api"] += 1

    def _secondary(
        self, table: Table, model: HistoryModel, places: dict[str, tuple[str, str]], column: str
    ) -> None:
        """A comparison opens the files with a match; others only if no run covers them."""
        value = self.rng.choice([*(row[column] for row in model.rows.values()), "absent"])
        known = "NULL" if value is None else repr(value)
        where = f"{column} {'IS' if value is None else '='} {known}"
        if column != "k" and value == "absent":
            where = f"{column} = -1"
        state = TableState.load(table.storage)
        chains = Chains.of(load_runs(table.storage, folder_of(column)))
        uncovered = {
            (file.partition_path, file.file_id)
            for file in state.snapshot.files
            if not chains.of_file(file.partition_path, file.name)
        }
        wanted = {places[key] for key, row in model.rows.items() if row[column] == value}
        opened = {(file.partition_path, file.file_id) for file in table.files(where=where)}
        assert wanted <= opened <= wanted | uncovered, where
        self.done["secondary"] += 1

    def savepoints(self) -> set[str]:
        names = (path.name for path in (Path(self.root) / ".hoodie").glob("*.savepoint"))
        return {name.partition(".")[0] for name in names}

    def _see(self) -> None:
        """Remember the files that commits of the metadata table name: commits are archived."""
        for path in (Path(self.root) / META / ".hoodie").glob("*commit"):
            stats = json.loads(path.read_bytes())["partitionToWriteStats"]
            self.named |= {stat["path"] for part in stats.values() for stat in part}

    def strays(self, model: HistoryModel) -> list[str]:
        """Files that belong to nothing."""
        alive = {commit.instant for commit in model.commits}
        plan = resharding(LocalStorage.at(self.root))
        going = plan.instant if plan is not None else "none"
        kept = model.live | model.building | model.dead_builds
        building = model.building | model.dead_builds
        building |= {RESHARD} if model.resharding else set()
        found = []
        for path in files(self.root):
            folder, _, name = path.rpartition("/")
            if folder in (".hoodie", f"{META}/.hoodie"):
                known = name == "hoodie.properties" or name.startswith(f"{going}.")
                known |= self._is_over(folder, name, model)
            elif folder in (".hoodie/archived", f"{META}/.hoodie/archived"):
                known = name.startswith(".commits_.archive.")
            elif folder in model.shape.folders:
                known = True
            elif folder.startswith(".hoodie/.keymark/secondary/"):
                column = folder.rpartition("/")[2]
                known = column in model.secondary or f"secondary({column})" in model.dead_builds
            elif folder.startswith((".hoodie/.keymark/build/", ".hoodie/.keymark/pins/")):
                known = folder.split("/")[3] in building
            elif folder.startswith(f"{META}/"):
                partition = folder.removeprefix(f"{META}/")
                known = f"_{going}." in name or partition in building or self._is_named(path)
                known &= partition in kept
            elif name == ".hoodie_partition_metadata":
                # A partition stays open when the file that opened it was cleaned, and the commit
                # that made it is taken back later.
                text = (Path(self.root) / path).read_text("utf-8")
                known = any(f"commitTime={instant}\n" in text for instant in model.ever)
            else:
                match = _BASE.search(name)
                known = match is not None and match[1] in alive
            if not known:
                found.append(path)
        return found

    def _is_named(self, path: str) -> bool:
        name = path.rpartition("/")[2]
        if name == ".hoodie_partition_metadata" or _FIRST_LOG.search(name):
            return True
        return path.removeprefix(f"{META}/") in self.named

    def _is_over(self, folder: str, name: str, model: HistoryModel) -> bool:
        """Whether a file of a timeline belongs to a completed instant, or to a build going on."""
        match = _INSTANT.match(name)
        if match is None:
            return False
        time, action, _ = match.groups()
        done = _COMPLETED_AS.get(action, action)
        if action == "indexing" and model.building and folder == ".hoodie":
            return True
        return (Path(self.root) / folder / f"{time}.{done}").exists()
