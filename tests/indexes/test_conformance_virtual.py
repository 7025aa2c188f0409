"""Every index passes the suite of conformance.py on tables that store no keys.

Keys are those that the model spells from the rows, places those of the files that rows are in.
"""

from __future__ import annotations

from dataclasses import replace

import pyarrow.parquet as pq
import pytest
from conformance import SHAPES, History, values
from test_conformance import INDEXES, finders, play

from keymark.table.properties.options import META_FIELDS

pytestmark = pytest.mark.filterwarnings("ignore:keys of column id hold a colon")

STEPS = 5
CASES = [(index, SHAPES[n % len(SHAPES)], n) for n, index in enumerate(INDEXES)]


class MadeKeys(History):
    """A history whose rows do not say their keys."""

    def read(self):
        """(record key, file, row) of the rows read back."""
        plan = self.table.scan()
        for file, part in zip(plan.files, plan.tables(), strict=True):
            for row in part.to_pylist():
                assert row["_hoodie_record_key"] is None
                yield self.model.rules.key(row), file, row

    def stored(self):
        return sorted((key, file.partition_path, values(row)) for key, file, row in self.read())

    def truth(self):
        places = {}
        for key, file, _ in self.read():
            places.setdefault(key, []).append((file.partition_path, file.file_id))
        return {key: sorted(found) for key, found in places.items()}


def virtual(shape):
    """The shape without stored keys, and without nulls in them, which virtual keys refuse."""
    pools = {
        name: (kind, tuple(value for value in pool if value is not None))
        for name, (kind, pool) in shape.columns.items()
    }
    return replace(shape, columns=pools, options={**shape.options, META_FIELDS: "false"})


@pytest.mark.parametrize(
    ("index", "shape", "seed"),
    [pytest.param(*case, id=f"{case[0]}-{case[1].name}-{case[2]}") for case in CASES],
)
def test_history_without_stored_keys(tmp_path, index, shape, seed):
    history = MadeKeys.start(tmp_path / "t", index, virtual(shape), seed=seed)
    play(history, finders(index), STEPS)
    for path in (tmp_path / "t").rglob("*.parquet"):
        if ".hoodie" not in path.parts:
            stored = pq.ParquetFile(path).read(["_hoodie_record_key"])
            assert stored["_hoodie_record_key"].null_count == stored.num_rows
