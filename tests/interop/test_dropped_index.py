"""What happens to a user who writes with Hudi and does not repeat the metadata options."""

from __future__ import annotations

import pytest
from hudi_judge import findings, metadata_partitions, options_without_index
from interop_cells import Cell, Ledger

from keymark import Table
from keymark.table.errors import IndexUnavailableError

CELL = Cell("record", "simple", "maintained", "delete")


@pytest.mark.spark
@pytest.mark.slow
def test_hudi_drops_the_index_of_a_user_who_does_not_ask_for_it(hudi, tmp_path):
    root = tmp_path / "t"
    ledger = Ledger(CELL)
    table = CELL.create(root)
    table.bulk_insert(ledger.put(range(40), 1))
    rows = ledger.put(range(30, 50), 2)
    hudi.write(root, rows, "upsert", options_without_index(hudi, root))
    assert "record_index" not in metadata_partitions(root)
    assert not (root / ".hoodie/metadata/record_index").exists()
    # The rows are safe; only what finds them is gone.
    assert findings(hudi, root, ledger.wanted()) == []
    left = Table.open(str(root), options=CELL.options)
    with pytest.raises(IndexUnavailableError, match="table index build"):
        left.upsert(ledger.put(range(5), 3))
    assert left.build_index("record_index")
    left.upsert(ledger.put(range(5), 3))
    assert left.check().ok
    assert findings(hudi, root, ledger.wanted()) == []
