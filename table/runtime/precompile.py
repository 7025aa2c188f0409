"""Compile the package's kernels once, so that no first command has to wait for it.

    python -m keymark.table.runtime.precompile

numba keeps what it compiled beside the sources. A tiny table goes through every write and read.
"""

from __future__ import annotations

import tempfile

import pyarrow as pa

from keymark.indexes.installed import specs
from keymark.indexes.spec import IndexSpec
from keymark.table.metadata.column_ranges import file_keys, read_ranges
from keymark.table.metadata.partitions import COLUMN_STATS, RECORD_INDEX
from keymark.table.state.table_state import TableState
from keymark.table.table import Table

_ROWS = 1000


def main() -> None:
    """Write, read, look up and check a table in a temporary folder."""
    # Enough keys for a block of the index to have a code table of its own.
    keys = [f"key number {n:06d}" for n in range(_ROWS)]
    rows = pa.table({"k": keys, "p": ["a", "b"] * (_ROWS // 2), "v": [1.5] * _ROWS})
    groups = {f"hoodie.metadata.record.index.{end}.filegroup.count": "1" for end in ("min", "max")}
    for index, spec in _kinds().items():
        with tempfile.TemporaryDirectory() as folder:
            table = Table.create(
                f"{folder}/t", record_key="k", partition_path="p", index=index, options=groups
            )
            table.bulk_insert(rows.slice(0, _ROWS - 20))
            table.upsert(rows.slice(_ROWS - 40))
            table.insert(rows.slice(0, 1).set_column(0, "k", [["new"]]))
            table.delete(rows.slice(0, 5))
            table.lookup([keys[7], "absent"])
            table.check()
            if spec.metadata_partition == RECORD_INDEX:
                table.purge([keys[9]])
                table.compact()
                table.drop_index()
                table.build_index()
                table.build_index(COLUMN_STATS)
                # What a read by a condition does before Spark.
                state = TableState.load(table.storage)
                assert state.metadata is not None
                files = state.snapshot.files
                read_ranges(state.metadata.shards(COLUMN_STATS), "v", files, file_keys(files))


def _kinds() -> dict[str, IndexSpec]:
    """An index of each kind that needs nothing beside the table; those of a kind share code."""
    kinds = {
        spec.cost.equations["tag"].name: spec
        for spec in reversed(list(specs().values()))
        if spec.cost is not None and not spec.entries
    }
    return {spec.name: spec for spec in kinds.values()}


if __name__ == "__main__":
    main()
