"""What an index of keys costs in several stores: compact, record (HFiles) and RocksDB.

    python tests/measured/key_stores.py --out DIR [--keys 100000000] [--stores compact,record,...]

Keys and file groups are those of the dataset `trips`, 20,000 file groups, no base files. All stores
are asked the same keys in turns, each time by a new handle, cold (out of the system's cache) and
warm. Making keys is not counted. Every answer is compared with the generator: of a key that is
there one must be right; all others are false, as are all of absent keys. DIR/key_stores.json has
all figures. A store that is there is asked again. RocksDB needs `pip install rocksdict`.
"""

# ruff: noqa: T201
from __future__ import annotations

import argparse
import json
import os
import resource
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from keymark import Table
from keymark.datasets.generate.mappings import Mappings
from keymark.datasets.generate.rows import make_rows
from keymark.datasets.specs.spec import load_spec
from keymark.harness.tables.key_text import encode_keys
from keymark.reports.stats.statistics import summarize
from keymark.table.format.compact.reader import CompactFile
from keymark.table.format.compact.writer import CompactWriter, hashes_of
from keymark.table.storage.local_storage import LocalStorage

GROUPS, BATCH, ASKED, TURNS = 20_000, 2_000_000, 400_000, 5
# Keys that RocksDB's builder sorts at once; it makes them anew for each such part.
SORTED = 60_000_000

Rows = npt.NDArray[np.int64]
Groups = npt.NDArray[np.int32]
Builder = Callable[[Path, "Source", "Clock"], None]
Asker = Callable[[Path, pa.Array], tuple[Rows, Groups]]


