from __future__ import annotations

import json
from xml.etree import ElementTree as ET

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from synthetic_runs import sample, write_run

from keymark import cli as run_bench
from keymark.reports.history.change_points import counter_changes, time_changes
from keymark.reports.history.headlines import read_all
from keymark.reports.publish import publish


def noisy(seed, *levels, spread=0.02):
    """Times around levels, (level, number of runs) each."""
    draw = np.random.default_rng(seed)
    return [level * float(np.exp(draw.normal(0, spread))) for level, n in levels for _ in range(n)]


def places(changes):
    return [change.at for change in changes]


def test_a_step_is_found_where_it_is():
    for seed in range(20):
        (change,) = time_changes(noisy(seed, (1.0, 15), (1.1, 15)))
        assert abs(change.at - 15) <= 1
        assert change.ratio == pytest.approx(1.1, rel=0.03)
        assert change.p <= 0.001


def test_several_steps_are_found_and_there_and_back_too():
    found = time_changes(noisy(1, (1.0, 20), (1.3, 12), (1.0, 20)))
    assert places(found) == [20, 32]
    assert [round(change.ratio, 1) for change in found] == [1.3, 0.8]


def test_series_without_a_change_have_none():
    """300 series of 20 to 80 runs, at one in a thousand each."""
    alarms = [
        bool(time_changes(noisy(n, (1.0, 20 + 15 * (n % 4)), spread=0.2))) for n in range(300)
    ]
    assert sum(alarms) <= 1


def test_a_single_slow_run_is_no_change():
    values = noisy(2, (1.0, 30))
    values[14] = 9.0
    assert time_changes(values) == ()


def test_what_is_not_worth_telling_is_not_told():
    assert time_changes(noisy(3, (1.0, 30), (1.03, 30), spread=0.001)) == ()


def test_few_runs_change_nothing():
    assert time_changes([1.0] * 4 + [2.0] * 4) == ()
    assert time_changes([]) == ()


@given(st.lists(st.floats(0.1, 10), max_size=40))
def test_levels_are_medians_of_what_lies_between(values):
    changes = time_changes(values)
    ends = [0, *places(changes), len(values)]
    for number, change in enumerate(changes):
        assert change.before == np.median(values[ends[number] : ends[number + 1]])
        assert change.after == np.median(values[ends[number + 1] : ends[number + 2]])


def test_each_change_of_a_counter_is_one():
    assert places(counter_changes([7, 7, 8, 8, 7], 0.0)) == [2, 4]
    assert counter_changes([1000, 1000.5, 1000.2], 0.001) == ()
    (grown,) = counter_changes([1000, 1000.5, 1010], 0.001)
    assert (grown.at, grown.after) == (2, 1010)
    (first,) = counter_changes([0, 0, 3], 0.0)
    assert first.ratio is None


def history(tmp_path, *, slow_from=99, more_from=99, runs=20):
    """Run folders, later ones slower and with more tasks."""
    times = noisy(4, (1.0, runs))
    paths = []
    for number in range(runs):
        slow = 1.2 if number >= slow_from else 1.0
        tasks = 61 if number >= more_from else 60
        shared = {"run_id": f"run{number:02}", "cell": "native/record"}
        samples = [
            sample(**shared, repetition=0, value=times[number] * slow),
            sample(**shared, metric="tasks", value=tasks),
        ]
        info = {"run_id": shared["run_id"], "scenario": {"dataset": {"rows": 10}}}
        paths.append(write_run(tmp_path / shared["run_id"], samples, info))
    return paths


def call(capsys, *words):
    code = run_bench.main(["history", *(str(word) for word in words)])
    said = capsys.readouterr()
    return code, said.out if code == 0 else said.err


def test_the_command_finds_draws_and_tells(capsys, tmp_path):
    paths = history(tmp_path, slow_from=12, more_from=7)
    code, said = call(capsys, *paths, "--json")
    found = json.loads(said)
    assert code == 0
    assert [(each["metric"], each["run_id"]) for each in found["changes"]] == [
        ("tasks", "run07"),
        ("wall_s", "run12"),
    ]
    assert (found["changes"][0]["before"], found["changes"][0]["after"]) == (60, 61)
    out = tmp_path / "history"
    assert json.loads((out / "history.json").read_text()) == found
    svg = (out / "history.svg").read_text()
    ET.fromstring(svg)
    assert "+20%" in svg
    assert "+1.67%" in svg
    assert (out / "history.png").read_bytes().startswith(b"\x89PNG")
    assert "| run07 | native/record upsert_1 total tasks | 60 | 61 | +1.67% |" in (
        (out / "history.md").read_text().replace("\\", "")
    )


