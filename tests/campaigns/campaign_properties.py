"""Every bit of hoodie.properties is flipped, and the table is read and written each time.

A read must answer rightly, or fail, or warn. A write must fail and leave the table as it was, or do
exactly what it does on the undamaged table. A case is some flips of one table, spread over its
file: flips of one entry often end alike.
"""

from __future__ import annotations

import shutil
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from campaign import Outcome
from table_cases import EVENT_TIME, MOVES, PAYLOAD, create, files, latest_files, rows, unpack

from keymark import Table
from keymark.table.errors import TableError, TableWarning

OURS, CASES = "ours", 400
# Tables of Hudi's, by archive; one flip in so many is tried.
HUDIS = {
    "record": ("hudi-0.15.0-states.tar.gz", "a_2_upsert"),
    "complex": ("hudi-0.15.0-variants.tar.gz", "b"),
    "virtual": ("hudi-0.15.0-keys.tar.gz", "virtual_simple"),
    "named": ("hudi-1.1.1-keys.tar.gz", "named_key"),
}
HUDI_CASES, EVERY = 25, 13
PROPERTIES = ".hoodie/hoodie.properties"
WRITES = ("upsert", "delete", "purge")


def prepare(kind: str, folder: Path) -> Path:
    """A small table of a kind."""
    if kind != OURS:
        archive, name = HUDIS[kind]
        return unpack(archive, folder) / name
    # Payload and moves are not the defaults, so that losing them shows.
    table = create(folder / "t", {MOVES: "true", PAYLOAD: EVENT_TIME})
    table.bulk_insert(rows(range(6), ts=5))
    table.upsert(rows([0, 6], ts=6))
    return folder / "t"


def changes(table: Any) -> pa.Table:
    """An update with a higher ordering value, one with a lower one, and a key given twice."""
    stored = pa.concat_tables(table.scan().tables())
    data = stored.select([c for c in stored.column_names if not c.startswith("_hoodie_")])
    data = data.sort_by(data.column_names[0]).slice(0, 4)
    at = data.column_names.index("ts")
    higher, lower = (pa.array([n] * data.num_rows, data.schema.field(at).type) for n in (99, 0))
    name = data.column_names[at]
    newer, older = (data.set_column(at, name, values) for values in (higher, lower))
    return pa.concat_tables([newer.slice(0, 2), older.slice(1, 2), newer.slice(3, 1)])


@dataclass(frozen=True)
class Work:
    """What is done to the table, and the rows that it leaves where nothing is damaged."""

    folder: Path
    whole: Path
    data: bytes
    batch: pa.Table
    keys: list[str]
    wanted: dict[str, list[str]]

    @property
    def root(self) -> Path:
        """The table that is damaged."""
        return self.folder / "work"

    def renew(self) -> None:
        """Make it the whole table again."""
        shutil.rmtree(self.root, ignore_errors=True)
        shutil.copytree(self.whole, self.root)

    def act(self, name: str) -> None:
        """Do one thing to the table."""
        table = Table.open(str(self.root))
        if name == "upsert":
            table.upsert(self.batch)
        else:
            gone = self.batch.slice(0, 1) if name == "delete" else self.batch.slice(3, 1)
            report = getattr(table, name)(gone)
            assert name == "delete" or report.proven, f"purge is not proven: {report}"


def stored(root: Path) -> list[str]:
    """The rows by listing storage: partition path, meta columns of keys and the data."""
    found: list[str] = []
    for (partition, _), path in sorted(latest_files(root).items()):
        part = pq.ParquetFile(root / path).read()
        shown = [c for c in part.column_names if not c.startswith("_hoodie_")]
        shown += ["_hoodie_record_key", "_hoodie_partition_path"]
        found += [f"{partition} {row}" for row in part.select(shown).to_pylist()]
    return sorted(found)


def prepared(kind: str, folder: Path) -> Work:
    """The table, and what each write does to it undamaged."""
    whole = prepare(kind, folder)
    table = Table.open(str(whole))
    batch = changes(table)
    data = (whole / PROPERTIES).read_bytes()
    work = Work(folder, whole, data, batch, [], {"read": stored(whole)})
    for name in WRITES:
        work.renew()
        work.act(name)
        work.wanted[name] = stored(work.root)
    assert len({str(rows) for rows in work.wanted.values()}) == len(work.wanted)
    work.renew()
    return work


def read(work: Work) -> str:
    """Read the damaged table by keys and as a whole."""
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        found = pa.concat_tables(Table.open(str(work.root)).scan().tables())
    if any(issubclass(w.category, TableWarning) for w in told):
        return "answers: warned"
    assert found.num_rows == len(work.wanted["read"]), "the read answers other rows"
    return "answers: right"


def write(work: Work, name: str) -> str:
    """Write to the damaged table; its files as they were if that is refused."""
    before = files(work.root)
    damaged = (work.root / PROPERTIES).read_bytes()
    try:
        work.act(name)
    except TableError:
        assert files(work.root) == before, f"{name} was refused and changed the table"
        assert (work.root / PROPERTIES).read_bytes() == damaged, f"{name} changed the properties"
        return "answers: refused"
    assert stored(work.root) == work.wanted[name], f"{name} wrote other rows"
    config = Table.open(str(work.root)).config
    if "record_index" in config.metadata_partitions:
        assert Table.open(str(work.root)).check().ok, f"the check fails after {name}"
    work.renew()
    return "answers: right"


def attempt(work: Work, bit: int, counts: Counter[str]) -> list[str]:
    """One flip, and all that is done to the table with it."""
    data = bytearray(work.data)
    data[bit // 8] ^= 1 << bit % 8
    failures = []
    steps: list[tuple[str, Callable[[], str]]] = [("read", lambda: read(work))]
    steps += [(name, lambda name=name: write(work, name)) for name in WRITES]  # type: ignore[misc]
    for name, step in steps:
        (work.root / PROPERTIES).write_bytes(data)
        counts["damages"] += name == "read"
        try:
            counts[f"{name} {step()}"] += 1
        except TableError:
            counts[f"{name} answers: refused"] += 1
        except Exception as error:  # noqa: BLE001  whatever it is, it is the finding
            line = work.data[: bit // 8].count(b"\n")
            entry = bytes(data).split(b"\n")[line : line + 1]
            failures.append(f"bit {bit} {name}: {type(error).__name__} {error} {entry}")
            work.renew()
    (work.root / PROPERTIES).write_bytes(work.data)
    return failures


class Properties:
    """The campaign."""

    seed = 18
    seconds = 180.0
    share = 2

    def cases(self) -> Sequence[str]:
        """Some flips each; tables of Hudi's come in between."""
        ours = [f"{OURS}-{start}" for start in range(CASES)]
        hudis = [f"{kind}-{start}" for start in range(HUDI_CASES) for kind in HUDIS]
        found = []
        while ours or hudis:
            found += [part.pop(0) for part in (ours, ours, ours, ours, hudis) if part]
        return found

    def run(self, case: str, folder: Path) -> Outcome:
        """Every flip of the case, one after the other."""
        kind, start = case.rsplit("-", 1)
        outcome = Outcome()
        work = prepared(kind, folder)
        step = CASES if kind == OURS else HUDI_CASES * EVERY
        for bit in range(int(start), len(work.data) * 8, step):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", TableWarning)
                outcome.failures += attempt(work, bit, outcome.counts)
        return outcome


CAMPAIGN = Properties()
