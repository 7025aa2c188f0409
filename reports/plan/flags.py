"""The options of the command `plan`."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated

import typer

from keymark import counts
from keymark.reports.plan import price_list
from keymark.reports.plan.latency import STORES
from keymark.reports.plan.spans import Span, read_span

ONE, TEN, HALF = Span.of(1), Span.of(10), Span.of(0.5)
"""Defaults."""

_ROWS = "number of rows, such as 5000000, 5e6, 5M or 2B"
_WHOLE = "whole number of at least 1"


def count(text: str) -> int:
    """A number of rows, at least 1, as `keymark.counts` reads it."""
    number = counts.count(text)
    if not number:
        raise typer.BadParameter(f"{text!r} is no {_ROWS}")
    return number


def rows(text: str | Span) -> Span:
    """A number of rows, or a range of them."""
    return read_span(text, _whole, _ROWS)


def whole(text: str | Span) -> Span:
    """A whole number of at least 1, or a range of them."""
    return read_span(text, _whole, _WHOLE)


def size(text: str | Span) -> Span:
    """A number of bytes, at least 1, or a range of them."""
    return read_span(text, _size, "number of bytes, such as 500")


def share(text: str | Span) -> Span:
    """A share, or a range of shares."""
    return read_span(text, _share, "share between 0 and 1")


def store(text: str) -> str:
    """The scheme of a store, or of the URL of a folder on one."""
    scheme = text.partition("://")[0].lower()
    if text and scheme not in STORES:
        raise typer.BadParameter(f"{text!r} is none of the stores {', '.join(STORES)}")
    return scheme


def _whole(text: str) -> float | None:
    return counts.count(text) or None


def _size(text: str) -> float | None:
    number = _number(text)
    return number if number is not None and number >= 1 else None


def _share(text: str) -> float | None:
    number = _number(text)
    return number if number is not None and 0 <= number <= 1 else None


def _number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) else None


Engine = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="engine that the predictions are about, such as native or hudi@1.2.0; "
        "default: Hudi's newest calibrated release",
    ),
]
Records = Annotated[
    Span | None,
    typer.Option(parser=rows, metavar="N", help="rows of the table; or a range: 1e9..4e9"),
]
Batch = Annotated[
    Span | None, typer.Option(parser=rows, metavar="N", help="keys of a change batch")
]
Partitions = Annotated[
    Span, typer.Option(parser=whole, metavar="N", help="partition paths of the table")
]
Executors = Annotated[Span, typer.Option(parser=whole, metavar="N", help="executors of the writer")]
Cores = Annotated[
    Span | None,
    typer.Option(
        parser=whole, metavar="N", help="cores of an executor; default: the calibration's"
    ),
]
Files = Annotated[
    Span | None,
    typer.Option(parser=whole, metavar="N", help="base files; default: as few as Hudi makes"),
]
Shards = Annotated[
    int | None, typer.Option(min=1, help="file groups of a record index; default: the best")
]
Buckets = Annotated[
    int | None, typer.Option(min=1, help="buckets of a partition; default: its files")
]
RowBytes = Annotated[
    Span | None,
    typer.Option(
        parser=size, metavar="N", help="bytes of a stored row; default: the calibration's"
    ),
]
KeyBytes = Annotated[
    Span | None,
    typer.Option(
        parser=size, metavar="N", help="bytes of a record key; default: the calibration's"
    ),
]
NewShare = Annotated[
    Span, typer.Option(parser=share, metavar="N", help="share of a batch whose keys are new")
]
Ordered = Annotated[bool, typer.Option(help="keys grow with time")]
KeysStay = Annotated[
    bool,
    typer.Option(help="a key never changes its partition, so local indexes can be recommended"),
]
MergeOnRead = Annotated[
    bool,
    typer.Option(
        help="the table is merge-on-read: only what an index adds to a write is predicted"
    ),
]
Store = Annotated[
    str,
    typer.Option(
        parser=store, metavar="NAME", help="the table is on a store: s3, gs, az, hdfs, ..."
    ),
]
Index = Annotated[list[str] | None, typer.Option(help="index to choose from; repeatable")]
LocalBytes = Annotated[float, typer.Option(min=0, help="the table's option keymark.local.bytes")]
BroadcastBytes = Annotated[
    float, typer.Option(help="spark.sql.autoBroadcastJoinThreshold; -1: none")
]
Calibration = Annotated[
    list[str] | None,
    typer.Option("--calibration", metavar="RUN", help="calibration run, or a saved fit; or a URL"),
]
Prices = Annotated[Path | None, typer.Option(help="price file (TOML): adds the cost of a month")]
Machine = Annotated[
    price_list.Machine | None,
    typer.Option(
        parser=price_list.machine,
        metavar="NAME",
        help="machine type of an executor, such as m5.4xlarge: gives its cores, its memory and its "
        "list price, and adds the cost of a month",
    ),
]
WritesPerDay = Annotated[
    float | None,
    typer.Option(min=0, help="batches written a day, for the cost of a month; with --machine: 24"),
]
Score = Annotated[
    list[str] | None,
    typer.Option(
        metavar="RUN", help="compare predictions with this run, a path or URL; repeatable"
    ),
]
Predictions = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE", help="with --score: score the predictions that --predict has saved here"
    ),
]
Predict = Annotated[
    str | None,
    typer.Option(
        metavar="SCENARIO",
        help="predict all cells of a scenario before it runs; --save keeps them for --score",
    ),
]
FitRows = Annotated[
    int | None,
    typer.Option(
        min=1, help="fit tables up to this size only; --score then takes the run's larger ones"
    ),
]
Constants = Annotated[
    bool, typer.Option("--constants", help="print the calibration's constants with their intervals")
]
Save = Annotated[
    Path | None,
    typer.Option(help="keep the fit of --calibration, or the predictions of --predict, here"),
]
Html = Annotated[Path | None, typer.Option(help="write a page with charts to this file")]
AsJson = Annotated[bool, typer.Option("--json", help="print one JSON document")]