def test_runs_without_a_verified_number_have_no_history(capsys, tmp_path):
    runs = [write_run(tmp_path / name, [sample(verified=False)]) for name in ("a", "b")]
    code, said = call(capsys, *runs)
    assert (code, said.strip().partition(":")[0]) == (2, "error")
    assert "no verified number is in two of the runs" in said


def test_people_get_a_table_and_the_chart(capsys, monkeypatch, tmp_path):
    monkeypatch.setenv("COLUMNS", "40")
    paths = history(tmp_path, slow_from=12)
    code, said = call(capsys, *paths, "--out", tmp_path / "out")
    assert code == 0
    assert "run12" in said
    assert f"chart: {tmp_path / 'out' / 'history.svg'}" in said


def test_a_history_without_changes_is_drawn(capsys, tmp_path):
    code, said = call(capsys, *history(tmp_path, runs=3))
    assert code == 0
    assert "0 changes of level in 2 numbers over 3 runs" in said
    assert "No change of level" in (tmp_path / "history" / "history.svg").read_text()


def test_kept_summaries_are_runs_too(capsys, tmp_path):
    paths = history(tmp_path, more_from=1, runs=2)
    publish([paths[0]])
    _, said = call(capsys, paths[0] / "summary.json", paths[1], "--json")
    assert [each["metric"] for each in json.loads(said)["changes"]] == ["tasks"]


def test_bad_input_is_one_line(capsys, tmp_path):
    paths = history(tmp_path, runs=2)
    info = json.loads((paths[1] / "run.json").read_text())
    info["scenario"]["dataset"]["rows"] = 11
    (paths[1] / "run.json").write_text(json.dumps(info))
    for words, said in (
        (paths[:1], "at least two runs"),
        (paths, "did other work than"),
        ([tmp_path, paths[0]], "is not a run folder"),
    ):
        code, line = call(capsys, *words)
        assert (code, line.count("\n")) == (2, 1)
        assert said in line


def write_hudi_runs(folder, *engines, beside=()):
    """A run folder for each engine.

    Args:
        folder: for the run folders.
        engines: (engine, schema version of the run's files) of each run.
        beside: engines that all runs have measured as well.
    """
    paths = []
    for number, (engine, schema) in enumerate(engines):
        run_id = f"run{number}"
        samples = [
            sample(run_id=run_id, cell=f"{name}/record", engine=name, schema_version=schema)
            for name in (engine, *beside)
        ]
        info = {"run_id": run_id, "schema_version": schema, "scenario": {"name": "releases"}}
        paths.append(write_run(folder / run_id, samples, info))
    return paths


@pytest.mark.parametrize(
    ("engines", "told"),
    [
        (
            [("hudi@1.2.0", 3), ("hudi@1.2.0-v6", 3)],
            "hudi@1.2.0-v6/record has tables of version 6 and hudi@1.2.0/record of version 9",
        ),
        (
            [("hudi@1.0.2", 1), ("hudi@1.0.2", 3)],
            "hudi@1.0.2-v6/record has tables of version 6 and hudi@1.0.2/record of version 8",
        ),
    ],
)
def test_versions_of_tables_are_never_joined(capsys, tmp_path, engines, told):
    """Runs of before schema 2 are of version 6, though the name of their engine does not say so."""
    alone = write_hudi_runs(tmp_path / "alone", *engines)
    code, said = call(capsys, *alone)
    assert (code, said.count("\n")) == (2, 1)
    assert told in said
    assert [work.headlines for work in read_all(alone)] == [()]
    code, said = call(
        capsys, *write_hudi_runs(tmp_path / "beside", *engines, beside=["native"]), "--json"
    )
    found = json.loads(said)
    assert (code, found["series"]) == (0, 1)
    (warning,) = found["warnings"]
    assert told in warning


