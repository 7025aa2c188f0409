"""One base file compared with what an index and the table expect of it; a task for a runner.

keys             the digest of keys and places, by shard of the record index
key range        the range in the footer holds all keys that readers compare with it
bloom filter     the filter in the footer holds all keys
buckets          the hash of each key is the bucket that the file id names
partition paths  each row says that it is of the folder that it is in
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from keymark.table.errors import CorruptFileError, TableWarning
from keymark.table.format.bloom.text import BloomText
from keymark.table.format.hashes.digest import Digest, location_words
from keymark.table.format.hashes.hashing import string_buffers
from keymark.table.format.kernels.scatter import partition_keys
from keymark.table.format.parquet.base_file import read_base_file, read_metadata
from keymark.table.format.parquet.column_chunks import column_chunks
from keymark.table.format.parquet.footer_keys import FooterKeys, read_footer_keys
from keymark.table.index.build.scan import record_keys
from keymark.table.index.protocol import load_index
from keymark.table.keygen.stored import StoredKeys
from keymark.table.layout.model import BaseFile
from keymark.table.layout.naming import bucket_of, is_bucket_file_id
from keymark.table.properties.config import TableConfig
from keymark.table.properties.options import Options
from keymark.table.read.arrow import open_base
from keymark.table.storage.storage import RangeReader, Storage

_PARTITION_PATH = "_hoodie_partition_path"
# Java and UTF-8 order texts differently from this byte on: no such key is compared with a range.
_FIRST_DISPUTED = 0xEE


@dataclass(frozen=True, slots=True, kw_only=True)
class FileCheck:
    """One base file to look at.

    Attributes:
        storage: the table's storage.
        file: the base file.
        config: the table's config.
        shards: number of file groups of the record index, 1 without one.
        filters: whether key range and bloom filter in the footer are compared.
        index: name of the table's index.
        buckets: options that say in which bucket a key belongs; None for a table without buckets.
        partition_paths: whether its rows must be of the file's partition path.
    """

    storage: Storage
    file: BaseFile
    config: TableConfig
    shards: int
    filters: bool
    index: str
    buckets: dict[str, str] | None
    partition_paths: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class FileFacts:
    """What was found in one base file.

    Attributes:
        digests: of keys and places, by shard.
        range_lacks, filter_lacks: keys that the range or the filter in the footer leaves out.
        misplaced: rows of another bucket or partition path.
    """

    digests: list[Digest]
    range_lacks: int
    filter_lacks: int
    misplaced: int

    @property
    def rows(self) -> int:
        """Rows of the file."""
        return sum(digest.count for digest in self.digests)


def check_file(work: FileCheck) -> FileFacts:
    """Look at one base file; a task for a runner.

    Raises:
        CorruptFileError: the file is damaged, or a row in it has no key.
    """
    source = open_base(work.storage, work.file)
    words = location_words([work.file.partition_path], [work.file.file_id])
    footer = read_footer_keys(source) if work.filters else None
    bloom = _bloom(footer, work.file.path)
    digests = [Digest()] * work.shards
    range_lacks = filter_lacks = 0
    misplaced = _other_partition(work, source) if work.partition_paths else 0
    for keys in record_keys(work.storage, work.file, StoredKeys.of(work.config)):
        sums = partition_keys([(keys, 0)], words, work.shards).sums
        parts = zip(sums.rows.tolist(), sums.low.tolist(), sums.high.tolist(), strict=True)
        digests = [known.plus(Digest(*part)) for known, part in zip(digests, parts, strict=True)]
        if footer is not None:
            range_lacks += _outside(keys, footer)
        if bloom is not None:
            filter_lacks += int((~bloom.contains(keys)).sum())
        if work.buckets is not None:
            misplaced += _other_bucket(keys, work, Options(work.buckets))
    return FileFacts(
        digests=digests, range_lacks=range_lacks, filter_lacks=filter_lacks, misplaced=misplaced
    )


def _bloom(footer: FooterKeys | None, path: str) -> BloomText | None:
    if footer is None or footer.bloom_text is None:
        return None
    return BloomText.parse(footer.bloom_text, footer.bloom_type, path)


def _outside(keys: pa.Array, footer: FooterKeys) -> int:
    """How many keys lie outside of the range in a footer, of those that are compared with it."""
    if footer.min_key is None and footer.max_key is None:
        return 0
    outside = np.zeros(len(keys), bool)
    if footer.min_key is not None:
        outside |= pc.less(keys, footer.min_key).to_numpy(zero_copy_only=False)
    if footer.max_key is not None:
        outside |= pc.greater(keys, footer.max_key).to_numpy(zero_copy_only=False)
    if not outside.any():
        return 0
    return int((outside & ~_disputed(keys)).sum())


def _disputed(keys: pa.Array) -> npt.NDArray[np.bool_]:
    """Whether each key has a character that Java and UTF-8 order differently."""
    offsets, text = string_buffers(keys)
    counts = np.concatenate([[0], np.cumsum(text[: offsets[-1]] >= _FIRST_DISPUTED)])
    return np.asarray(counts[offsets[1:]] > counts[offsets[:-1]], bool)


def _other_bucket(keys: pa.Array, work: FileCheck, options: Options) -> int:
    """How many keys do not belong to the bucket of their file."""
    if not is_bucket_file_id(work.file.file_id):
        return len(keys)
    with warnings.catch_warnings():
        # A writer warns of keys with a colon. A check only compares.
        warnings.simplefilter("ignore", TableWarning)
        found = load_index(work.index).buckets(keys, work.config, options)
    return int((found != bucket_of(work.file.file_id)).sum())


def _other_partition(work: FileCheck, source: RangeReader) -> int:
    """How many rows say that they are of another partition path than their file's."""
    metadata = read_metadata(source)
    wanted = work.file.partition_path
    # Not by metadata.schema: the two refer to each other, and stay until the garbage collector
    # comes around.
    chunks = [chunk.metadata for chunk in column_chunks(metadata, [_PARTITION_PATH])]
    if metadata.num_row_groups and not chunks:
        raise CorruptFileError(work.file.path, 0, f"it has no column {_PARTITION_PATH}")
    if all(_all_equal(chunk.statistics, wanted) for chunk in chunks):
        return 0
    paths = read_base_file(source, [_PARTITION_PATH])[_PARTITION_PATH].cast(pa.string())
    return len(paths) - (pc.sum(pc.equal(paths, wanted)).as_py() or 0)


def _all_equal(statistics: object, wanted: str) -> bool:
    """Whether statistics (pq.Statistics or None) say that all values are the one wanted."""
    if not getattr(statistics, "has_min_max", False) or getattr(statistics, "null_count", 1) != 0:
        return False
    ends = (getattr(statistics, "min_raw", None), getattr(statistics, "max_raw", None))
    return ends == (wanted.encode(), wanted.encode())
