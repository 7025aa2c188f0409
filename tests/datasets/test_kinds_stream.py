"""The truth of streams over columns of any kinds and any keys equals a table kept row by row."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from stream_model import TableModel
from value_kinds import KINDS

from keymark.datasets.generate.generated import GeneratedDataset
from keymark.datasets.generate.rows import make_rows
from keymark.datasets.specs.spec import load_spec

KEYS = ("uuid", "uuid7", "sequence", "numbered", "hashed", "letters", "one_shard", "hot_shard")


@st.composite
def specs(draw):
    names = draw(st.lists(st.sampled_from(list(KINDS)), max_size=6, unique=True))
    rows = draw(st.integers(1, 60))
    choice = draw(st.sampled_from(["uniform", "zipf", "recent", "hot"]))
    return load_spec(
        "trips",
        {
            "rows": rows,
            "seed": draw(st.integers(0, 2**63 - 1)),
            "payload_bytes": draw(st.integers(1, 40)),
            "updates": draw(st.integers(0, rows)),
            "inserts": draw(st.integers(0, 9)),
            "deletes": 0,
            "update_choice.kind": choice,
            "columns.uuid.kind": draw(st.sampled_from(KEYS)),
            "columns.dt.of": draw(st.sampled_from(["days", "countries", "hashes"])),
            "columns.dt.sizes": draw(st.sampled_from(["flat", "zipf", "recent", "one"])),
            **{f"columns.{name}": KINDS[name] for name in names},
        },
    )


@settings(max_examples=60)
@given(specs())
def test_truth_equals_brute_force(spec):
    dataset = GeneratedDataset(spec)
    model = TableModel(_rows(dataset, 0), dataset.record_key)
    assert dataset.truth(0, deleted=False) == model.truth
    for round_ in (1, 2):
        assert model.upsert(_rows(dataset, round_)) == dataset.batch_counts(round_)
        assert dataset.truth(round_, deleted=False) == model.truth


def _rows(dataset, round_):
    numbers, versions = dataset.batch_slice(round_, 0, dataset.batch_size(round_))
    assert len(np.unique(numbers)) == len(numbers)
    return make_rows(dataset.spec, numbers, versions)
