"""Scripts that measure run through on tables of a few rows, and go on where they stopped."""

from __future__ import annotations

import json

import reshard_beside


def test_a_resharding_beside_a_bootstrap(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(reshard_beside, "LOAD_ROWS", 700)
    monkeypatch.setattr(reshard_beside, "WARM_ROWS", 100)
    words = ["--out", str(tmp_path), "--rows", "2000", "--before", "2", "--after", "4"]
    words += ["--engine", ""]
    reshard_beside.main([*words, "--turns", "1"])
    told = tmp_path / "reshard_beside.json"
    first = json.loads(told.read_text())
    assert list(first["turns"]) == ["0"]
    assert first["requests"]["reshard"]["all"] < first["requests"]["bootstrap"]["all"]
    reshard_beside.main([*words, "--turns", "2"])
    second = json.loads(told.read_text())
    assert second["turns"]["0"] == first["turns"]["0"]
    assert set(second["turns"]["1"]) == {"reshard", "bootstrap"}
    assert "times the re-sharding" in capsys.readouterr().out
