"""What `table rewrite` takes beside a plain copy of the same base files through the same code.

    python tests/benchmarks/rewrite_ratio.py [--rows 1000000] [--turns 5]

A turn rewrites one table four times: a copy that leaves every row as it is, keys given up, a copy
of what that left, keys stored again. A copy is a rewriting, too: the same reading of base files,
the same writer, the same commits, and only what it makes of the rows differs. In every other turn
the first copy comes last, so that age and caches meet both alike; a first turn warms up. After each
step the rows' digest and the index's digest must be those of the beginning.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from unittest import mock

import numpy as np
import pyarrow as pa
import xxhash

from keymark import Table
from keymark.datasets.generate.digest import digest_arrow
from keymark.table.format.parquet.base_file import read_footer, write_base_file
from keymark.table.format.parquet.footer_check import FILE_NAME_COLUMN
from keymark.table.services import rewrite
from keymark.table.services.rewrite import Rewriter
from keymark.table.state.base_files import read_base, stored_rows
from keymark.table.state.table_state import TableState
from keymark.table.write.file_group import (
    FileGroupResult,
    FileGroupWrite,
    new_file,
    put_slice,
)
from keymark.table.write.page_layout import with_small_pages

COLUMNS = ["id", "dt", "payload"]
DAYS = 10
OPTIONS = {"hoodie.index.bloom.num_entries": "60000"}


def rows(count: int) -> pa.Table:
    """A key of 32 hex digits, a date, 16 hex digits."""
    words = [xxhash.xxh3_128_hexdigest(b"%d" % number) for number in range(count)]
    days = pa.array([f"2026-01-{day + 1:02d}" for day in range(DAYS)])
    return pa.table(
        {
            "id": pa.array(words),
            "dt": days.take(pa.array(np.arange(count) % DAYS)),
            "payload": pa.array([xxhash.xxh3_64_hexdigest(word.encode()) for word in words]),
        }
    )


def copy_group(work: FileGroupWrite) -> FileGroupResult:
    """The next slice of a file group, with the rows as they are but for the name of their file."""
    assert work.base is not None
    file = new_file(work)
    base = read_base(work.target.storage, work.base)
    stored = stored_rows(base, read_footer(base), work.target.schema)
    if work.target.stores_meta:
        names = pa.repeat(pa.scalar(file.name), stored.num_rows)
        place = stored.schema.get_field_index(FILE_NAME_COLUMN)
        stored = stored.set_column(place, FILE_NAME_COLUMN, names)
    options = with_small_pages(work.target, stored.num_rows)
    data = bytes(write_base_file(stored, options=options, path=file.path))
    return put_slice(work, file, data, rows=stored.num_rows, outcomes=np.empty(0, np.uint8))


def copy(table: Table) -> None:
    """Write all file groups anew with what is in them."""
    stores = table.config.stores_meta
    files = TableState.load(table.storage).snapshot.files

    def once(rewriter: Rewriter, _: str) -> None:
        rewriter._rewrite(files, stores=stores)

    with (
        mock.patch.object(rewrite, "rewrite_group", copy_group),
        mock.patch.object(Rewriter, "run", once),
    ):
        table.rewrite("copy")


def facts(table: Table) -> tuple[object, str]:
    """The digests of rows and of index entries."""
    checked = table.check()
    assert checked.ok, checked
    found = pa.concat_tables([part.select(COLUMNS) for part in table.scan().tables()])
    return digest_arrow(found), checked.digest


def turn(table: Table, first: tuple[object, str], *, copy_first: bool) -> dict[str, float]:
    """Seconds of the four steps; the table is as it was, after it."""
    steps: list[tuple[str, Callable[[], object]]] = [
        ("copy stored", lambda: copy(again(table))),
        ("on", lambda: again(table).rewrite("on")),
        ("copy virtual", lambda: copy(again(table))),
        ("off", lambda: again(table).rewrite("off")),
    ]
    seconds = {}
    for name, work in steps if copy_first else [*steps[1:], steps[0]]:
        started = time.perf_counter()
        work()
        seconds[name] = time.perf_counter() - started
        assert facts(again(table)) == first, f"rows or index differ after {name}"
    return seconds


def again(table: Table) -> Table:
    """The table, opened anew."""
    return Table.open(table.storage.root, options=OPTIONS)


def measure(folder: str, count: int, turns: int) -> dict[str, object]:
    """Seconds of each turn, and the medians of the ratios."""
    table = Table.create(
        f"{folder}/t", name="t", record_key="id", partition_path="dt", options=OPTIONS
    )
    table.bulk_insert(rows(count))
    first = facts(table)
    turn(table, first, copy_first=True)
    found = [turn(table, first, copy_first=number % 2 == 0) for number in range(turns)]
    ratios = {
        name: [round(one[name] / one[f"copy {kind}"], 3) for one in found]
        for name, kind in (("on", "stored"), ("off", "stored"))
    }
    return {
        "rows": count,
        "seconds": [{name: round(value, 3) for name, value in one.items()} for one in found],
        "ratios_to_copy_of_stored": ratios,
        "medians": {name: statistics.median(values) for name, values in ratios.items()},
    }


def main() -> None:
    """Run, and print the answer."""
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--rows", type=int, default=1_000_000)
    arguments.add_argument("--turns", type=int, default=5)
    chosen = arguments.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        answer = measure(folder, chosen.rows, chosen.turns)
    sys.stdout.write(json.dumps(answer, indent=1) + "\n")


if __name__ == "__main__":
    main()
