"""An engine, its rows and a runtime without Spark: tables are a Parquet file and a timeline."""

from __future__ import annotations

import hashlib
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pyarrow.parquet as pq

from keymark.harness.engines.base import Layout
from keymark.harness.run.context import RunContext
from keymark.harness.run.runner import Runner
from keymark.harness.run.workload import steps
from keymark.harness.scenario.matrix import Schedule
from keymark.harness.store.results import Sample

SAMPLE = Sample(
    run_id="r1",
    cell="native/record",
    engine="native",
    index="record",
    step="upsert_1",
    round=1,
    repetition=0,
    warmup=False,
    phase="total",
    metric="wall_s",
    unit="s",
    value=1.25,
    verified=True,
    valid=True,
    reason="",
)
FILE_ID = "11111111-0"
# A scenario so small that real engines take seconds for it.
SMALL = (
    "dataset.rows=2000",
    "dataset.partitions=3",
    "dataset.batch_rows=200",
    "workload.lookup_present=60",
    "workload.lookup_absent=20",
    "schedule.warmups=0",
    "spark.conf.spark.driver.memory=1g",
)
INSTANTS = [f"202601010000000{n:02d}" for n in range(99)]


@dataclass(frozen=True)
class Written:
    files_written: int = 1
    phases: dict[str, float] = field(
        default_factory=lambda: {
            "tag": 0.1,
            "write": 0.2,
            "index": 0.1,
            "commit": 0.1,
            "total": 0.5,
        }
    )


class Row(dict):
    def asDict(self):  # noqa: N802 - PySpark's name
        return dict(self)


class Frame(dict):
    """A data frame is the mapping key -> value."""

    def collect(self):
        return [Row(k=key, ts=value) for key, value in self.items()]

    def inputFiles(self):  # noqa: N802 - PySpark's name
        return ["one.parquet"] if self else []


class HonestTable:
    """Rewrites one Parquet file with each write."""

    def __init__(self, path: Path, index: str) -> None:
        self.path, self.index, self.asked = path, index, False

    def _files(self):
        return sorted(self.path.glob("*.parquet"))

    def rows(self) -> Frame:
        files = self._files()
        if not files:
            return Frame()
        table = pq.ParquetFile(files[-1]).read()
        return Frame(zip(table["k"].to_pylist(), table["ts"].to_pylist(), strict=True))

    def _write(self, rows) -> Written:
        instant = INSTANTS[len(self._files())]
        keys = sorted(rows)
        name = f"{FILE_ID}_0-0-0_{instant}.parquet"
        columns = {"_hoodie_record_key": keys, "k": keys, "ts": [rows[key] for key in keys]}
        pq.write_table(pa.table(columns), self.path / name)
        (self.path / ".hoodie" / f"{instant}.commit").write_text("{}")
        return Written()

    def bulk_insert(self, df, /):
        if self.index == "record":
            self.build_index()
        return self._write(df)

    def upsert(self, df, /):
        return self._write({**self.rows(), **df})

    def delete(self, df, /):
        return self._write({k: v for k, v in self.rows().items() if k not in df})

    def read(self, keys=None):
        rows = self.rows()
        return rows if keys is None else Frame({k: rows[k] for k in keys if k in rows})

    def scan(self, keys=None):
        rows = self.read(keys).collect()
        found = pa.table({"k": [row["k"] for row in rows], "ts": [row["ts"] for row in rows]})
        return SimpleNamespace(files=["one.parquet"], to_arrow=lambda: found)

    def lookup(self, keys, /, *, stats=None):
        held = self.rows()
        if stats is not None:
            stats.shards_read += 1
            stats.blocks_decoded += 0 if self.asked else 2
            stats.files_read += 1
            stats.candidates += 5
            stats.false_positives += 3
        self.asked = True
        found = [key.as_py() in held for key in keys]
        return pa.table(
            {
                "record_key": keys,
                "partition_path": pa.array(["" if here else None for here in found], pa.string()),
                "file_id": pa.array([FILE_ID if here else None for here in found], pa.string()),
            }
        )

    def compact(self):
        return INSTANTS[98]

    @property
    def entries(self):
        return self.path / ".hoodie" / "metadata" / "record_index" / "0.hfile"

    def drop_index(self):
        self.entries.unlink()

    def build_index(self):
        assert not self.entries.exists()
        self.entries.parent.mkdir(parents=True, exist_ok=True)
        self.entries.write_text("keys")

    def purge(self, df, /):
        """Delete the slices that hold a key; the latest does not."""
        held = [
            file for file in self._files() if set(df) & set(pq.read_table(file)["k"].to_pylist())
        ]
        for file in held:
            file.unlink()
        return SimpleNamespace(keys=len(df), files_rewritten=0, files_left=0, proven=True)

    def info(self):
        return SimpleNamespace(index=self.index)

    def check(self):
        return SimpleNamespace(ok=True)


