"""How long a writer's commits take while the record index of a large table is built beside it.

python tests/table/histories/run_async_index.py --rows 1000000 --seconds 30
"""
# ruff: noqa: T201

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import threading
import time
from pathlib import Path

ROOT = Path(__file__).parents[3]
for folder in ("tests/table/histories", "tests/table", "tests", "."):
    sys.path.insert(0, str(ROOT / folder))

from load_writer import OPTIONS, LoadWriter, create, stored  # noqa: E402  after the path to it

from keymark import Table  # noqa: E402


def spans(writer: LoadWriter, start: float, end: float) -> list[float]:
    """Seconds of the commits that began in a stretch of time."""
    return [seconds for begun, seconds in writer.seconds if start <= begun < end]


def line(name: str, seconds: list[float], lasted: float) -> str:
    if not seconds:
        return f"| {name} | {lasted:.1f} | 0 | | | |"
    median, longest = statistics.median(seconds), max(seconds)
    rate = len(seconds) / lasted
    return f"| {name} | {lasted:.1f} | {len(seconds)} | {rate:.2f} | {median:.2f} | {longest:.2f} |"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--seconds", type=float, default=30, help="of commits before the build")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        root = f"{folder}/t"
        create(root, given.rows)
        with LoadWriter(root, given.rows) as writer:
            begun = time.perf_counter()
            threading.Event().wait(given.seconds)
            scheduled = time.perf_counter()
            Table.open(root, options=OPTIONS).schedule_index()
            Table.open(root, options=OPTIONS).run_index()
            built = time.perf_counter()
            threading.Event().wait(given.seconds)
            ended = time.perf_counter()
        table = Table.open(root, options=OPTIONS)
        checked = table.check()
        exact = checked.ok and stored(table) == writer.expected()
    before = spans(writer, begun, scheduled)
    during = spans(writer, scheduled, built)
    after = spans(writer, built, ended)
    print("| stretch | seconds | commits | per second | median s | longest s |")
    print("|---|---:|---:|---:|---:|---:|")
    print(line("before the build", before, scheduled - begun))
    print(line("during the build", during, built - scheduled))
    print(line("after it", after, ended - built))
    if before and during:
        print(f"\nlongest during / longest before: {max(during) / max(before):.2f}")
    print(f"{checked.keys:,} keys, {len(writer.seconds)} commits, none failed, exact: {exact}")
    return not exact


if __name__ == "__main__":
    sys.exit(main())
