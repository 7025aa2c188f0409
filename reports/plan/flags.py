"""The options of the command `plan`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from keymark import counts


def count(text: str) -> int:
    """A number of rows, at least 1, as `keymark.counts` reads it."""
    number = counts.count(text)
    if not number:
        raise typer.BadParameter(f"{text!r} is no number of rows, such as 5000000, 5e6, 5M or 2B")
    return number


Engine = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="engine that the predictions are about, such as native or hudi@1.2.0; "
        "default: Hudi's newest calibrated release",
    ),
]
Records = Annotated[int | None, typer.Option(parser=count, metavar="N", help="rows of the table")]
Batch = Annotated[
    int | None, typer.Option(parser=count, metavar="N", help="keys of a change batch")
]
Partitions = Annotated[int, typer.Option(min=1, help="partition paths of the table")]
Executors = Annotated[int, typer.Option(min=1, help="executors of the writer")]
Cores = Annotated[
    int | None, typer.Option(min=1, help="cores of an executor; default: the calibration's")
]
Files = Annotated[int | None, typer.Option(min=1, help="base files; default: as few as Hudi makes")]
Shards = Annotated[
    int | None, typer.Option(min=1, help="file groups of a record index; default: the best")
]
Buckets = Annotated[
    int | None, typer.Option(min=1, help="buckets of a partition; default: its files")
]
RowBytes = Annotated[
    float | None, typer.Option(min=1, help="of a stored row; default: the calibration's")
]
KeyBytes = Annotated[
    float | None, typer.Option(min=1, help="of a record key; default: the calibration's")
]
NewShare = Annotated[float, typer.Option(min=0, max=1, help="share of a batch whose keys are new")]
Ordered = Annotated[bool, typer.Option(help="keys grow with time")]
KeysStay = Annotated[
    bool,
    typer.Option(help="a key never changes its partition: simple, bloom, bucket count too"),
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
Prices = Annotated[Path | None, typer.Option(help="price file (TOML)")]
Score = Annotated[
    list[str] | None,
    typer.Option(
        metavar="RUN", help="compare predictions with this run, a path or URL; repeatable"
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
Save = Annotated[Path | None, typer.Option(help="keep the fit of --calibration here")]
Html = Annotated[Path | None, typer.Option(help="write a page with charts to this file")]
AsJson = Annotated[bool, typer.Option("--json", help="print one JSON document")]