def test_runs_of_before_versions_were_told_go_on_as_version_6(capsys, tmp_path):
    paths = write_hudi_runs(tmp_path, ("hudi@1.0.2", 1), ("hudi@1.0.2-v6", 3))
    code, said = call(capsys, *paths, "--json")
    found = json.loads(said)
    assert (code, found["series"], found["warnings"]) == (0, 1, [])
    (work,) = read_all(paths)
    assert {each.key.cell for each in work.headlines[0].history.series} == {"hudi@1.0.2-v6/record"}


def named(path, name, **machine):
    """Give the run of a folder the name of a scenario, and a machine."""
    info = json.loads((path / "run.json").read_text())
    info["scenario"]["name"] = name
    info["machine"] = {"processor": "one", "cores": 2, "memory_bytes": 8 << 30, **machine}
    (path / "run.json").write_text(json.dumps(info))


def test_published_runs_are_grouped_by_scenario_work_and_machine(tmp_path):
    paths = history(tmp_path, runs=6)
    for number, path in enumerate(paths):
        named(path, "growth" if number < 4 else "at_size")
    named(paths[3], "growth", cores=4)
    info = json.loads((paths[2] / "run.json").read_text())
    info["scenario"]["dataset"]["rows"] = 11
    (paths[2] / "run.json").write_text(json.dumps(info))
    works = read_all(paths[::-1])
    assert [(each.scenario, each.machine, each.runs) for each in works] == [
        ("at_size", "2 cores of one, 8 GiB", ("run04", "run05")),
        ("growth", "2 cores of one, 8 GiB", ("run00", "run01")),
        ("growth", "2 cores of one, 8 GiB", ("run02",)),
        ("growth", "4 cores of one, 8 GiB", ("run03",)),
    ]
    (upsert,) = works[0].headlines
    assert (upsert.key, upsert.title) == ("write_latency", "Upsert batch")
    assert upsert.finding == "No change of level is shown in 1 cell over 2 runs."
    assert works[2].headlines == ()


def test_the_headlines_of_a_folder_of_runs_are_drawn(capsys, tmp_path):
    for path in history(tmp_path / "results", slow_from=12):
        named(path, "growth/../x")
    code, said = call(capsys, tmp_path / "results", "--json")
    assert code == 0, said
    (work,) = json.loads(said)["works"]
    assert len(work["runs"]) == 20
    (headline,) = work["headlines"]
    assert headline["finding"] == "1 change of level in 1 cell over 20 runs."
    assert [each["run_id"] for each in headline["changes"]] == ["run12"]
    out = tmp_path / "history"
    names = sorted(path.name for path in out.iterdir())
    assert names == [
        "history.json",
        "history.md",
        "history_1_growth-..-x_write_latency.png",
        "history_1_growth-..-x_write_latency.svg",
    ]
    assert "+20%" in (out / names[3]).read_text()
    assert "20 runs of growth/../x" in (out / names[3]).read_text()
    assert "1 change of level" in (out / "history.md").read_text()
    code, said = call(capsys, tmp_path / "results", "--out", tmp_path / "again")
    assert code == 0
    assert "run12 | native/record upsert total wall_s |" in said


def runs_of(tmp_path, name, samples, **info):
    """Run folders, each with the samples that one of `samples` says."""
    paths = []
    for number, taken in enumerate(samples):
        shared = {"run_id": f"{name}{number}"}
        info |= shared | {"scenario": {"name": name}}
        made = [sample(**shared, **said) for said in taken]
        paths.append(write_run(tmp_path / shared["run_id"], made, info))
    return paths


def test_a_scan_and_a_read_by_spark_are_told_apart_whatever_cell_is_first(tmp_path):
    """Hudi's record index stands before Keymark's global simple one."""
    ours = {"cell": "native/global_simple", "index": "global_simple"}
    taken = [
        {"cell": "hudi@1.2.0/record", "engine": "hudi@1.2.0", "step": "point_query", "value": 2.0},
        {**ours, "step": "point_query", "value": 0.1},
        {**ours, "step": "point_query_spark", "value": 3.0},
    ]
    (work,) = read_all(runs_of(tmp_path, "queries", [taken, taken]))
    found = {
        each.key: {series.key.cell: series.values[0] for series in each.history.series}
        for each in work.headlines
    }
    assert found == {
        "point_query": {"hudi@1.2.0/record": 2.0, "native/global_simple": 0.1},
        "point_query_spark": {"hudi@1.2.0/record": 2.0, "native/global_simple": 3.0},
    }


