"""What `advise` takes: seconds, memory and requests, of the tables in tests/data and a large one.

    python tests/measured/advise_cost.py --out DIR

Each call is a process of its own. Seconds are the least of some turns, from its start to its end.
Requests are those of an object store that holds the same files: obstore serves them from the disk.
DIR/advise_cost.json has all numbers, and DIR/advise_cost.md a page of them.
"""

# ruff: noqa: T201
from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "table"))

import large_table
from table_cases import DATA, unpack

CHILD = Path(large_table.__file__).with_name("advise_child.py")
PROPERTIES = ".hoodie/hoodie.properties"
HEADS = (
    *("table", "version", "type", "base files", "commits", "files listed"),
    *("s", "processor s", "MiB", "GET", "HEAD", "LIST", "requests"),
)


def tables(pattern: str, folder: Path) -> Iterator[tuple[str, Path]]:
    """Name and folder of each table in the archives of tests/data; metadata tables are no ones."""
    for archive in sorted(DATA.glob(f"{pattern}.tar.gz")):
        name = archive.name.removesuffix(".tar.gz")
        root = unpack(archive.name, folder / name)
        for properties in sorted(root.rglob(PROPERTIES)):
            table = properties.parents[1]
            if ".hoodie" not in table.relative_to(root).parts:
                yield f"{name}: {table.relative_to(root)}", table


def asked(*words: str) -> tuple[dict[str, Any], dict[str, Any], float]:
    """What `advise` answers, what the process took, and its seconds."""
    began = time.perf_counter()
    ran = subprocess.run(
        [sys.executable, str(CHILD), *words],
        capture_output=True,
        text=True,
        check=True,
    )
    took = time.perf_counter() - began
    told = json.loads(ran.stderr.splitlines()[-1])
    if told["code"]:
        raise SystemExit(f"advise {words[0]} ended with code {told['code']}: {ran.stderr}")
    return json.loads(ran.stdout), told, took


def measured(name: str, table: Path, turns: int) -> dict[str, Any]:
    """What `advise` takes for a table."""
    calls = [asked(str(table)) for _ in range(turns)]
    with tempfile.TemporaryDirectory() as log:
        answer, there, _ = asked(str(table), log)
    said = answer["table"]
    if said["files"] != calls[0][0]["table"]["files"]:
        raise SystemExit(f"{name}: a store's files are not those of the disk")
    return {
        "table": name,
        "version": said["version"],
        "type": "merge on read" if said["merge_on_read"] else "copy on write",
        "base_files": said["files"]["base_files"],
        "commits": len(answer["writes"]),
        "listed": sum(len(files) for _, _, files in os.walk(table)),
        "seconds": min(took for _, _, took in calls),
        "processor_s": min(told["processor_s"] for _, told, _ in calls),
        "peak_bytes": max(told["peak"] for _, told, _ in calls),
        "requests": {kind: there["requests"][kind] for kind in ("get", "head", "list")},
    }


def took(found: Sequence[dict[str, Any]]) -> str:
    """The most that tables took, in words."""
    seconds, processor = (max(each[name] for each in found) for name in ("seconds", "processor_s"))
    peak = max(each["peak_bytes"] for each in found) / 2**20
    requests = max(sum(each["requests"].values()) for each in found)
    return f"{seconds:.1f} s ({processor:.1f} s of a processor), {peak:,.0f} MiB and {requests:,}"


def row(each: dict[str, Any]) -> tuple[str, ...]:
    """A table's row of the page."""
    return (
        *(str(each[name]) for name in ("table", "version", "type")),
        *(f"{each[name]:,}" for name in ("base_files", "commits", "listed")),
        *(f"{each[name]:.1f}" for name in ("seconds", "processor_s")),
        f"{each['peak_bytes'] / 2**20:,.0f}",
        *(f"{number:,}" for number in each["requests"].values()),
        f"{sum(each['requests'].values()):,}",
    )


def page(large: dict[str, Any], small: Sequence[dict[str, Any]], words: str) -> str:
    """The page, its finding first."""
    finding = (
        f"`advise` takes {took([large])} requests for a table of {large['base_files']:,} base "
        f"files and {large['commits']:,} commits, and at most {took(small)} requests for each of "
        f"the {len(small)} tables in `tests/data`."
    )
    lines = [HEADS, ("---",) * 3 + ("---:",) * (len(HEADS) - 3), *map(row, (large, *small))]
    return "\n".join([
        "# What `advise` takes",
        "",
        finding,
        "",
        *(f"| {' | '.join(line)} |" for line in lines),
        "",
        "```",
        f"python tests/measured/advise_cost.py {words}",
        "```",
        "",
    ])  # fmt: skip


def main(words: Sequence[str] | None = None) -> None:
    """Make the large table, measure all, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--archives", default="hudi-*", help="of tests/data, as a pattern")
    parser.add_argument("--files", type=int, default=large_table.FILES)
    parser.add_argument("--commits", type=int, default=large_table.COMMITS)
    said = parser.parse_args(words)
    said.out.mkdir(parents=True, exist_ok=True)
    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory(dir=said.out) as folder:
        root, _ = large_table.make(Path(folder) / "large", files=said.files, commits=said.commits)
        large = measured("made for this page", root, said.turns)
        small = [
            measured(name, table, said.turns)
            for name, table in tables(said.archives, Path(folder) / "small")
        ]
    kept = {"load_1m": [load, os.getloadavg()[0]], "tables": [large, *small]}
    (said.out / "advise_cost.json").write_text(json.dumps(kept, indent=1), encoding="utf-8")
    text = page(large, small, f"--out DIR --turns {said.turns}")
    (said.out / "advise_cost.md").write_text(text, encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
