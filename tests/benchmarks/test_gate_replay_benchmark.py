"""The replay of gates, with one gate of each kind."""

from __future__ import annotations

import json

from gate_replay import main


def test_every_gate_has_a_verdict(tmp_path, capsys):
    main(["--gates", "1", "--json", str(tmp_path / "found.json")])
    rows = json.loads((tmp_path / "found.json").read_text())
    assert all(row["pass"] + row["regression"] + row["inconclusive"] == 1 for row in rows)
    assert len(capsys.readouterr().out.splitlines()) == len(rows) + 1
    alarms = [row for row in rows if row["slow"] == 0 and row["regression"]]
    assert not alarms