@pytest.mark.parametrize(
    ("engine", "after", "changes"),
    [("hudi@1.2.0", 1.05, 0), ("hudi@1.2.0", 1.08, 1), ("native", 1.05, 1)],
)
def test_bytes_of_an_index_whose_files_are_named_at_random_vary_by_chance(
    capsys, tmp_path, engine, after, changes
):
    stored = {"cell": f"{engine}/record", "engine": engine, "metric": "index_bytes"}
    taken = [[{**stored, "value": 1e6}], [{**stored, "value": after * 1e6}]]
    paths = runs_of(tmp_path, "sizes", taken, seeded_ids=["native"])
    code, said = call(capsys, *paths, "--json")
    assert (code, len(json.loads(said)["changes"])) == (0, changes)
    (work,) = read_all(paths)
    (headline,) = work.headlines
    assert sum(len(each.changes) for each in headline.history.series) == changes


def many_cells(tmp_path, cells, *, runs=6):
    """Runs of many cells; the tasks of each grow from the fourth run on, their times stay."""
    paths = []
    for number in range(runs):
        run_id = f"run{number:02}"
        samples = [
            made
            for cell in range(cells)
            for made in (
                sample(run_id=run_id, cell=f"native/record/c{cell:02}", repetition=0),
                sample(
                    run_id=run_id,
                    cell=f"native/record/c{cell:02}",
                    metric="tasks",
                    value=60 + cell * (number > 2),
                ),
            )
        ]
        info = {"run_id": run_id, "scenario": {"dataset": {"rows": 10}}}
        paths.append(write_run(tmp_path / run_id, samples, info))
    return paths


def test_what_a_chart_does_not_show_is_said(capsys, tmp_path):
    # The tasks of 9 of 10 cells change, and the times of all 10 do not.
    paths = many_cells(tmp_path, 10)
    words = "8 of 19 drawn, the largest changes first"
    code, said = call(capsys, *paths)
    assert code == 0
    assert f"{words}; the table in history.md has every change" in said
    out = tmp_path / "history"
    svg = (out / "history.svg").read_text()
    assert words in svg
    assert svg.count("native/record/c09 ") == 1
    assert "native/record/c01 " not in svg
    page = (out / "history.md").read_text().replace("\\", "")
    assert f"{words}; the table has every change." in page
    assert "| run03 | native/record/c01 upsert_1 total tasks | 60 | 61 | +1.67% |" in page


def test_numbers_that_did_not_change_are_drawn_after_those_that_did(capsys, tmp_path):
    code, _ = call(capsys, *history(tmp_path, more_from=7))
    svg = (tmp_path / "history" / "history.svg").read_text()
    assert code == 0
    assert 0 < svg.index("upsert_1 total tasks") < svg.index("upsert_1 total wall_s")
    assert "drawn" not in svg


def test_the_cells_of_a_headline_that_are_not_drawn_are_in_its_table(capsys, tmp_path):
    for path in many_cells(tmp_path / "results", 9):
        named(path, "growth")
    code, said = call(capsys, tmp_path / "results")
    assert code == 0, said
    out = tmp_path / "history"
    words = "8 of 9 drawn, the largest changes first"
    page = (out / "history.md").read_text().replace("\\", "")
    assert f"{words}; the table has all." in page
    assert page.count("| native/record/c08 | 1.00 s |") == 1
    assert words in (out / "history_1_growth_write_latency.svg").read_text()


def test_a_folder_without_runs_and_one_that_goes_on_are_one_line(capsys, tmp_path):
    (tmp_path / "none").mkdir()
    code, said = call(capsys, tmp_path / "none")
    assert (code, said.count("\n")) == (2, 1)
    assert "none is below it" in said
    (path,) = history(tmp_path / "results", runs=1)
    info = json.loads((path / "run.json").read_text()) | {"status": "running"}
    (path / "run.json").write_text(json.dumps(info))
    code, said = call(capsys, tmp_path / "results")
    assert (code, said.count("\n")) == (2, 1)
    assert "is not complete" in said
