"""`keymark data`: describe a dataset, write its rows, or compute their digest."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Event, Lock, Thread
from typing import TYPE_CHECKING, Annotated, Any, Self

import numpy as np
import pyarrow.compute as pc
import pyarrow.parquet as pq
import typer

from keymark.counts import count
from keymark.datasets.errors import DatasetError
from keymark.datasets.generate.digest import RowsDigest, check_columns
from keymark.datasets.generate.files import Round
from keymark.datasets.generate.generated import GeneratedDataset
from keymark.datasets.specs.spec import DatasetSpec, load_spec
from keymark.terminal import InterruptionError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

app = typer.Typer(no_args_is_help=True, help="Generate rows, and tell what a table must hold.")

_QUIET_S = 2.0
_EVERY_S = 1.0

Spec = Annotated[
    str, typer.Argument(help="Built in (trips, events, customers, iot, wide) or a TOML file.")
]
Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="rows, seed, partitions (never changes the rows), round (0: the first load; n: the "
        "updates and inserts of round n), columns (A,B,...), or any other key of the dataset.",
    ),
]
Master = Annotated[str | None, typer.Option(metavar="URL", help="Spark master.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]
Out = Annotated[
    Path | None, typer.Option(help="New or empty folder; runs/data/<name>-... by default.")
]


class _Progress:
    """Rows done, as a line on standard error each second once it takes two.

    Attributes:
        total: rows to be done.
    """

    def __init__(self, verb: str) -> None:
        self.total = 0
        self._verb = verb
        self._done = 0
        self._begin = time.monotonic()
        self._next = self._begin + _QUIET_S
        self._lock = Lock()

    def advance(self, rows: int) -> None:
        """Count rows as done, from any thread."""
        with self._lock:
            self._done += rows
            now = time.monotonic()
            # A range without rows may be the first that is done.
            if now < self._next or not self._done:
                return
            self._next = now + _EVERY_S
            left = (self.total - self._done) * (now - self._begin) / self._done
            print(
                f"{self._done:,} of {self.total:,} rows {self._verb}, {left:,.0f} s left",
                file=sys.stderr,
                flush=True,
            )


class _Passes:
    """What Spark is at, as a line on standard error each second once it takes two."""

    def __init__(self) -> None:
        self._begin = time.monotonic()
        self._what = "starting Spark"
        self._spark: SparkSession | None = None
        self._done = Event()
        self._thread = Thread(target=self._tell, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()

    def watch(self, spark: SparkSession) -> None:
        """Tell of the tasks of a session from now on."""
        self._spark = spark

    def begin(self, what: str) -> None:
        """The next thing has begun."""
        self._what = what

    def _tell(self) -> None:
        pause = _QUIET_S
        while not self._done.wait(pause):
            pause = _EVERY_S
            seconds = time.monotonic() - self._begin
            print(f"{self._what}{self._tasks()}, {seconds:,.0f} s", file=sys.stderr, flush=True)

    def _tasks(self) -> str:
        if self._spark is None:
            return ""
        tracker = self._spark.sparkContext.statusTracker()
        stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
        done = sum(stage.numCompletedTasks for stage in stages if stage)
        tasks = sum(stage.numTasks for stage in stages if stage)
        return f": {done:,} of {tasks:,} tasks" if tasks else ""


@dataclass(frozen=True, kw_only=True)
class _Request:
    """What the settings ask for."""

    spec: DatasetSpec
    dataset: GeneratedDataset
    rows: Round
    progress: _Progress
    partitions: int

    def made(self, master: str | None, out: Path | None = None) -> RowsDigest:
        """Make the rows by threads, or by Spark's tasks where there is a master; their digest.

        Without a number of partitions there is one for each core.
        """
        if master is None:
            return self.rows.digest() if out is None else self.rows.write(out)
        from keymark.datasets.generate.in_tasks import made_in_tasks  # noqa: PLC0415 - Spark is needed here only
        from keymark.table.runtime.spark import session  # noqa: PLC0415

        with _Passes() as passes:
            spark = session(master, {})
            passes.watch(spark)
            passes.begin("making the rows")
            partitions = self.partitions or spark.sparkContext.defaultParallelism
            return made_in_tasks(spark, replace(self.rows, partitions=partitions), out)


@app.command()
def describe(spec: Spec, settings: Settings = None, as_json: AsJson = False) -> None:
    """Show the columns, sizes and changes of a dataset."""
    request = _request(spec, settings or ())
    kinds = dict(request.spec.flat_columns())
    stream = request.dataset.stream
    answer: dict[str, Any] = {
        "name": request.spec.name,
        "rows": request.spec.rows,
        "seed": request.spec.seed,
        "record_key": list(request.spec.record_key),
        "partition_path": list(request.spec.partition_path),
        "ordering": request.spec.ordering,
        "date_partitions": request.spec.date_partitions,
        "payload_bytes": request.spec.shape.payload_bytes,
        "record_bytes": round(request.spec.row_bytes),
        "updates": stream.updates,
        "inserts": stream.inserts,
        "deletes": stream.deletes,
        "update_choice": request.spec.update_choice.kind,
        "moves": stream.moves,
        "late": stream.late,
        "duplicates": stream.duplicates,
        "repeats": stream.repeats,
        "schema": [
            {"name": name, "type": kinds[name].spark_type} for name in request.dataset.columns
        ],
    }
    if as_json:
        print(json.dumps(answer))
        return
    columns = answer.pop("schema")
    _print_fields(answer)
    print("schema")
    for column in columns:
        print(f"  {column['name']:20} {column['type']}")


@app.command()
def write(
    spec: Spec,
    settings: Settings = None,
    out: Out = None,
    master: Master = None,
    as_json: AsJson = False,
) -> None:
    """Write the rows of a round as Parquet files, one per partition.

    With --master, executors write: they must reach the folder by the same path.
    """
    request = _request(spec, settings or (), "written")
    name = f"{request.spec.name}-{request.spec.rows}-{request.spec.seed}-round{request.rows.number}"
    folder = out or Path("runs") / "data" / name
    request.progress.total = request.rows.rows
    try:
        digest = request.made(master, folder)
    except KeyboardInterrupt as stop:
        kept = f"{folder} holds a part of the rows; delete it to write them again"
        raise InterruptionError(kept) from stop
    files = sorted(folder.glob("*.parquet"))
    _answer(
        {
            "rows": digest.rows,
            "files": len(files),
            "bytes": sum(file.stat().st_size for file in files),
            "digest": digest.hex,
            "out": str(folder),
        },
        as_json=as_json,
    )


@app.command()
def digest(
    spec: Spec, settings: Settings = None, master: Master = None, as_json: AsJson = False
) -> None:
    """Compute the digest of the rows of a round, and of a table that has had all rounds up to it.

    The second is `table_rows` and `table_digest`; for round 0 both are the same.
    """
    request = _request(spec, settings or (), "digested")
    dataset, round_ = request.dataset, request.rows.number
    request.progress.total = request.rows.rows + (dataset.truth_cost(round_) if round_ else 0)
    found = request.made(master)
    table = dataset.truth(round_, deleted=False) if round_ else found.truth
    _answer(
        {
            "rows": found.rows,
            "digest": found.hex,
            "table_rows": table.rows,
            "table_digest": table.digest,
        },
        as_json=as_json,
    )


@app.command()
def keys(
    spec: Spec,
    out: Annotated[Path, typer.Option(help="New Parquet file.")],
    settings: Settings = None,
    present: Annotated[int, typer.Option(min=0, help="Keys that the table has.")] = 1000,
    moved: Annotated[int, typer.Option(min=0, help="Of these, keys that moved.")] = 0,
    absent: Annotated[int, typer.Option(min=0, help="Keys that it does not have.")] = 0,
    deleted: Annotated[
        bool, typer.Option("--deleted", help="Take deleted keys for half of the absent ones.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Write a list of keys, as they are after a round: to look up, to delete, to purge.

    The file has the key columns, as `table lookup|delete|purge --keys` take them, and says for
    each key whether the table has it (`expect_present`).
    """
    request = _request(spec, settings or ())
    if out.exists():
        raise DatasetError(f"{out} exists already")
    found = request.dataset.sample_keys(
        request.rows.number, present=present, absent=absent, deleted=deleted, moved=moved
    )
    pq.write_table(found, out)
    there = int(pc.sum(found["expect_present"]).as_py() or 0)
    _answer(
        {"keys": len(found), "present": there, "absent": len(found) - there, "out": str(out)},
        as_json=as_json,
    )