@dataclass(frozen=True, slots=True)
class Source:
    """Keys and their file groups."""

    mappings: Mappings

    @classmethod
    def of(cls, keys: int) -> Source:
        """So many keys."""
        spec = load_spec("trips", {"rows": keys, "seed": 1, "date_partitions": 50})
        return cls(Mappings(spec, file_rows=-(-keys // GROUPS)))

    def keys(self, numbers: Rows) -> tuple[pa.Array, Groups]:
        """Those of some rows."""
        made, groups = self.mappings.make(numbers)
        return encode_keys(made), groups

    def batches(self) -> Iterator[tuple[pa.Array, Groups]]:
        """All of them."""
        rows = self.mappings.rows
        for start in range(0, rows, BATCH):
            yield self.keys(np.arange(start, min(start + BATCH, rows)))


class Clock:
    """Seconds of some calls."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def time(self, call: Callable[..., Any], *arguments: Any) -> Any:
        """What the call gives."""
        began = time.perf_counter()
        try:
            return call(*arguments)
        finally:
            self.seconds += time.perf_counter() - began


def build_compact(path: Path, source: Source, clock: Clock) -> None:
    """A compact index file."""
    path.mkdir()
    writer = CompactWriter(source.mappings.places()[1])
    for keys, groups in source.batches():
        clock.time(writer.add, keys, groups)
    with (path / "keys").open("wb") as file:
        clock.time(writer.finish, file.write)
        clock.time(file.flush)
        clock.time(os.fsync, file.fileno())


def ask_compact(path: Path, keys: pa.Array) -> tuple[Rows, Groups]:
    """Candidates."""
    with CompactFile.open(LocalStorage.at(path).open("keys")) as file:
        found = file.find(hashes_of(keys))
    return found.rows, found.groups


def builder_of_record(block_size: int) -> Builder:
    """The record index in HFiles."""

    def build(path: Path, source: Source, clock: Clock) -> None:
        spec, none = source.mappings.spec, np.zeros(0, np.int64)
        shards = str(max(1, source.mappings.rows // 2_000_000))
        limits = {
            f"hoodie.metadata.record.index.{end}.filegroup.count": shards for end in ("min", "max")
        }
        table = Table.create(
            path,
            record_key=spec.record_key,
            partition_path=spec.partition_path,
            ordering=spec.ordering,
            index="record",
            options={**limits, "hoodie.hfile.block.size": str(block_size)},
        )
        table.bulk_insert(make_rows(spec, none, none))
        table.drop_index("record_index")
        clock.time(table.build_mappings, source.mappings)

    return build


def asker_of_record(source: Source) -> Asker:
    """Places of keys; the file id tells the file group."""
    file_ids = pa.array(source.mappings.places()[1])

    def ask(path: Path, keys: pa.Array) -> tuple[Rows, Groups]:
        found = pc.index_in(Table.open(path).lookup(keys)["file_id"], value_set=file_ids)
        rows = np.flatnonzero(found.is_valid().to_numpy())
        return rows, found.drop_null().to_numpy().astype(np.int32)

    return ask


def rocksdb_options(bloom: bool) -> Any:
    """The defaults, or Bloom filters of 10 bits a key beside them."""
    try:
        import rocksdict
    except ImportError:
        raise SystemExit("RocksDB needs `pip install rocksdict`") from None
    options = rocksdict.Options(raw_mode=True)
    if bloom:
        blocks = rocksdict.BlockBasedOptions()
        blocks.set_bloom_filter(10, block_based=False)
        options.set_block_based_table_factory(blocks)
    return options


def builder_of_rocksdb(*, bloom: bool) -> Builder:
    """Files that SstFileWriter makes of sorted keys, taken in by a database."""

    def build(path: Path, source: Source, clock: Clock) -> None:
        import rocksdict

        options, files = rocksdb_options(bloom), []
        parts = -(-source.mappings.rows // SORTED)
        for part in range(parts):
            keys, groups = _keys_of_part(source, part, parts)
            file = str(path.with_name(f"{path.name}-{part}.sst"))
            clock.time(_write_sorted, rocksdict.SstFileWriter(options), file, keys, groups)
            files.append(file)
        database = rocksdict.Rdict(str(path), options)
        moving = rocksdict.IngestExternalFileOptions()
        moving.set_move_files(True)
        clock.time(database.ingest_external_file, files, moving)
        database.close()
        for file in files:
            Path(file).unlink(missing_ok=True)

    return build


def _keys_of_part(source: Source, part: int, parts: int) -> tuple[pa.Array, Groups]:
    """The keys whose first two letters, a number in hex, belong to a part; in order of parts."""
    kept, places = [], []
    for keys, groups in source.batches():
        first = pc.utf8_slice_codeunits(keys, 0, 2).to_numpy(zero_copy_only=False)
        numbers = np.array([int(text, 16) for text in np.unique(first)])
        inside = np.isin(first, np.unique(first)[numbers * parts // 256 == part])
        kept.append(keys.filter(pa.array(inside)))
        places.append(groups[inside])
    return pa.concat_arrays(kept), np.concatenate(places)


def _write_sorted(writer: Any, file: str, keys: pa.Array, groups: Groups) -> None:
    order = pc.sort_indices(keys)
    writer.open(file)
    for start in range(0, len(keys), BATCH):
        some = order.slice(start, BATCH)
        values = groups[some.to_numpy()].astype("<i4")
        for number, key in enumerate(keys.take(some).to_pylist()):
            writer[key.encode()] = values[number].tobytes()
    writer.finish()


def asker_of_rocksdb(*, bloom: bool) -> Asker:
    """Values of keys."""

    def ask(path: Path, keys: pa.Array) -> tuple[Rows, Groups]:
        import rocksdict

        database = rocksdict.Rdict(str(path), rocksdb_options(bloom))
        asked = sorted((key.encode(), row) for row, key in enumerate(keys.to_pylist()))
        found = database[[key for key, _ in asked]]
        database.close()
        hits = [(row, value) for (_, row), value in zip(asked, found, strict=True) if value]
        rows = np.array([row for row, _ in hits], np.int64)
        return rows, np.frombuffer(b"".join(value for _, value in hits), "<i4")

    return ask


def stores(source: Source) -> dict[str, tuple[Builder, Asker]]:
    """How each store is built and asked."""
    ask_record = asker_of_record(source)
    return {
        "compact": (build_compact, ask_compact),
        "record": (builder_of_record(1 << 20), ask_record),
        "record_64k": (builder_of_record(1 << 16), ask_record),
        "rocksdb": (builder_of_rocksdb(bloom=False), asker_of_rocksdb(bloom=False)),
        "rocksdb_bloom": (builder_of_rocksdb(bloom=True), asker_of_rocksdb(bloom=True)),
    }


def files_of(path: Path) -> list[Path]:
    """The files of a store."""
    return [each for each in path.rglob("*") if each.is_file()]


def forget(path: Path) -> None:
    """Take a store out of the system's cache."""
    for each in files_of(path):
        with each.open("rb") as file:
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def measure(source: Source, path: Path, ask: Asker, turn: int, *, present: bool) -> dict[str, Any]:
    """Look keys up cold, then warm; seconds, and false answers."""
    mappings = source.mappings
    numbers = mappings.sample(turn, ASKED) if present else mappings.absent(turn, ASKED)
    keys, groups = source.keys(numbers)
    forget(path)
    took: dict[str, Any] = {"present": present, "turn": turn}
    for state in ("cold", "warm"):
        clock = Clock()
        rows, found = clock.time(ask, path, keys)
        took[f"{state}_s"] = clock.seconds
        right = np.zeros(len(keys), bool)
        if present:
            right[rows[found == groups[rows]]] = True
            if not right.all():
                raise SystemExit(f"{path.name}: {int((~right).sum())} keys were not found")
        took["false"] = len(rows) - int(right.sum())
    return took


def main() -> None:
    """Build the stores that are not there, and ask them in turns."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--keys", type=int, default=100_000_000)
    parser.add_argument("--stores", default="compact,record,record_64k,rocksdb,rocksdb_bloom")
    asked = parser.parse_args()
    asked.out.mkdir(parents=True, exist_ok=True)
    source = Source.of(asked.keys)
    known = stores(source)
    chosen = asked.stores.split(",")
    told = asked.out / f"key_stores-{asked.keys}.json"
    figures: dict[str, Any] = json.loads(told.read_text()) if told.exists() else {}
    for name in chosen:
        path = asked.out / f"{name}-{asked.keys}"
        if not path.exists():
            clock = Clock()
            known[name][0](path, source, clock)
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
            figures[name] = {"build_s": clock.seconds, "peak_bytes": peak, "asked": []}
        size = sum(each.stat().st_size for each in files_of(path))
        figures[name]["bytes_a_key"] = size / asked.keys
        told.write_text(json.dumps(figures, indent=1))
        print(f"{name}: built in {figures[name]['build_s']:.0f} s, {size / asked.keys:.2f} B a key")
    for turn in range(TURNS):
        for present in (True, False):
            for name in chosen if turn % 2 else chosen[::-1]:
                path = asked.out / f"{name}-{asked.keys}"
                took = measure(source, path, known[name][1], turn, present=present)
                figures[name]["asked"].append(took)
                told.write_text(json.dumps(figures, indent=1))
    for name in chosen:
        for present in (True, False):
            turns = [each for each in figures[name]["asked"] if each["present"] == present]
            for state in ("cold", "warm"):
                found = summarize([each[f"{state}_s"] for each in turns])
                false = sum(each["false"] for each in turns)
                print(
                    f"{name}, {'present' if present else 'absent'}, {state}: {found.median:.2f} s "
                    f"({found.low:.2f} to {found.high:.2f}), {false} false answers"
                )


if __name__ == "__main__":
    main()
