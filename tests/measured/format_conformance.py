"""Random change streams in every mode of Delta and Iceberg against the truth.

    python tests/measured/format_conformance.py --out DIR --streams 100

Each stream (`tests/harness/format_streams.py`) is played into a new table of each mode and compared
with the generator after every step. Differences are printed; the last line counts streams.
"""

# ruff: noqa: T201
from __future__ import annotations

import argparse
import shutil
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "harness"))

from format_streams import local, play

from keymark.harness.engines import engine_indexes, library_name
from keymark.harness.engines.format_engine import FormatEngine
from keymark.harness.engines.format_process import FormatProcess
from keymark.harness.engines.libraries.engine import LibraryEngine
from keymark.harness.engines.libraries.process import LibraryProcess
from keymark.harness.scenario.workload_section import SparkSection

WITHOUT = "pyiceberg@0.12.0"
"""An engine that has no compaction."""

MEMORY = 8_000_000_000


def conform(name: str, out: Path, streams: int) -> int:
    """Play streams into an engine; how many differ."""
    events, work = out / "events", out / "work"
    for folder in (events, work):
        folder.mkdir(parents=True, exist_ok=True)
    library = library_name(name)
    process = (
        FormatProcess(name, section=SparkSection(), events=events, work=work)
        if library is None
        else LibraryProcess(library, work=work, cores=2, memory=MEMORY)
    )
    process.start()
    wrong = 0
    try:
        engine = (
            FormatEngine(name, process, local())
            if library is None
            else LibraryEngine(library, process, local(), work=work)
        )
        for mode in engine_indexes(name):
            for seed in range(streams):
                told = play(engine, mode, out / name / mode, seed, compacts=name != WITHOUT)
                wrong += bool(told)
                for each in told:
                    print(f"{name}, {each}", flush=True)
                shutil.rmtree(out / name / mode / "ns" / f"t{seed}", ignore_errors=True)
            print(f"{name}, {mode}: {streams} streams", flush=True)
    finally:
        process.close()
    return wrong


def main() -> None:
    """Play the streams of all engines."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--streams", type=int, default=100)
    parser.add_argument("--engine", action="append")
    said = parser.parse_args()
    engines = said.engine or ["delta@3.3.2", "iceberg@1.10.0", "deltalake@1.6.6", WITHOUT]
    wrong = sum(conform(name, said.out.absolute(), said.streams) for name in engines)
    print(f"{wrong} streams differ")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