@app.command()
def history(
    spec: Spec,
    row: Annotated[list[int], typer.Option("--row", min=0, help="A row's number; repeat it.")],
    settings: Settings = None,
    as_json: AsJson = False,
) -> None:
    """Tell when rows came, changed and went up to a round, and their last values."""
    request = _request(spec, settings or ())
    found = request.dataset.history(np.array(row, np.int64), request.rows.number)
    answer = [
        {"row": number, "changed_in": changes, "deleted_in": deleted, "value": value}
        for number, changes, deleted, value in zip(
            row, found.changes, found.deleted, found.rows.to_pylist(), strict=True
        )
    ]
    if as_json:
        print(json.dumps(answer, default=str))
        return
    for each in answer:
        value = each.pop("value")
        _print_fields(each)
        _print_fields({f"  {name}": of_column for name, of_column in value.items()})


@app.command()
def profile(
    source: Annotated[str, typer.Argument(help="Folder, file or URL of a table that Spark reads.")],
    key: Annotated[str, typer.Option("--key", metavar="A,B", help="Key columns.")],
    partition: Annotated[
        str, typer.Option("--partition", metavar="C,D", help="Partition columns.")
    ] = "",
    ordering: Annotated[str | None, typer.Option(metavar="O", help="Ordering column.")] = None,
    format_: Annotated[
        str | None,
        typer.Option("--format", help="parquet, csv, hudi, iceberg or delta; guessed by default."),
    ] = None,
    option: Annotated[
        list[str] | None, typer.Option(metavar="K=V", help="An option of Spark's reader.")
    ] = None,
    conf: Annotated[
        list[str] | None,
        typer.Option(metavar="K=V", help="A Spark option, such as spark.jars=FILE,..."),
    ] = None,
    master: Master = None,
    sample: Annotated[
        int, typer.Option(min=100, max=1_000_000, help="Keys that are looked at one by one.")
    ] = 20_000,
    keep_prefix: Annotated[
        bool, typer.Option("--keep-prefix", help="Keep the text before the numbers of all keys.")
    ] = False,
    out: Annotated[Path | None, typer.Option(help="New TOML file for the look-alike.")] = None,
    as_json: AsJson = False,
) -> None:
    """Profile the keys of a table into a specification that makes look-alikes without its data.

    The file holds shapes, lengths and sizes, no value of the table; a prefix only if it is kept.
    """
    from keymark.datasets.profiles import folders  # noqa: PLC0415 - of this command only
    from keymark.datasets.profiles import profile as profiles  # noqa: PLC0415
    from keymark.datasets.profiles.look_alike import look_alike  # noqa: PLC0415
    from keymark.table.runtime.spark import session  # noqa: PLC0415
    from keymark.table.storage.stores import storage_at  # noqa: PLC0415

    if out is not None and (out.exists() or not out.parent.is_dir()):
        raise DatasetError(f"{out} exists already, or its folder does not exist")
    if format_ is None and "://" in source:
        format_ = folders.format_on_store(source, storage_at(source, {}))
    format_ = format_ or folders.format_of(source)
    request = profiles.ProfileRequest(
        name=Path(source).resolve().stem if out is None else out.stem,
        record_key=_names(key),
        partition_path=_names(partition),
        ordering=ordering,
        sample=sample,
    )
    named = (*request.record_key, *request.partition_path, *filter(None, [ordering]))
    _check_named(source, format_, named, _pairs(option))
    with _Passes() as passes:
        spark = session(master, folders.session_conf(format_, _pairs(conf)))
        df = _opened(spark, source, format_, key=request.record_key, options=_pairs(option))
        passes.watch(df.sparkSession)
        with folders.reading(source, format_):
            found = profiles.profile(df, request, passes.begin)
    alike = look_alike(found, keep_prefix=keep_prefix)
    answer = profiles.described(found) | {"spec": alike.settings, "notes": list(alike.notes)}
    if out is not None:
        out.write_text(alike.toml, encoding="utf-8")
        answer["out"] = str(out)
    if as_json:
        print(json.dumps(answer))
        return
    _print_profile(answer)
    if out is None:
        print(f"\n{alike.toml}", end="")


