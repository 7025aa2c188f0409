"""The replay of recorded gates, on two recorded by arithmetic."""

from __future__ import annotations

import json

import gate_live
import gate_recorded
import numpy as np
import pytest

from keymark.harness.store.run_record import RunRecord
from keymark.harness.store.store import RunFolder


@pytest.fixture
def recorded(tmp_path):
    draw = np.random.default_rng(1)
    for number in range(2):
        folder = RunFolder.create(tmp_path / f"same-{number:02d}")
        engines = ["native@aaaaaaaaaaaa", "native@bbbbbbbbbbbb"]
        for repetition in range(24):
            for engine in engines:
                times = {phase: float(np.exp(draw.normal(0, 0.1))) for phase in gate_live.PHASES}
                folder.append(gate_live.samples(folder.path.name, engine, repetition, times))
        told = {"run_id": folder.path.name, "status": "complete", "load": 1.0}
        told["scenario"] = {"engines": engines}
        folder.write_record(RunRecord.model_validate(told))
    return tmp_path


def test_recorded_noise_is_scaled_to_the_spread_that_is_asked_for(recorded, capsys):
    runs = gate_recorded.recorded(recorded)
    assert runs.shape == (2, 24, 2, 2)
    own = gate_recorded.spread(runs)
    assert 0.03 < own < 0.12
    assert gate_recorded.spread(runs * (0.02 / own)) == pytest.approx(0.02)
    gate_recorded.main([str(recorded), "--gates", "1"])
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert lines[0]["pairs"] == 48
    assert len(lines) == 1 + 12
    caught = [line for line in lines[1:] if line["slower"] and line["spread_of_slots"] == 0.02]
    assert [line.get("regression") for line in caught] == [1, 1]


def test_a_live_gate_is_told_in_figures(recorded):
    told = gate_live.figures(recorded / "same-00")
    assert told["gate"] == "same-00"
    assert told["verdict"] == "inconclusive"
    assert told["times"]["tag"]["pairs"] == 24
    assert told["times"]["tag"]["needed"] > 24