class FakeEngine:
    def __init__(self, table=HonestTable) -> None:
        self.table = table
        self.labels: list[str] = []

    def create(self, path, layout, *, index, options):  # noqa: ARG002
        (path / ".hoodie").mkdir(parents=True)
        (path / ".hoodie" / "hoodie.properties").write_text("")
        (path / ".hoodie_partition_metadata").write_text("")
        return self.open(path, index=index, options=options)

    def open(self, path, *, index, options):  # noqa: ARG002
        return self.table(path, index)

    def adopt(self, path, *, index, options):
        return self.open(path, index=index, options=options)

    @contextmanager
    def step(self, label):
        self.labels.append(label)
        yield

    def requests(self):
        return {}

    def hold_rows(self, df):
        return df

    def hold_keys(self, keys, _table):
        return keys

    def answer(self, found, _keys):
        return found

    def digest(self, rows, columns):
        assert tuple(columns) == FakeInputs.columns
        return digest(rows)


def digest(rows):
    return len(rows), hashlib.sha256(repr(sorted(rows.items())).encode()).hexdigest()[:32]


class FakeInputs:
    """Ten keys; round n sets `b` to n and adds a key; the delete step removes `a`."""

    columns = ("k", "ts")
    layout = Layout(name="t", record_key=("k",), partition_path=(), ordering="ts")

    def load(self):
        return Frame(dict.fromkeys("abcdefghij", 0))

    def batch(self, round_, /):
        return Frame({"b": round_, f"new{round_}": round_})

    def warm_up(self):
        return self.batch(1)

    def deletes(self):
        return Frame(a=0)

    def deleted_keys(self):
        return pa.array(["a"])

    def nulled(self):
        return Frame(a=None)

    def nulled_truth(self, round_, /):
        return digest(self.rows_after(round_, deleted=False) | self.nulled())

    def size(self, step, /):
        return {"bulk_insert": 10, "delete": 1}.get(step, 2)

    def rows_after(self, round_, *, deleted):
        rows = self.load()
        for n in range(1, round_ + 1):
            rows |= self.batch(n)
        if deleted:
            del rows["a"]
        return rows

    def truth(self, round_, *, deleted):
        return digest(self.rows_after(round_, deleted=deleted))

    def lookup_keys(self):
        return pa.table({"record_key": ["c", "a", "zz"], "expect_present": [True, False, False]})

    def few_keys(self):
        return self.lookup_keys().slice(0, 1)

    def model_keys(self):
        here = [*"cdefgh", *(f"absent{number}" for number in range(6))]
        return pa.table({"record_key": here, "expect_present": [True] * 6 + [False] * 6})

    def point_key(self, repetition, /):
        return "cdefghij"[repetition]


class RecordedChild:
    """A process of an engine: notes messages and gives the answers that a test put there."""

    def __init__(self, **answers) -> None:
        self.answers = answers
        self.calls: list[tuple[str, dict]] = []

    def call(self, name, /, **arguments):
        self.calls.append((name, arguments))
        answer = self.answers.get(name)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def revive(self):
        pass

    def patience(self, seconds):
        pass

    def close(self):
        pass


class HeldFrame:
    """A data frame that was read from two files."""

    def inputFiles(self):  # noqa: N802 - PySpark's name
        return ["file:/b.parquet", "file:/a.parquet"]


class Ticks:
    """A clock that moves one second with each look."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        self.now += 1.0
        return self.now


class Quiet:
    def __init__(self) -> None:
        self.planned: list[int] = []
        self.begun: list[str] = []
        self.left: list[float | None] = []
        self.ended = 0
        self.warned: list[str] = []

    def plan(self, trials):
        self.planned.append(trials)

    def begin(self, what, left_s=None, *_):
        self.begun.append(what)
        self.left.append(left_s)

    def end(self):
        self.ended += 1

    def warn(self, what):
        self.warned.append(what)


class Still:
    """Nothing between the trials."""

    def beat(self, before):
        pass


@dataclass
class Taken:
    """What came of a run."""

    failed: dict[str, str]
    ended: dict[str, str]
    notes: list[str]
    repetitions: int


@dataclass
class Taker:
    """Takes the trials of a scenario whose data are all those of one context, as a run does."""

    resolved: object
    tools: RunContext
    folder: object
    progress: object = field(default_factory=Quiet)
    between: object = field(default_factory=Still)
    earlier: object = ()

    def run(self, cells, budget_s=None, until=None) -> Taken:
        deadline = None if budget_s is None else self.tools.clock() + budget_s
        runner = Runner(
            contexts=dict.fromkeys(self.resolved.dataset.points, self.tools),
            steps=steps(self.resolved.workload),
            folder=self.folder,
            run_id="r1",
            progress=self.progress,
            between=self.between,
            earlier=self.earlier,
        )
        schedule = Schedule.of(cells, self.resolved)
        repetitions = runner.measure(schedule, deadline=deadline, until=until)
        return Taken(runner.failed, runner.ended, runner.notes, repetitions)


def context(work: Path, *, table=HonestTable, source=None) -> RunContext:
    return RunContext(
        inputs=FakeInputs(),
        engines={"native": FakeEngine(table)},
        work=work,
        source=source,
        clock=Ticks(),
    )


def time_of(engine, index, phase="total") -> Sample:
    """Seconds of an upsert."""
    return replace(SAMPLE, cell=f"{engine}/{index}", engine=engine, index=index, phase=phase)
