"""`run --out s3://…`: cut off, resumed on another machine, reported, and free of secrets."""

from __future__ import annotations

import json
import shutil

import pytest
from s3_server import SECRET
from test_mapping_run import SMALL

from keymark import cli as run_bench
from keymark.harness.run.mappings import MappingRun
from keymark.harness.store.results import Sample
from keymark.harness.store.run_folder_mirror import PARTS
from keymark.table.properties.options import STORAGE_SETTINGS
from keymark.table.storage.stores import storage_at


@pytest.fixture
def url(s3, monkeypatch, tmp_path):
    """A URL on S3, its credentials in the environment."""
    for name, value in s3.options.items():
        monkeypatch.setenv(f"AWS_{name.removeprefix(STORAGE_SETTINGS).upper()}", value)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return f"{s3.bucket()}/runs/x"


def run(url, *words):
    given = [word for text in SMALL for word in ("--set", text)]
    given += ["--set", f"table.options.{STORAGE_SETTINGS}secret_access_key={SECRET}"]
    return run_bench.main(["run", "mappings", *given, "--out", url, *words])


def samples(text):
    return [Sample.from_json(line) for line in text.splitlines()]


def test_a_run_is_cut_off_and_goes_on_elsewhere(url, monkeypatch, tmp_path, capfd):
    lookup, turns = MappingRun._lookup, []

    def cut_off(self, table, trial):
        turns.append(trial.repetition)
        if len(turns) == 2:
            raise KeyboardInterrupt
        return lookup(self, table, trial)

    monkeypatch.setattr(MappingRun, "_lookup", cut_off)
    assert run(url) == 130
    storage = storage_at(url, {})
    assert json.loads(storage.read("run.json"))["status"] == "running"
    assert storage.list(f"{PARTS}/samples.jsonl")
    assert run(url) == 2
    assert "is not empty; choose another --out" in capfd.readouterr().err
    # A report can be made while a run goes on.
    assert run_bench.main(["report", url, "--json"]) == 0
    assert json.loads(capfd.readouterr().out)["cells"][0]["metrics"]

    shutil.rmtree(tmp_path / "cache")
    assert run(url, "--resume", "--json") == 0
    assert turns == [0, 1, 1]
    assert json.loads(capfd.readouterr().out)["verified"]
    found = samples(storage.read("samples.jsonl"))
    assert len(found) == len({(s.step, s.repetition, s.metric) for s in found})
    assert {s.repetition for s in found if s.step == "lookup"} == {0, 1}
    stored = {status.path for status in storage.walk("")}
    assert {"run.json", "samples.jsonl", "canary.jsonl", "summary.md", "summary.json",
            "samples.csv", "report/index.html"} <= stored  # fmt: skip
    assert not any(path.startswith((PARTS, "work", ".")) for path in stored)
    assert all(path.suffix == ".lock" for path in (tmp_path / "cache/keymark/runs").iterdir())
    for path in stored:
        content = storage.read(path)
        assert SECRET.encode() not in content, path
