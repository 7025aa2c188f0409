"""Random change streams in every mode of Delta and Iceberg, and without Spark, against the truth.

    python tests/measured/format_conformance.py --out DIR --streams 100

Each stream (`tests/harness/format_streams.py`) is played into a new table of each mode and compared
with the generator after every step. Differences are printed; the last line counts streams.
What was played is noted in DIR/streams.jsonl. A second call with the same DIR goes on after it, and
prints the differences of the first one again.
`native@without-spark` is played in each of its indexes to which rows may move between partitions.
"""

# ruff: noqa: T201
from __future__ import annotations

import argparse
import json
import shutil
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "harness"))

from format_streams import local, play

from keymark.harness.engines import WITHOUT_SPARK, engine_indexes, library_name
from keymark.harness.engines.base import Engine
from keymark.harness.engines.format_engine import FormatEngine
from keymark.harness.engines.format_process import FormatProcess
from keymark.harness.engines.libraries.engine import LibraryEngine
from keymark.harness.engines.libraries.process import LibraryProcess
from keymark.harness.engines.watched_process import WatchedProcess
from keymark.harness.engines.without_spark import WithoutSparkEngine, WithoutSparkProcess
from keymark.harness.scenario.workload_section import SparkSection
from keymark.indexes.installed import specs

PYICEBERG = "pyiceberg@0.12.0"
ENGINES = ("delta@3.3.2", "iceberg@1.10.0", "deltalake@1.6.6", PYICEBERG, WITHOUT_SPARK)
WITHOUT_COMPACTION = (PYICEBERG, WITHOUT_SPARK)

MEMORY = 8_000_000_000

# The differences of each stream, by engine, mode and seed.
Played = dict[tuple[str, str, int], list[str]]


def started(name: str, out: Path) -> tuple[Engine, FormatProcess | WatchedProcess]:
    """An engine in a process of its own, which is to be closed."""
    events, work = out / "events", out / "work"
    for folder in (events, work):
        folder.mkdir(parents=True, exist_ok=True)
    process: FormatProcess | WatchedProcess
    if name == WITHOUT_SPARK:
        process = WithoutSparkProcess(name, work=work, cores=2, memory=MEMORY)
        process.start()
        return WithoutSparkEngine(process, local()), process
    library = library_name(name)
    if library is None:
        process = FormatProcess(name, section=SparkSection(), events=events, work=work)
        process.start()
        return FormatEngine(name, process, local()), process
    process = LibraryProcess(library, work=work, cores=2, memory=MEMORY)
    process.start()
    return LibraryEngine(library, process, local(), work=work), process


def modes(name: str) -> dict[str, dict[str, str]]:
    """The modes of an engine that streams are played in, with their options.

    Rows of the streams move between partitions. So an index of Keymark's must be global and have an
    option that lets them move; one whose entries are outside of the table needs a server.
    """
    if name != WITHOUT_SPARK:
        return {mode: {} for mode in engine_indexes(name)}
    return {
        mode: {spec.move_option: "true"}
        for mode, spec in specs().items()
        if spec.is_global and spec.move_option and not spec.entries
    }


def conform(name: str, out: Path, streams: int, played: Played) -> None:
    """Play the streams into an engine that were not played yet, and note their differences."""
    engine, process = started(name, out)
    compacts = name not in WITHOUT_COMPACTION
    try:
        for mode, options in modes(name).items():
            folder = out / name / mode
            for seed in range(streams):
                if (name, mode, seed) in played:
                    told(name, played[name, mode, seed])
                    continue
                table = folder / "ns" / f"t{seed}"
                shutil.rmtree(table, ignore_errors=True)  # a call before may have been cut off
                found = play(engine, mode, folder, seed, compacts=compacts, options=options)
                told(name, found)
                played[name, mode, seed] = found
                with noted(out).open("a") as file:
                    file.write(json.dumps([name, mode, seed, found]) + "\n")
                shutil.rmtree(table, ignore_errors=True)
            print(f"{name}, {mode}: {streams} streams", flush=True)
    finally:
        process.close()


def told(name: str, differences: list[str]) -> None:
    """Print the differences of one stream, a line each."""
    for each in differences:
        print(f"{name}, {each}", flush=True)


def noted(out: Path) -> Path:
    """What was played: a line a stream, with engine, mode, seed and differences."""
    return out / "streams.jsonl"


def played_before(out: Path) -> Played:
    """The differences of each stream of an earlier call."""
    if not noted(out).exists():
        return {}
    lines = map(json.loads, noted(out).read_text().splitlines())
    return {(name, mode, seed): differences for name, mode, seed, differences in lines}


def main() -> None:
    """Play the streams of all engines."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--streams", type=int, default=100)
    parser.add_argument("--engine", action="append")
    said = parser.parse_args()
    out = said.out.absolute()
    played = played_before(out)
    for name in said.engine or ENGINES:
        conform(name, out, said.streams, played)
    wrong = sum(bool(differences) for differences in played.values())
    print(f"{wrong} streams differ")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
