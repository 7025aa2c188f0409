"""What copying untouched pages saves a write, by the share of rows that the batch changes.

    python tests/measured/copied_pages.py --out DIR

One table of 1,000,000 rows in 20 files. For each share two copies of it take turns at the same
updates: one whose files have small pages, one that writes files whole. Beside each turn stand:

- the fixed cost: the same write to a table of as many files that hold next to nothing,
- the same files copied and synced one by one, which is the least that any rewriting takes.

The last batch comes once more, on one thread, for the processor time of each stage of a file. All
rows are compared at the end. DIR/copied_pages.json has all figures.
"""

# ruff: noqa: T201
from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from keymark import Table
from keymark.datasets.generate.digest import digest_arrow
from keymark.datasets.generate.hashing import derive, draw
from keymark.reports.stats.statistics import summarize
from keymark.table.format.parquet import new_pages, next_file
from keymark.table.format.parquet.paged_file import PagedFile
from keymark.table.keygen.stored import StoredKeys
from keymark.table.runtime import runner
from keymark.table.write import write_group

FILES, SEED = 20, 1
SHARES = (0.0001, 0.001, 0.01, 0.1)
COLUMNS = ["k", "p", "ts", "rider", "fare", "payload"]
OPTIONS = {
    "hoodie.clean.automatic": "false",
    "hoodie.archive.automatic": "false",
    "hoodie.metadata.compact.max.delta.commits": "1000",
}
SMALL_ROWS = 50
"""Rows of a file that holds next to nothing"""
# What a file group's write is made of: the module or class, and the name in it.
STAGES = (
    (write_group, "write_file_group"),
    (write_group, "read_base"),
    (write_group, "read_footer"),
    (write_group, "paged_file"),
    (StoredKeys, "chunks"),
    (write_group, "stored_rows"),
    (write_group, "merge_rows"),
    (write_group, "layout_of"),
    (PagedFile, "read"),
    (write_group, "read_base_file"),
    (write_group, "read_columns"),
    (write_group, "with_new_meta"),
    (write_group, "compose"),
    (write_group, "hudi_entries"),
    (next_file, "encode"),
    (new_pages, "encode_pages"),
    (write_group, "write_next_file"),
    (write_group, "write_base_file"),
    (write_group, "put_slice"),
)


def rows(numbers: npt.NDArray[np.int64], turn: int) -> pa.Table:
    """Rows by their numbers, in FILES partitions."""
    words = draw(derive(SEED, "key"), numbers)
    fares = draw(derive(SEED, "fare", turn), numbers) % np.uint64(10_000)
    payload = draw(derive(SEED, "payload", turn), numbers)
    return pa.table(
        {
            "k": [f"{word:016x}-{n:08x}" for word, n in zip(words, numbers, strict=True)],
            "p": [f"p{number % FILES:02d}" for number in numbers.tolist()],
            "ts": np.full(len(numbers), turn),
            "rider": [f"rider-{number % 997}" for number in numbers.tolist()],
            "fare": fares.astype(np.float64) / 100,
            "payload": [f"{word:016x}" * 6 for word in payload],
        }
    )


def make(path: Path, count: int) -> None:
    """The table: one file a partition."""
    table = Table.create(
        path, record_key="k", partition_path="p", ordering="ts", index="record", options=OPTIONS
    )
    table.bulk_insert(rows(np.arange(count), 0))


def copy_and_sync(table: Table, to: Path) -> float:
    """Seconds in which the newest files are read, written and synced, one after the other."""
    files = [Path(table.storage.root) / file.path for file in table.files()]
    to.mkdir()
    began = time.perf_counter()
    for number, file in enumerate(files):
        with (to / str(number)).open("wb") as copy:
            copy.write(file.read_bytes())
            os.fsync(copy.fileno())
    took = time.perf_counter() - began
    shutil.rmtree(to)
    return took


