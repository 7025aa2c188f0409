"""Run folders of somebody else's: nothing is written through a link in them, or beside them."""

from __future__ import annotations

import json

import pytest
from synthetic_runs import sample, write_run

from keymark.harness.errors import RunFolderError, ScenarioError
from keymark.harness.run import bench
from keymark.harness.run.request import Request, describe
from keymark.harness.scenario import scenario
from keymark.harness.store.store import RunFolder, is_run_name
from keymark.reports.errors import ReportError
from keymark.reports.publish import publish

FILES = ("summary.md", "summary.json", "samples.csv", "report/index.html", ".summary.md.tmp")


@pytest.fixture
def guard(tmp_path):
    """A folder beside the run folder, with a file in it that must stay as it is."""
    folder = tmp_path / "guard"
    folder.mkdir()
    (folder / "kept").write_text("kept")
    yield folder
    assert [path.name for path in folder.iterdir()] == ["kept"]
    assert (folder / "kept").read_text() == "kept"


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("target", ["kept", "new"])
def test_a_link_in_the_place_of_a_file_is_replaced(tmp_path, guard, name, target):
    path = write_run(tmp_path / "run", [sample(verified=False)])
    (path / "report").mkdir(exist_ok=True)
    (path / name).symlink_to(guard / target)
    publish([path])
    assert (path / "summary.md").read_text().startswith("# ")
    assert not (path / "summary.md").is_symlink()


@pytest.mark.parametrize("name", ["report", "report/charts", "comparison"])
def test_a_link_in_the_place_of_a_folder_is_refused(tmp_path, guard, name):
    path = write_run(tmp_path / "run", [sample(verified=False)])
    (path / name).parent.mkdir(exist_ok=True)
    (path / name).symlink_to(guard)
    runs = [path, write_run(tmp_path / "other", [sample(verified=False)])][
        : 1 + (name == "comparison")
    ]
    with pytest.raises(ReportError, match="is a link"):
        publish(runs)


@pytest.mark.parametrize(
    "name", ["samples.jsonl", "events", ".run.json.tmp", "work", "work/tables"]
)
def test_a_run_folder_with_links_is_not_resumed(tmp_path, guard, name):
    path = write_run(tmp_path / "run", [sample()])
    (path / "work").mkdir()
    if (path / name).is_dir():
        (path / name).rmdir()
    (path / name).unlink(missing_ok=True)
    (path / name).symlink_to(guard / "kept" if "." in name else guard)
    request = Request(scenario=scenario.load("mappings"), out=path, resume=True)
    with pytest.raises(RunFolderError, match="is a link"):
        bench.run(request, None)


def test_a_link_is_no_blank_folder(tmp_path, guard):
    (guard / "kept").write_text("")
    path = tmp_path / "run"
    path.mkdir()
    (path / "samples.jsonl").symlink_to(guard / "kept")
    with pytest.raises(RunFolderError, match="is not empty"):
        RunFolder.create(path)
    (guard / "kept").write_text("kept")


@pytest.mark.parametrize("run_id", ["../../x", "/etc", "", ".", "..", "a/b", "a\\b", "a\nb", None])
def test_a_run_id_that_leads_elsewhere_is_refused(tmp_path, run_id):
    resolved = scenario.load("mappings")
    path = write_run(tmp_path / "run", [sample()])
    folder = RunFolder.open(path)
    record = {"schema_version": 1, "run_id": run_id, "scenario": describe(resolved)}
    folder.info_file.write_text(json.dumps(record))
    with pytest.raises(RunFolderError, match="run_id"):
        bench.run(Request(scenario=resolved, out=path, resume=True), None)


@pytest.mark.parametrize("name", ["../../x", "/etc/x", "a/b", "..", ".x", "a\x00b", "", "x" * 200])
def test_a_scenario_name_that_leads_elsewhere_is_refused(tmp_path, name):
    path = tmp_path / "mine.toml"
    path.write_text(f'name = {json.dumps(name)}\ninclude = ["quickstart"]\n')
    with pytest.raises(ScenarioError, match="name: must be fit for the name of a folder"):
        scenario.load(str(path))
    assert not is_run_name(name)
