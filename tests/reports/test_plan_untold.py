"""Constants that a calibration cannot tell: what they leave open, and the run that would tell."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from plan_cases import plan

from keymark.harness.scenario import scenario
from keymark.indexes.workload import Workload
from keymark.reports.plan import fit
from keymark.reports.plan.answer import PlanRequest
from keymark.reports.plan.answer import plan as answer
from keymark.reports.plan.decide import choose
from keymark.reports.plan.predict import likely_added
from keymark.reports.plan.render import lines
from keymark.reports.plan.untold import untold

AT = Workload(rows=1e6, batch=8_000, files=1_000, partitions=10, shards=4, local_bytes=0.0)
PAIRS = 8_000 * 1_000 / 2
"""Pairs of a key and a file there, for each core."""


def with_constant(known, amount, *, value, limit):
    """The calibration with another constant of `tag/bloom`, and what the cells leave open of it."""
    bloom = known.equations["tag/bloom"]
    place = bloom.amounts.index(amount)

    def put(row, number):
        return (*row[:place], number, *row[place + 1 :])

    changed = replace(
        bloom,
        values=put(bloom.values, value),
        draws=tuple(put(draw, value) for draw in bloom.draws),
        limits=put(bloom.limits, limit),
    )
    return replace(known, equations={**known.equations, "tag/bloom": changed})


def test_a_constant_is_told_by_a_cell_of_which_it_is_a_tenth():
    table = np.array([[1.0, 10.0, 0.0], [1.0, 1_000.0, 0.0]])
    found = fit._limits(table, np.array([2.0, 4.0]))
    # 1,000 of the second are a tenth of 4 seconds where one takes 0.4 ms.
    assert found.tolist() == pytest.approx([0.2, 4e-4, 0.0])


def test_a_fit_notes_what_its_cells_leave_open(known):
    for name, each in known.equations.items():
        assert len(each.limits) == len(each.amounts), name
        assert all(
            value <= 1.0001 * limit for value, limit in zip(each.values, each.limits, strict=True)
        ), name
    # Of calibrations of earlier versions nobody knows.
    without = {name: replace(each, limits=()) for name, each in known.equations.items()}
    assert untold(replace(known, equations=without), "global_bloom", AT) is None


def test_what_is_open_grows_with_the_work(known):
    unsure = with_constant(known, "pairs", value=1e-8, limit=1e-6)
    found = untold(unsure, "global_bloom", AT)
    assert found.seconds == pytest.approx(PAIRS * (1e-6 - 1e-8), rel=0.05)
    assert (found.amount, found.words) == ("pairs", "a pair of key and file")
    assert untold(unsure, "global_bloom", replace(AT, files=20, batch=1_000)) is None
    assert untold(unsure, "record", AT) is None
    told = with_constant(known, "pairs", value=1e-6, limit=1e-6)
    assert untold(told, "global_bloom", AT) is None


def test_such_an_index_is_not_recommended_over_one_that_is_well_known(known):
    """By its value the filters cost least; by all that the cells leave open they cost most."""
    cheap = with_constant(known, "footers", value=1e-6, limit=1e-6)
    cheap = with_constant(cheap, "pairs", value=1e-9, limit=1e-9)
    indexes = ["record", "global_simple", "global_bloom"]
    at = replace(AT, shards=400)
    assert choose(cheap, at, indexes).recommended == "global_bloom"
    unsure = with_constant(cheap, "pairs", value=1e-9, limit=1e-5)
    made = choose(unsure, at, indexes)
    assert made.order[0] == "global_bloom"
    assert made.recommended == next(index for index in made.order if index != "global_bloom")
    assert "cannot tell what a pair of key and file costs" in made.why
    assert "keymark run calibrate --set dataset.batches=[8000,16000] would tell" in made.why
    assert made.options["hoodie.index.type"]
    # What is open cannot turn the choice.
    gap = likely_added(cheap, made.order[1], at) - likely_added(cheap, "global_bloom", at)
    little = with_constant(cheap, "pairs", value=1e-9, limit=0.5 * gap / PAIRS)
    assert choose(little, at, indexes).recommended == "global_bloom"


def test_the_answer_names_the_run(capsys, known, tmp_path):
    unsure = with_constant(known, "pairs", value=1e-8, limit=1e-6)
    made = answer(unsure, PlanRequest(at=AT))
    (line,) = (line for line in lines(made) if line.startswith("global_bloom rests on"))
    assert "what a pair of key and file costs, which this calibration cannot tell" in line
    path = tmp_path / "unsure.json"
    path.write_text(unsure.to_json())
    words = ("--records", 1_000_000, "--batch", 8_000, "--files", 1_000, "--local-bytes", 0)
    code, said = plan(capsys, *words, "--calibration", path, "--json")
    assert code == 0, said
    (found,) = (e for e in json.loads(said)["untold"] if e["index"] == "global_bloom")
    assert found["run"].startswith("keymark run calibrate --set dataset.batches=")


@pytest.mark.parametrize(
    ("amount", "setting"),
    [
        ("rows", "dataset.sizes=[100000,1000000]"),
        ("pairs", "dataset.batches=[8000,16000]"),
        ("footers", "dataset.shapes.random.date_partitions=400"),
    ],
)
def test_the_run_reaches_further_and_can_be_taken(known, amount, setting):
    unsure = with_constant(known, amount, value=1e-9, limit=1.0)
    found = untold(unsure, "global_bloom", AT)
    name, *settings = found.run.removeprefix("keymark run ").split(" --set ")
    assert settings == [setting]
    assert scenario.load(name, sets=settings)
