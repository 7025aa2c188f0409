"""Commands that read run folders read them by URL as well, and write what they make there."""

from __future__ import annotations

import json

import pytest
from synthetic_plan import plan_run
from synthetic_runs import quickstart

from keymark import cli as run_bench
from keymark.reports.publish import publish
from keymark.table.storage.stores import storage_at

STORE = "memory://reports"


def stored(folder, url):
    """A copy of a run folder on a store; its URL."""
    storage = storage_at(url, {})
    storage.delete_tree("")
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            storage.put(str(path.relative_to(folder)), path.read_bytes())
    return url


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Two runs and their summaries: (path, URL) each."""
    found, folder = [], tmp_path_factory.mktemp("runs")
    for seed in (1, 2):
        path = quickstart(folder / f"run{seed}", seed=seed)
        publish([path])
        found.append((str(path), stored(path, f"{STORE}/runs/run{seed}")))
    return found


def answer(capsys, *words):
    code = run_bench.main([*words, "--json"])
    return code, json.loads(capsys.readouterr().out)


def files(url):
    return {status.path for status in storage_at(url, {}).walk("")}


def test_a_report_is_written_beside_its_run(runs, capsys):
    path, url = runs[0]
    storage = storage_at(url, {})
    before = files(url)
    derived = [name for name in before if name.startswith(("report/", "summary.", "samples.csv"))]
    for name in derived:
        storage.delete(name)
    assert answer(capsys, "report", url) == answer(capsys, "report", path)
    assert files(url) == before
    assert len(derived) > 5
    assert run_bench.main(["report", url]) == 0
    assert f"report: {url}/report/index.html" in capsys.readouterr().out


def test_reports_of_several_and_elsewhere(runs, capsys):
    urls = [url for _, url in runs]
    assert run_bench.main(["report", *urls]) == 0
    assert "comparison/report/index.html" in files(urls[0])
    elsewhere = f"{STORE}/elsewhere"
    assert run_bench.main(["report", runs[0][0], "--out", elsewhere]) == 0
    assert {"summary.json", "report/index.html"} <= files(elsewhere)
    assert f"report: {elsewhere}/report/index.html" in capsys.readouterr().out


def test_a_gate_takes_urls_of_runs_and_of_summaries(runs, capsys):
    (base, base_url), (candidate, candidate_url) = runs
    code, expected = answer(capsys, "gate", base, candidate)
    named = {"base": base_url, "candidate": candidate_url}
    assert answer(capsys, "gate", base_url, candidate_url) == (code, expected | named)
    named = {"candidate": candidate_url}
    assert answer(capsys, "gate", base, candidate_url) == (code, expected | named)
    code, expected = answer(capsys, "gate", f"{base}/summary.json", candidate)
    named = {"base": f"{base_url}/summary.json"}
    assert answer(capsys, "gate", named["base"], candidate) == (code, expected | named)
    assert run_bench.main(["gate", base_url, "HEAD"]) == 2
    assert "HEAD does not exist" in capsys.readouterr().err
    assert run_bench.main(["gate", "HEAD", "HEAD", "--kernels", "--out", base_url]) == 2
    assert "a folder of this machine" in capsys.readouterr().err


def test_a_history_is_drawn_beside_the_last_run(runs, capsys):
    (first, first_url), (last, last_url) = runs
    assert answer(capsys, "history", first_url, last_url) == answer(capsys, "history", first, last)
    assert files(f"{STORE}/runs/history") == {
        "history.svg", "history.png", "history.json", "history.md",
    }  # fmt: skip


def test_a_plan_is_fitted_to_and_scored_by_runs_on_a_store(tmp_path, capsys):
    run = plan_run(tmp_path / "run", repetitions=1)
    other = plan_run(tmp_path / "other", run_id="o1", repetitions=1, sizes=(400_000,))
    urls = [stored(path, f"{STORE}/plan/{path.name}") for path in (run, other)]
    fit = tmp_path / "fit.json"
    words = ["plan", "--calibration", urls[0], "--score", urls[1], "--save", str(fit)]
    expected = answer(capsys, "plan", "--calibration", str(run), "--score", str(other))
    assert answer(capsys, *words) == expected
    storage_at(f"{STORE}/fits", {}).replace("fit.json", fit.read_bytes())
    expected = answer(capsys, "plan", "--calibration", str(fit), "--score", str(other))
    kept = answer(capsys, "plan", "--calibration", f"{STORE}/fits/fit.json", "--score", urls[1])
    assert kept == expected


@pytest.mark.parametrize(
    "words", [["report"], ["gate", "missing"], ["history", "missing"], ["plan", "--score"]], ids=str
)
def test_what_is_not_there_is_one_line(words, capsys):
    url = f"{STORE}/nothing"
    given = [url if word == "missing" else word for word in words]
    assert run_bench.main([*given, url]) == 2
    assert capsys.readouterr().err.splitlines() == [
        f"error: {url} is not a run folder: it has no run.json"
    ]
