"""Generated keys, for tables without key fields: `<instant>_<task>_<row>`.

A row gets its key once, when it is inserted, and the key is stored with it: to write the row back,
or to delete it, name it by `_hoodie_record_key`. A write that is done again after a failure has
another instant, and what it generated before is gone with the failure.
Source: AutoRecordGenWrapperKeyGenerator of Hudi 0.15, HoodieRecord.generateSequenceId.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc


def auto_keys(instant: str, task: int, first: int, count: int) -> pa.Array:
    """Keys of the rows `first` to `first + count` that a task inserts."""
    rows = pa.array(np.arange(first, first + count)).cast(pa.string())
    return pc.binary_join_element_wise(f"{instant}_{task}", rows, "_")
