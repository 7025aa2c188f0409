"""Which pages of a file a merge leaves alone, by a plain model."""

from __future__ import annotations

import numpy as np
import pytest

from keymark.table.format.parquet.new_pages import PageKind
from keymark.table.write.merge import Merge
from keymark.table.write.page_layout import layout_of


@pytest.mark.parametrize("seed", range(30))
def test_a_layout_has_the_rows_of_the_merge(seed):
    """By a plain model: each page of the file before is copied or written, row by row."""
    rng = np.random.default_rng(seed)
    count, full, incoming = int(rng.integers(2, 9)), 4, 3
    lengths = rng.integers(1, full + 1, count)
    starts = np.concatenate([[0], np.cumsum(lengths)])
    total = int(starts[-1])
    kept = rng.random(total) > rng.choice([0, 0.05, 0.3])
    source = np.arange(total)
    replaced = rng.random(total) < rng.choice([0, 0.05, 0.3, 0.9])
    source[replaced] = total + rng.integers(0, incoming, int(replaced.sum()))
    inserted = total + np.arange(int(rng.integers(0, incoming + 1)))
    merge = Merge(np.concatenate([source[kept], inserted]), kept, np.zeros(incoming, np.uint8))
    layout = layout_of(merge, starts, full)
    changed = {g for g in range(count) for n in range(*starts[g : g + 2]) if merge.changed[n]}
    lessened = [not kept[slice(*starts[page : page + 2])].all() for page in range(count)]
    if 2 * sum(lessened) > count:
        assert layout is None
        return
    read = [n for g in layout.read for n in range(*starts[g : g + 2])]
    of = [*read, *range(total, total + incoming)]
    new, updated, stored = (
        [of[place] for place in places] for places in (layout.new, layout.updated, layout.stored)
    )
    found = []
    for page in layout.pages:
        before = list(range(*starts[page.place : page.place + 2]))
        if page.kind is PageKind.COPIED:
            found += before
        elif page.kind is PageKind.UPDATED:
            assert [stored.pop(0) for _ in range(page.rows)] == before
            found += [updated.pop(0) for _ in range(page.rows)]
        else:
            found += [new.pop(0) for _ in range(page.rows)]
    assert (new, updated, stored) == ([], [], [])
    assert found == merge.source.tolist()
    # A page that keeps its rows keeps its place, and none is longer than the longest before.
    stay = {page.place for page in layout.pages if page.kind is not PageKind.NEW}
    assert stay >= {page for page in range(count - 1) if not lessened[page]}
    assert max(page.rows for page in layout.pages) <= full
    assert changed.isdisjoint(p.place for p in layout.pages if p.kind is PageKind.COPIED)
