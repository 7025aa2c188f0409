"""What a merge notes of indexed values, beside the differences of Python's sets; runs due to merge.

Strategy: random rows of a slice, of which some stay, some are replaced and some go; null, NaN and
repeated values among them.
"""

from __future__ import annotations

import functools

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from keymark.table.layout.model import BaseFile
from keymark.table.values import merges
from keymark.table.values.changes import first_values, value_changes
from keymark.table.values.indexed import Indexed
from keymark.table.values.runs import FilesOfRun

KINDS = {
    "text": (pa.string(), ["", "a", "ab", "ü", None]),
    "number": (pa.float64(), [0.5, 1.0, float("nan"), float("inf"), None]),
    "flag": (pa.bool_(), [True, False, None]),
}
INDEXED = tuple(Indexed(name, kind) for name, (kind, _) in KINDS.items())


def slice_of(instant):
    return BaseFile(
        partition_path="p", file_id="f-0", write_token="0-0-0", instant_time=instant, size=0
    )


def table_of(rows):
    columns = {
        name: pa.array([row[place] for row in rows], kind)
        for place, (name, (kind, _)) in enumerate(KINDS.items())
    }
    return pa.table(columns)


def names(values):
    """NaN equals itself as text."""
    return {str(value) for value in values}


rows = st.lists(st.tuples(*(st.sampled_from(values) for _, values in KINDS.values())), max_size=8)


@given(rows, rows, st.data())
def test_changes_are_the_differences_between_two_slices(stored, batch, data):
    count = len(stored)
    places = [*range(count), *range(count, count + len(batch))]
    source = data.draw(st.lists(st.sampled_from(places), unique=True)) if places else []
    before, after = slice_of("1"), slice_of("2")
    found = value_changes(
        INDEXED,
        (before, table_of(stored)),
        (after, table_of(batch)),
        np.array(source, np.int64),
    )
    after_rows = [[*stored, *batch][place] for place in source]
    for place, change in enumerate(found):
        old, new = (names(row[place] for row in side) for side in (stored, after_rows))
        came, gone = change.came.to_pylist(), change.gone.to_pylist()
        assert (change.column, change.file, change.before) == (INDEXED[place].column, after, before)
        assert (names(came), names(gone)) == (new - old, old - new)
        assert (len(came), len(gone)) == (len(new - old), len(old - new)), "each of them once"


@given(rows)
def test_all_values_of_a_new_file_came(stored):
    for place, change in enumerate(first_values(INDEXED, slice_of("1"), table_of(stored))):
        came = change.came.to_pylist()
        assert names(came) == names(row[place] for row in stored)
        assert len(came) == len(names(came))
        assert (change.before, len(change.gone)) == (None, 0)


def test_nothing_is_noted_where_nothing_is_indexed():
    slices = (slice_of("1"), table_of([])), (slice_of("2"), table_of([]))
    assert value_changes((), *slices, np.empty(0, np.int64)) == ()


def test_due_merges_take_small_runs_only():
    run, due = functools.partial(FilesOfRun, "", (), size=0), merges.due_merges
    assert due([run(entries=1)] * 8, hashed=False) == []
    large = run(entries=merges._LARGEST_ENTRIES)
    (members,) = due([large, *[run(entries=1)] * 9, large], hashed=False)
    assert sorted(members) == list(range(1, 10))