def _print_profile(answer: dict[str, Any]) -> None:
    """The fields of a profile, those of key columns and partitions a line each."""
    nested = {name: answer.pop(name) for name in ("key", "partitions", "spec") if name in answer}
    for column in nested["key"]:
        print(f"key {column['column']}")
        _print_fields({f"  {name}": value for name, value in column.items() if name != "column"})
    if "partitions" in nested:
        print("partitions")
        _print_fields({f"  {name}": value for name, value in nested["partitions"].items()})
    _print_fields(answer)


def _check_named(
    source: str, format_: str, names: Sequence[str], options: Mapping[str, str]
) -> None:
    """Check before Spark starts that a table has columns; those of Hudi's by its timeline."""
    from keymark.datasets.profiles import folders  # noqa: PLC0415

    if format_ != "hudi":
        folders.check_named(source, format_, names, options)
        return
    from keymark.table.read import later_versions  # noqa: PLC0415
    from keymark.table.state.table_state import columns_of  # noqa: PLC0415
    from keymark.table.storage.stores import storage_at  # noqa: PLC0415

    storage = storage_at(source, {})
    if later_versions.is_later(storage):
        check_columns(names, later_versions.columns(storage))
    else:
        check_columns(names, columns_of(storage).names)


def _opened(
    spark: SparkSession, source: str, format_: str, *, key: tuple[str, ...], options: dict[str, str]
) -> DataFrame:
    """The rows of a table; those of Hudi's tables through our own readers."""
    from keymark.datasets.profiles import folders  # noqa: PLC0415

    if format_ == "hudi":
        from keymark import Table  # noqa: PLC0415
        from keymark.table.read import later_versions  # noqa: PLC0415
        from keymark.table.storage.stores import storage_at  # noqa: PLC0415

        storage = storage_at(source, {})
        if later_versions.is_later(storage):
            return later_versions.read(spark, storage)
        rows: DataFrame = Table.open(source, spark=spark).read()
        return rows
    return folders.read(spark, source, format=format_, options=options, texts=key)


