"""What is left of taken-back commits after a power cut."""

from __future__ import annotations

import pytest
from table_cases import create, files_stored, rows

from keymark import Table
from keymark.table.layout.naming import TEMP


@pytest.mark.parametrize("way", ["rollback", "restore"])
def test_markers_that_a_power_cut_left_empty_hide_no_files(tmp_path, way):
    """Markers are not synced: their folder may come back without them."""
    table = create(tmp_path / "t")
    saved = table.upsert(rows([1, 2])).instant
    if way == "restore":
        table.savepoint()
    before = files_stored(tmp_path / "t")
    taken = table.upsert(rows([1, 3], ts=2)).instant
    (tmp_path / "t" / TEMP / taken).mkdir(parents=True)
    getattr(table, way)({"rollback": taken, "restore": saved}[way])
    assert files_stored(tmp_path / "t") == before
    assert Table.open(str(tmp_path / "t")).check().ok
