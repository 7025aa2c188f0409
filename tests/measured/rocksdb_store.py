"""RocksDB as a store of keys and their file groups, built of sorted files (`SstFileWriter`).

A database takes such files in as they are if their ranges of keys do not overlap. So the keys are
split by their first two letters into parts that fit into memory, and each part is sorted and
written by itself. Finished parts stay: a build that was stopped resumes with the next one.
"""

from __future__ import annotations

import shutil
import time
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

BATCH = 2_000_000
# Keys that are sorted at once. A part has keys of whole prefixes, so up to a tenth more: 1.6 GB of
# text, where an Arrow array ends at 2 GiB.
SORTED = 40_000_000
KEY_BYTES, PREFIXES = 36, 256

Rows = npt.NDArray[np.int64]
Groups = npt.NDArray[np.int32]


class Source(Protocol):
    """Where keys are from: each has a number."""

    @property
    def rows(self) -> int:
        """How many there are."""

    def keys(self, numbers: Rows) -> tuple[pa.Array, Groups]:
        """Keys and file groups of some numbers."""


def options(*, bloom: bool) -> Any:
    """The defaults, or Bloom filters of 10 bits a key beside them."""
    try:
        import rocksdict
    except ImportError:
        raise SystemExit("RocksDB needs `pip install rocksdict==0.3.29`") from None
    found = rocksdict.Options(raw_mode=True)
    if bloom:
        blocks = rocksdict.BlockBasedOptions()
        blocks.set_bloom_filter(10, block_based=False)
        found.set_block_based_table_factory(blocks)
    return found


def parts_of(keys: int) -> int:
    """In how many parts so many keys are sorted, each of which is one Arrow array of strings."""
    parts = -(-keys // SORTED)
    largest = keys * KEY_BYTES * -(-PREFIXES // parts) // PREFIXES
    if 1.1 * largest >= 1 << 31:
        raise SystemExit(f"{keys:,} keys in {parts} parts: one has {largest:,} bytes of text")
    return parts


def build(path: Path, source: Source, *, bloom: bool) -> float:
    """Make the database; what was made of it before is used.

    Returns:
        Seconds of sorting, writing and taking in; making the keys is not counted.
    """
    import rocksdict

    work, parts = path.with_name(f"{path.name}-parts"), parts_of(source.rows)
    numbers = work / "numbers"
    if not numbers.exists():
        _split_numbers(source, parts, numbers)
    files = [work / f"{part:02d}.sst" for part in range(parts)]
    for part, file in enumerate(files):
        if not file.exists():
            some = np.fromfile(numbers / f"{part:02d}", np.uint32).astype(np.int64)
            _write_sorted(rocksdict.SstFileWriter(options(bloom=bloom)), file, *source.keys(some))
    seconds = sum(float(file.with_suffix(".seconds").read_text()) for file in files)
    began = time.perf_counter()
    database = rocksdict.Rdict(str(path), options(bloom=bloom))
    linked = rocksdict.IngestExternalFileOptions()
    linked.set_move_files(True)
    database.ingest_external_file([str(file) for file in files], linked)
    database.close()
    seconds += time.perf_counter() - began
    shutil.rmtree(work)
    return seconds


def _split_numbers(source: Source, parts: int, to: Path) -> None:
    """Write the numbers of each part's keys, four bytes each, into a file of the folder."""
    new = to.with_suffix(".new")
    shutil.rmtree(new, ignore_errors=True)
    new.mkdir(parents=True)
    for start in range(0, source.rows, BATCH):
        numbers = np.arange(start, min(start + BATCH, source.rows))
        keys, _ = source.keys(numbers)
        first = pc.utf8_slice_codeunits(keys, 0, 2).dictionary_encode()
        prefixes = np.array([int(text, 16) for text in first.dictionary.to_pylist()])
        part_of_key = (prefixes * parts // PREFIXES)[first.indices.to_numpy()]
        for part in range(parts):
            with (new / f"{part:02d}").open("ab") as file:
                numbers[part_of_key == part].astype(np.uint32).tofile(file)
    new.rename(to)


def _write_sorted(writer: Any, file: Path, keys: pa.Array, groups: Groups) -> None:
    """Write the keys of a part in their order, and beside them the seconds that it took."""
    began, new = time.perf_counter(), file.with_suffix(".new")
    order = pc.sort_indices(keys)
    writer.open(str(new))
    for start in range(0, len(keys), BATCH):
        some = order.slice(start, BATCH)
        values = groups[some.to_numpy()].astype("<i4")
        for number, key in enumerate(keys.take(some).cast(pa.binary()).to_pylist()):
            writer[key] = values[number].tobytes()
    writer.finish()
    file.with_suffix(".seconds").write_text(str(time.perf_counter() - began))
    new.rename(file)


def ask(path: Path, keys: pa.Array, *, bloom: bool) -> tuple[Rows, Groups]:
    """Positions of the keys that are there, and the file group of each."""
    import rocksdict

    # Only the options of a column family bring an existing database its filters.
    database = rocksdict.Rdict(
        str(path),
        options(bloom=bloom),
        column_families={"default": options(bloom=bloom)},
        access_type=rocksdict.AccessType.read_only(),
    )
    asked = sorted((key.encode(), row) for row, key in enumerate(keys.to_pylist()))
    found = database.get_column_family("default")[[key for key, _ in asked]]
    database.close()
    hits = [(row, value) for (_, row), value in zip(asked, found, strict=True) if value]
    rows = np.array([row for row, _ in hits], np.int64)
    return rows, np.frombuffer(b"".join(value for _, value in hits), "<i4")
