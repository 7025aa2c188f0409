"""`run_bench.py data`: describe a dataset, write its rows, or compute their digest."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Sequence
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
            if now < self._next:
                return
            self._next = now + _EVERY_S
            left = (self.total - self._done) * (now - self._begin) / self._done
            print(
                f"{self._done:,} of {self.total:,} rows {self._verb}, {left:,.0f} s left",
                file=sys.stderr,
                flush=True,
            )


@dataclass(frozen=True, kw_only=True)
class _Request:
    """What the settings ask for."""

    spec: DatasetSpec
    dataset: GeneratedDataset
    rows: Round
    progress: _Progress


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
    asked = _request(spec, settings or (), "written")
    name = f"{asked.spec.name}-{asked.spec.rows}-{asked.spec.seed}-round{asked.rows.number}"
    folder = out or Path("runs") / "data" / name
    asked.progress.total = asked.rows.rows
    digest = asked.rows.write(folder)
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
    asked = _request(spec, settings or (), "digested")
    dataset, round_ = asked.dataset, asked.rows.number
    asked.progress.total = asked.rows.rows + (dataset.truth_cost(round_) if round_ else 0)
    found = asked.rows.digest()
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
    return _Request(spec=loaded, dataset=dataset, rows=rows, progress=progress)


def _whole(text: str, key: str, problems: list[str]) -> int:
    if text.isdecimal() and text.isascii():
        return int(text)
    problems.append(f"{key}: {text!r} is not a whole number")
    return 0


def _answer(answer: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        print(json.dumps(answer))
    else:
        _print_fields(answer)


def _print_fields(answer: dict[str, Any]) -> None:
    for key, value in answer.items():
        shown = ", ".join(value) if isinstance(value, list) else value
        print(f"{key:16} {shown}")
