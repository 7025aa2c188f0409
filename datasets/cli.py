"""`run_bench.py data`: describe a dataset, write its rows, or compute their digest."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Annotated, Any

import typer

from datasets.errors import DatasetError
from datasets.files import Round
from datasets.generated import GeneratedDataset
from datasets.spec import DatasetSpec, load_spec

app = typer.Typer(no_args_is_help=True, help="Rows from a seed, and the truth about them.")

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
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]
Out = Annotated[
    Path | None, typer.Option(help="New or empty folder; runs/data/<name>-... by default.")
]


@dataclass(frozen=True)
class _Request:
    """What the settings ask for."""

    spec: DatasetSpec
    dataset: GeneratedDataset
    round: int
    partitions: int


@app.command()
def describe(spec: Spec, settings: Settings = None, as_json: AsJson = False) -> None:
    """Show the columns, sizes and changes of a dataset."""
    asked = _request(spec, settings or ())
    kinds = dict(asked.spec.flat_columns())
    stream = asked.dataset.stream
    answer: dict[str, Any] = {
        "name": asked.spec.name,
        "rows": asked.spec.rows,
        "seed": asked.spec.seed,
        "record_key": list(asked.spec.record_key),
        "partition_path": list(asked.spec.partition_path),
        "ordering": asked.spec.ordering,
        "date_partitions": asked.spec.date_partitions,
        "payload_bytes": asked.spec.payload_bytes,
        "updates": stream.updates,
        "inserts": stream.inserts,
        "deletes": stream.deletes,
        "schema": [
            {"name": name, "type": kinds[name].spark_type} for name in asked.dataset.columns
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
def write(spec: Spec, settings: Settings = None, out: Out = None, as_json: AsJson = False) -> None:
    """Write the rows of a round as Parquet files, one per partition."""
    asked = _request(spec, settings or ())
    name = f"{asked.spec.name}-{asked.spec.rows}-{asked.spec.seed}-round{asked.round}"
    folder = out or Path("runs") / "data" / name
    with _progress(asked, "written") as rows:
        digest = rows.write(folder)
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
def digest(spec: Spec, settings: Settings = None, as_json: AsJson = False) -> None:
    """Compute the digest of the rows of a round, and of a table that has had all rounds up to it.

    The second is `table_rows` and `table_digest`; for round 0 both are the same.
    """
    asked = _request(spec, settings or ())
    with _progress(asked, "digested") as rows:
        found = rows.digest()
    table = asked.dataset.truth(asked.round, deleted=False) if asked.round else found.truth
    _answer(
        {
            "rows": found.rows,
            "digest": found.hex,
            "table_rows": table.rows,
            "table_digest": table.digest,
        },
        as_json=as_json,
    )


def _request(spec: str, settings: Sequence[str]) -> _Request:
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
    columns = [name.strip() for name in names.split(",")] if names else None
    dataset = GeneratedDataset(loaded, partitions=partitions, columns=columns)
    return _Request(loaded, dataset, round_, partitions)


def _whole(text: str, key: str, problems: list[str]) -> int:
    if text.isdecimal() and text.isascii():
        return int(text)
    problems.append(f"{key}: {text!r} is not a whole number")
    return 0


@contextmanager
def _progress(asked: _Request, verb: str) -> Iterator[Round]:
    """The rows to be made, with their progress on standard error once it takes two seconds."""
    begin = time.monotonic()
    done, shown, lock = 0, begin + _QUIET_S - _EVERY_S, Lock()

    def advance(rows: int) -> None:
        nonlocal done, shown
        with lock:
            done += rows
            now = time.monotonic()
            if now - shown < _EVERY_S:
                return
            shown = now
            left = (total - done) * (now - begin) / done
            print(
                f"{asked.spec.name}: {done:,} of {total:,} rows {verb}, {left:,.0f} s left",
                file=sys.stderr,
                flush=True,
            )

    partitions = asked.partitions or os.cpu_count() or 1
    rows = Round(dataset=asked.dataset, number=asked.round, partitions=partitions, advance=advance)
    total = rows.rows
    yield rows


def _answer(answer: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        print(json.dumps(answer))
    else:
        _print_fields(answer)


def _print_fields(answer: dict[str, Any]) -> None:
    for key, value in answer.items():
        shown = ", ".join(value) if isinstance(value, list) else value
        print(f"{key:16} {shown}")