@contextlib.contextmanager
def timed(spent: Counter[str]) -> Iterator[None]:
    """Add up the processor time of each stage, without that of the stages in it; on one thread."""
    inner = [0.0]

    def watched(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def run(*args: Any, **kwargs: Any) -> Any:
            inner.append(0.0)
            began = time.thread_time()
            try:
                return function(*args, **kwargs)
            finally:
                took = time.thread_time() - began
                spent[name] += took - inner.pop()
                inner[-1] += took

        return run

    with contextlib.ExitStack() as stack:
        stack.enter_context(mock.patch.object(runner.LocalRunner, "run", one_by_one))
        for owner, name in STAGES:
            function = watched(name, getattr(owner, name))
            stack.enter_context(mock.patch.object(owner, name, function))
        # The steps of a write know the function by its name.
        stages = "keymark.table.write.stages.write_file_group"
        stack.enter_context(mock.patch(stages, write_group.write_file_group))
        yield


def one_by_one(_: Any, function: Any, items: Any, **__: Any) -> list[Any]:
    """What a runner does, on one thread."""
    return [function(item) for item in items]


def measure(out: Path, share: float, *, count: int, rows_each: int, turns: int) -> dict[str, Any]:
    """Seconds of the writes of one share, by phase; bytes of the files at the end."""
    start, small = out / f"table-{count}", out / f"table-{FILES * SMALL_ROWS}"
    tables = {}
    for name, page_rows in (("copied", str(rows_each)), ("whole", "0"), ("fixed", "0")):
        path = out / name
        shutil.rmtree(path, ignore_errors=True)
        shutil.copytree(small if name == "fixed" else start, path, copy_function=os.link)
        options = {**OPTIONS, "keymark.parquet.page.rows": page_rows}
        tables[name] = Table.open(path, options=options)
    figures: dict[str, Any] = {"share": share, "rows": int(count * share), "writes": [], "copy": []}
    few = np.arange(min(int(count * share), FILES * SMALL_ROWS))
    for turn in range(turns + 1):
        chance = np.random.default_rng(turn)
        data = rows(chance.choice(count, int(count * share), replace=False), turn + 1)
        took, order = {}, list(tables)
        for name in order if turn % 2 else order[::-1]:
            batch = rows(few, turn + 1) if name == "fixed" else data
            took[name] = tables[name].upsert(batch).phases
        # The first write gives the files their small pages.
        if turn:
            figures["writes"].append(took)
            figures["copy"].append(copy_and_sync(tables["copied"], out / "copy"))
    for name in ("copied", "whole"):
        spent: Counter[str] = Counter()
        with timed(spent):
            tables[name].upsert(data)
        figures[f"{name}_stages"] = {stage: spent[stage] / FILES for _, stage in STAGES}
    del tables["fixed"]
    digests = set()
    for name, table in tables.items():
        found = pa.concat_tables([part.select(COLUMNS) for part in table.scan().tables()])
        digests.add(digest_arrow(found))
        figures[f"{name}_bytes"] = sum(file.size for file in table.files())
        if not table.check().ok:
            raise SystemExit(f"{name}: the table differs from itself")
    if len(digests) != 1:
        raise SystemExit(f"share {share}: the two tables have different rows")
    return figures


def tell(figures: dict[str, Any]) -> None:
    """Some lines for a share."""
    writes = figures["writes"]
    for phase in ("total", "write"):
        ratio = summarize([each["whole"][phase] / each["copied"][phase] for each in writes])
        copied = summarize([each["copied"][phase] for each in writes])
        print(
            f"{figures['rows']} rows, {phase}: {copied.median:.3f} s, "
            f"{ratio.median:.2f} ({ratio.low:.2f} to {ratio.high:.2f}) times as fast as whole files"
        )
    least = [
        each["fixed"]["total"] + copy for each, copy in zip(writes, figures["copy"], strict=True)
    ]
    above = summarize(
        [each["copied"]["total"] / floor for each, floor in zip(writes, least, strict=True)]
    )
    print(
        f"  fixed cost {summarize([each['fixed']['total'] for each in writes]).median:.3f} s, "
        f"copy and sync {summarize(figures['copy']).median:.3f} s; "
        f"{above.median:.2f} ({above.low:.2f} to {above.high:.2f}) times both together"
    )
    print(f"  files {figures['copied_bytes'] / figures['whole_bytes'] - 1:+.1%}")
    for name in ("copied", "whole"):
        stages = figures[f"{name}_stages"]
        parts = [f"{stage} {1000 * took:.1f}" for stage, took in stages.items() if took]
        print(f"  {name}, ms a file: {sum(stages.values()) * 1000:.1f} ({', '.join(parts)})")


def main() -> None:
    """Make the tables if they are not there, and measure each share."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--page-rows", type=int, default=2048)
    parser.add_argument("--shares", type=float, nargs="+", default=SHARES)
    parser.add_argument("--turns", type=int, default=5)
    asked = parser.parse_args()
    for count in (asked.rows, FILES * SMALL_ROWS):
        if not (asked.out / f"table-{count}").exists():
            make(asked.out / f"table-{count}", count)
    found = []
    for share in asked.shares:
        found.append(
            measure(
                asked.out, share, count=asked.rows, rows_each=asked.page_rows, turns=asked.turns
            )
        )
        (asked.out / "copied_pages.json").write_text(json.dumps(found, indent=1))
        tell(found[-1])


if __name__ == "__main__":
    main()