def _names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name.strip())


def _pairs(texts: Sequence[str] | None) -> dict[str, str]:
    """Options given as key=value."""
    wrong = [text for text in texts or () if "=" not in text]
    if wrong:
        raise DatasetError(f"{', '.join(wrong)}: write key=value")
    return dict(text.split("=", 1) for text in texts or ())


def _request(spec: str, settings: Sequence[str], verb: str = "") -> _Request:
    """Read the settings; all mistakes are in the one error."""
    problems = [f"--set {text}: write key=value" for text in settings if "=" not in text]
    given = dict(text.split("=", 1) for text in settings if "=" in text)
    round_ = _whole(given.pop("round", "0"), "round", problems)
    partitions = _whole(given.pop("partitions", "0"), "partitions", problems)
    names = given.pop("columns", None)
    try:
        loaded = load_spec(spec, given)
    except DatasetError as error:
        raise DatasetError("; ".join([*problems, str(error)])) from error
    if problems:
        raise DatasetError(f"{spec}: {'; '.join(problems)}")
    progress = _Progress(verb)
    dataset = GeneratedDataset(
        loaded,
        columns=[name.strip() for name in names.split(",")] if names else None,
        advance=progress.advance,
    )
    rows = Round(
        dataset=dataset,
        number=round_,
        partitions=partitions or os.cpu_count() or 1,
        advance=progress.advance,
    )
    return _Request(
        spec=loaded, dataset=dataset, rows=rows, progress=progress, partitions=partitions
    )


def _whole(text: str, key: str, problems: list[str]) -> int:
    number = count(text)
    if number is not None:
        return number
    problems.append(f"{key}: {text!r} is not a whole number")
    return 0


def _answer(answer: Mapping[str, object], *, as_json: bool) -> None:
    if as_json:
        print(json.dumps(answer))
    else:
        _print_fields(answer)


def _print_fields(answer: Mapping[str, object]) -> None:
    for key, value in answer.items():
        print(f"{key:16} {_shown(value)}")


def _shown(value: object) -> object:
    if isinstance(value, dict):
        return ", ".join(f"{key} {_shown(inner)}" for key, inner in value.items())
    return ", ".join(map(str, value)) if isinstance(value, list) else value
