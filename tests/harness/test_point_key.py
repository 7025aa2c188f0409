"""The key of the point query is in the table whenever it is read, between batches as well."""

from __future__ import annotations

import numpy as np
import pytest

from keymark.datasets.generate.generated import GeneratedDataset
from keymark.datasets.generate.rows import make_rows
from keymark.datasets.specs.spec import load_spec
from keymark.harness.run.inputs import SparkInputs
from keymark.harness.scenario import scenario
from keymark.harness.tables.key_text import encode_keys

ROUNDS = 6
SETTINGS = {"rows": 40, "updates": 10, "inserts": 60, "deletes": 8}


def keys_of(dataset, numbers):
    rows = make_rows(dataset.spec, numbers, np.zeros_like(numbers), dataset.record_key)
    return set(encode_keys(rows).to_pylist())


def inputs(tmp_path, dataset, *sets):
    work = scenario.load("ci", sets=(f"workload.rounds={ROUNDS}", *sets)).workload
    return SparkInputs(None, dataset, work, tmp_path, part="p")


@pytest.mark.parametrize("delete", ["true", "false"])
def test_it_is_of_a_row_that_is_loaded_and_not_deleted(tmp_path, delete):
    dataset = GeneratedDataset(load_spec("trips", SETTINGS))
    given = inputs(tmp_path, dataset, f"workload.delete={delete}")
    state = dataset.stream.after(ROUNDS, deleted=delete == "true")
    places = np.arange(state.deleted, SETTINGS["rows"])
    lasting = keys_of(dataset, dataset.stream.numbers(places))
    assert {given.point_key(repetition) for repetition in range(100)} == lasting


def test_it_is_of_a_row_of_the_end_where_all_that_was_loaded_is_deleted(tmp_path):
    dataset = GeneratedDataset(load_spec("trips", {**SETTINGS, "deletes": 40}))
    given = inputs(tmp_path, dataset, "workload.delete=true")
    assert given.point_key(0) not in keys_of(dataset, np.arange(40))
