"""Settings that contradict the scenario, and numbers that are none, are told before a run."""

from __future__ import annotations

import pytest

from keymark.datasets.errors import DatasetError
from keymark.datasets.specs.spec import load_spec
from keymark.harness.errors import ScenarioError
from keymark.harness.scenario import scenario

EVERY = "dataset.settings.delete_every"


def test_deletes_between_the_rounds_are_no_step_of_a_run():
    with pytest.raises(ScenarioError) as caught:
        scenario.load("ci", sets=[f"{EVERY}=1", "workload.rounds=3"])
    told = f"{EVERY}: a run deletes once, after all of its 3 rounds (workload.rounds)"
    assert caught.value.mistakes == (told,)
    for rounds, every in ((1, 1), (2, 2), (2, 5), (0, 1)):
        scenario.load("ci", sets=[f"{EVERY}={every}", f"workload.rounds={rounds}"])


def test_the_rows_of_a_table_are_said_once(tmp_path):
    told = "dataset.settings.rows: dataset.rows says it, or dataset.sizes"
    for sets in (
        ["dataset.settings.rows=5000"],
        ["dataset.settings.rows='5k'"],
        ["dataset.settings.rows=20000", "dataset.sizes=[10000, 20000]"],
    ):
        with pytest.raises(ScenarioError) as caught:
            scenario.load("ci", sets=sets)
        assert caught.value.mistakes == (told,)
    assert scenario.load("ci", sets=["dataset.settings.rows=20k"]).dataset.rows == 20_000
    (tmp_path / "mine.toml").write_text(
        'name = "mine"\nrows = 500\nrecord_key = ["id"]\n[columns]\nid = { kind = "uuid" }\n'
    )
    (tmp_path / "s.toml").write_text('[dataset]\nname = "mine.toml"\nbatch_rows = 20\n')
    own = scenario.load(str(tmp_path / "s.toml"), sets=["dataset.settings.rows=700"]).dataset
    assert (own.rows, own.spec(own.points[0]).rows) == (700, 700)


@pytest.mark.parametrize("key", ["workload.range_width", "schedule.memory_gb"])
@pytest.mark.parametrize("value", ["inf", "nan"])
def test_a_number_without_an_end_is_none(key, value):
    with pytest.raises(ScenarioError, match=f"{key}: input should be .*, not {value}"):
        scenario.load("ci", sets=[f"{key}={value}"])


def test_a_number_of_thousands_of_digits_is_told_as_one_mistake():
    with pytest.raises(ScenarioError, match=r"dataset\.rows: input should be a valid integer"):
        scenario.load("ci", sets=[f"dataset.rows={'1' * 5000}"])
    with pytest.raises(DatasetError, match="trips: seed: "):
        load_spec("trips", {"seed": "1" * 5000})


@pytest.mark.parametrize("master", ["local[0]", "local[00,3]"])
def test_a_master_without_cores_is_refused(master):
    with pytest.raises(ScenarioError, match=r"spark\.master: a master on this machine has one"):
        scenario.load("ci", overrides={"spark.master": master})
