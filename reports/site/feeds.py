"""All samples of all published runs as files for programs: CSV and Parquet."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import csv

from keymark.harness.store.results import Sample

CSV, PARQUET = "samples.csv", "samples.parquet"

# By the words of the annotations, which name what a line is checked for.
_TYPES = {"StrictInt": pa.int64(), "StrictBool": pa.bool_(), "Number": pa.float64()}
_SCHEMA = pa.schema(
    [(each.name, _TYPES.get(str(each.type), pa.string())) for each in fields(Sample)]
)


def write_feeds(out: Path, folders: Sequence[Path]) -> None:
    """Put the samples of all runs into one file of each kind, run by run.

    Args:
        out: the folder of the site.
        folders: of the runs in it, each with its `samples.csv`.

    Raises:
        OSError: a file cannot be written.
    """
    options = csv.ConvertOptions(column_types=_SCHEMA)
    with (
        (out / CSV).open("w", encoding="utf-8", newline="") as target,
        pq.ParquetWriter(out / PARQUET, _SCHEMA) as parquet,
    ):
        target.write(",".join(_SCHEMA.names) + "\n")
        for folder in folders:
            text = (folder / CSV).read_text(encoding="utf-8")
            target.write(text.partition("\n")[2])
            parquet.write_table(csv.read_csv(folder / CSV, convert_options=options))
