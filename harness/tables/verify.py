"""Is a step's result right? Answered off the clock, against what the step did not compute.

Rows are compared with the dataset's truth (row count and order-free digest), locations with an
independent reading of the storage. A verdict is the reason why a result is wrong, or None.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from keymark.harness.engines.base import IndexCheck, UsedIndex

LARGE_ROWS = 1_000_000
"""A table that is loaded with more rows is not read whole after each step; see `is_whole`."""


def is_whole(loaded_rows: int, *, once: bool) -> bool:
    """Whether a step is verified by reading the whole table, and its record index with it.

    After a step on a larger table the files that it wrote are read, and the others are proven
    unchanged (`readings`). The cell's engine reads it whole once.

    Args:
        loaded_rows: rows that the table was loaded with.
        once: whether it is the step after which a large table is read whole.
    """
    return once or loaded_rows <= LARGE_ROWS


def rows_mistake(found: tuple[int, str], expected: tuple[int, str]) -> str | None:
    """Compare (rows, digest) of the table with the truth."""
    if found[0] != expected[0]:
        return f"the table holds {found[0]} rows instead of {expected[0]}"
    if found[1] != expected[1]:
        return f"the rows have digest {found[1]} instead of {expected[1]}"
    return None


def index_mistake(info: UsedIndex, index: str) -> str | None:
    """Proof that the index under test is the one that the table uses."""
    if info.index == index:
        return None
    return f"the table uses index {info.index!r} instead of {index!r}"


def check_mistake(answer: IndexCheck) -> str | None:
    """The table's own comparison of its record index with its data."""
    if answer.ok:
        return None
    counts = (
        f"{answer.missing} missing, {answer.extra} extra, {answer.wrong} wrong, "
        f"{answer.duplicate} duplicate"
    )
    return f"the record index disagrees with the data: {counts}"


def lookup_mistake(answer: pa.Table, *, asked: pa.Table, located: pa.Table) -> str | None:
    """Compare a lookup's answer with where an independent reading found the keys.

    Args:
        answer: record_key, partition_path, file_id; one line per asked key, in order.
        asked: record_key (string), expect_present (bool).
        located: record_key, partition_path, file_id of every live row.
    """
    keys = asked.column("record_key").combine_chunks()
    if answer.num_rows != len(keys):
        return f"lookup answered {answer.num_rows} of {len(keys)} keys"
    wrong = _unequal(answer.column("record_key"), keys)
    if wrong.any():
        first = _first(wrong)
        answered, given = answer.column("record_key")[first].as_py(), keys[first].as_py()
        return f"lookup answered for other keys than asked, first {answered!r} for {given!r}"
    places = pc.index_in(keys, located.column("record_key").combine_chunks())
    present = _flags(pc.is_valid(places))
    unexpected = present != _flags(asked.column("expect_present"))
    if unexpected.any():
        held = "there" if present[_first(unexpected)] else "missing"
        return (
            f"{_example(keys, unexpected)}: {held} in the data files, against the dataset's truth"
        )
    answered = _flags(pc.is_valid(answer.column("file_id")))
    if (answered != present).any():
        missed, invented = int((present & ~answered).sum()), int((answered & ~present).sum())
        first = keys[_first(answered != present)].as_py()
        return (
            f"lookup missed {missed} keys and found {invented} that are not there, first {first!r}"
        )
    for name in ("partition_path", "file_id"):
        expected = pc.take(located.column(name), places)
        wrong = _unequal(answer.column(name), expected)
        if wrong.any():
            first = _first(wrong)
            found, right = answer.column(name)[first].as_py(), expected[first].as_py()
            return f"{_example(keys, wrong)}: wrong {name}, {found!r} instead of {right!r}"
    return None


def point_mistake(
    rows: Sequence[Mapping[str, object]], expected: Sequence[Mapping[str, object]]
) -> str | None:
    """A point query gives exactly the rows that an independent reading has for the key."""
    if len(rows) != len(expected):
        return f"the point query found {len(rows)} rows instead of {len(expected)}"
    columns = expected[0].keys() if expected else ()
    for row, other in zip(rows, expected, strict=True):
        wrong = [name for name in columns if row.get(name) != other[name]]
        if wrong:
            values = (f"{name}: {row.get(name)!r}, not {other[name]!r}" for name in wrong)
            return f"the point query's row differs in {', '.join(values)}"
    return None


def query_mistake(
    rows: Sequence[Mapping[str, object]],
    expected: Sequence[Mapping[str, object]],
    columns: Sequence[str],
) -> str | None:
    """A query gives exactly the rows that an independent reading has, in any order."""
    found, right = (
        Counter(tuple(row.get(name) for name in columns) for row in part)
        for part in (rows, expected)
    )
    missed, invented = (right - found).total(), (found - right).total()
    if missed or invented:
        return f"the query missed {missed} rows of {len(expected)} and gave {invented} others"
    return None


def _flags(values: pa.Array | pa.ChunkedArray) -> npt.NDArray[np.bool_]:
    return np.asarray(values.to_numpy(zero_copy_only=False), dtype=np.bool_)


def _unequal(
    left: pa.Array | pa.ChunkedArray, right: pa.Array | pa.ChunkedArray
) -> npt.NDArray[np.bool_]:
    """Where two string columns differ; null equals null."""
    a, b = _array(left), _array(right)
    same = pc.fill_null(pc.equal(a, b), fill_value=False)
    both_null = pc.and_(pc.is_null(a), pc.is_null(b))
    return ~_flags(pc.or_(same, both_null))


def _array(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    column = column.cast(pa.string())
    return pa.concat_arrays(column.chunks) if isinstance(column, pa.ChunkedArray) else column


def _first(flags: npt.NDArray[np.bool_]) -> int:
    return int(flags.argmax())


def _example(keys: pa.Array, wrong: npt.NDArray[np.bool_]) -> str:
    return f"{int(wrong.sum())} keys, first {keys[_first(wrong)].as_py()!r}"
