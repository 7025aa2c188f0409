"""All samples of all published runs as files for programs: CSV and Parquet."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from keymark.harness.store.results import Sample
from keymark.reports.model.projection import Run
from keymark.reports.render import export
from keymark.reports.render.text import clean

CSV, PARQUET = "samples.csv", "samples.parquet"

# By the words of the annotations, which name what a line is checked for.
_TYPES = {"StrictInt": pa.int64(), "StrictBool": pa.bool_(), "Number": pa.float64()}
_SCHEMA = pa.schema(
    [(each.name, _TYPES.get(str(each.type), pa.string())) for each in fields(Sample)]
)


class Feeds:
    """The files of the feeds, written run by run.

    Args:
        out: the folder of the site.
    """

    def __init__(self, out: Path) -> None:
        self._csv = (out / CSV).open("w", encoding="utf-8", newline="")
        self._parquet = pq.ParquetWriter(out / PARQUET, _SCHEMA)
        self._is_begun = False

    def add(self, run: Run) -> None:
        """Add the samples of a run."""
        text = export.samples_csv([run])
        self._csv.write(text.partition("\n")[2] if self._is_begun else text)
        self._is_begun = True
        self._parquet.write_table(_table(run.samples))

    def close(self) -> None:
        """End both files."""
        self._csv.close()
        self._parquet.close()


def _table(samples: Sequence[Sample]) -> pa.Table:
    columns = []
    for field in _SCHEMA:
        values = [getattr(each, field.name) for each in samples]
        if pa.types.is_string(field.type):
            values = [clean(each, 2000) for each in values]
        elif pa.types.is_floating(field.type):
            values = list(map(float, values))
        columns.append(pa.array(values, field.type))
    return pa.table(columns, schema=_SCHEMA)
