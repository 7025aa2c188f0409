"""What `advise` takes is measured of real tables, and the page says it first."""

from __future__ import annotations

import json

import advise_cost


def test_the_page_has_every_table_and_begins_with_its_finding(tmp_path):
    words = ["--out", str(tmp_path), "--turns", "1", "--archives", "hudi-1.1.1-k*"]
    advise_cost.main([*words, "--files", "30", "--commits", "3"])
    large, small = json.loads((tmp_path / "advise_cost.json").read_text())["tables"]
    assert (large["base_files"], large["commits"]) == (30, 3)
    # hoodie.properties, three commits and a few footers; a page lists 1,000 files.
    assert large["requests"]["list"] == 1
    assert 4 < large["requests"]["get"] < 20
    assert large["peak_bytes"] > 50 << 20
    assert large["processor_s"] > 0
    assert small["table"] == "hudi-1.1.1-keys: named_key"
    title, _, finding, _, *rows = (tmp_path / "advise_cost.md").read_text().splitlines()
    assert title == "# What `advise` takes"
    assert finding.endswith("requests for each of the 1 tables in `tests/data`.")
    assert rows[2].startswith("| made for this page | 6 | copy on write | 30 | 3 | ")
    assert rows[3].startswith("| hudi-1.1.1-keys: named_key | 6 | copy on write | 3 | 2 | ")
    assert not [path for path in tmp_path.iterdir() if path.is_dir()]
