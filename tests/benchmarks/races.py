"""Writers that race to create the same instant: of each round exactly one may win.

    python -m tests.benchmarks.races [--store STORE] [--rounds 1000] [--writers 8] [--json FILE]

Each writer is a process. In every round all of them wait for each other and then complete the same
instant with a content of their own. Counted are the rounds with one winner, with none and with
several; and those whose file holds the winner's content, whole.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import multiprocessing
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).parents[1]))

from hdfs_server import hdfs_server
from s3_server import s3_server

from keymark.table.errors import CommitConflictError
from keymark.table.storage.stores import storage_at
from keymark.table.timeline.timeline import Timeline

STORES = ("local", "s3", "hdfs")
# Of the third one the jars have to be there.
USUAL = STORES[:2]


@dataclass(frozen=True, slots=True)
class Races:
    """What came of the rounds; `true` are those whose file is the only winner's."""

    store: str
    writers: int
    rounds: int
    one: int
    none: int
    several: int
    true: int
    seconds: float

    @property
    def passed(self) -> bool:
        return self.one == self.true == self.rounds


def instant(number: int) -> str:
    return f"{20260101000000000 + number}"


def content(writer: int, number: int) -> bytes:
    return f"writer {writer}, round {number}\n".encode() * 50


def _write(url: str, options: Mapping[str, str], writer: int, rounds: int, start: Any) -> list[int]:
    """Take part in all rounds; the numbers of those won."""
    timeline, won = Timeline(storage_at(url, options), "", ()), []
    for number in range(rounds):
        start.wait(timeout=300)
        with contextlib.suppress(CommitConflictError):
            timeline.complete(instant(number), "commit", content(writer, number))
            won.append(number)
    return won


def _writer(arguments: tuple[Any, ...], answers: Any) -> None:
    answers.put((arguments[2], _write(*arguments)))


def race(url: str, options: Mapping[str, str], *, writers: int, rounds: int) -> Races:
    """Race on a storage."""
    # One process imports, and the writers are forked of it: it has no connections.
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(
        ["keymark.table.storage.stores", "keymark.table.timeline.timeline"]
    )
    start, answers = context.Barrier(writers), context.Queue()
    processes = [
        context.Process(
            target=_writer, args=((url, dict(options), writer, rounds, start), answers), daemon=True
        )
        for writer in range(writers)
    ]
    began = time.monotonic()
    for process in processes:
        process.start()
    won = dict(answers.get(timeout=1800) for _ in processes)
    seconds = time.monotonic() - began
    for process in processes:
        process.join()
    winners = [[w for w in range(writers) if number in set(won[w])] for number in range(rounds)]
    storage = storage_at(url, options)
    timeline = Timeline(storage, "", ())
    true = sum(
        len(found) == 1
        and storage.read(timeline.path(instant(number), "commit", "completed"))
        == content(found[0], number)
        for number, found in enumerate(winners)
    )
    counts = [min(len(found), 2) for found in winners]
    return Races(
        store=url.partition("://")[0] if "://" in url else "local",
        writers=writers,
        rounds=rounds,
        one=counts.count(1),
        none=counts.count(0),
        several=counts.count(2),
        true=true,
        seconds=round(seconds, 1),
    )


@contextlib.contextmanager
def place(store: str) -> Iterator[tuple[str, dict[str, str]]]:
    """URL and options of an empty folder on a storage."""
    if store == "local":
        with tempfile.TemporaryDirectory() as folder:
            yield folder, {}
    elif store == "hdfs":
        with tempfile.TemporaryDirectory() as folder, hdfs_server(Path(folder)) as server:
            yield f"{server.url}/table", {}
    else:
        with s3_server() as server:
            yield f"{server.bucket()}/table", server.options


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--store", choices=STORES, action="append")
    parser.add_argument("--rounds", type=int, default=1000)
    parser.add_argument("--writers", type=int, default=8)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    found = []
    for store in given.store or USUAL:
        with place(store) as (url, options):
            found.append(race(url, options, writers=given.writers, rounds=given.rounds))
        sys.stdout.write(f"{found[-1]}\n")
    if given.json:
        given.json.write_text(json.dumps([asdict(races) for races in found], indent=2) + "\n")
    sys.exit(not all(races.passed for races in found))


if __name__ == "__main__":
    main()
