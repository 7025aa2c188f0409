"""Which base files can hold given keys, by the record index."""

from __future__ import annotations

import pyarrow as pa

from keymark.indexes.installed import of_partition
from keymark.table.index.protocol import IndexContext, index_name, load_index, spec_of
from keymark.table.index.stale_index import stale_since
from keymark.table.layout.model import BaseFile
from keymark.table.layout.naming import is_bucket_file_id
from keymark.table.metadata.partitions import RECORD_INDEX
from keymark.table.properties.options import INDEX_TYPE
from keymark.table.state.table_state import TableState


def files_of_keys(state: TableState, keys: pa.Array, context: IndexContext) -> tuple[BaseFile, ...]:
    """The base files of a snapshot that can hold the keys.

    Only a current snapshot is pruned, and only where the record index names every file with a key:
    Hudi 0.15 leaves out rows added to a bucket, and with an index of each partition a key may have
    a row in several partitions, of which the record index names one.
    """
    files = state.snapshot.files
    can = RECORD_INDEX in state.config.metadata_partitions and state.snapshot.as_of is None
    if not can or stale_since(state) or not _names_all_files(state):
        return files
    index = load_index(of_partition(RECORD_INDEX).name)
    found = index.lookup(keys.unique(), context)
    places = [found[name].to_pylist() for name in ("partition_path", "file_id")]
    wanted = set(zip(*places, strict=True))
    bases = state.snapshot.by_location()
    return tuple(bases[location] for location in sorted(wanted & bases.keys()))


def _names_all_files(state: TableState) -> bool:
    """Whether the table's index keeps each key in one file group, and the rows are no buckets.

    A table that does not say which index it has is of Hudi: its files tell whether it has buckets.
    """
    named = state.config.properties.get(INDEX_TYPE)
    if named is not None:
        spec = spec_of(index_name(named))
        return spec.is_global and not spec.owns_layout
    return not all(is_bucket_file_id(file.file_id) for file in state.snapshot.files)
