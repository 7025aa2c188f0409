from __future__ import annotations

import shutil

import pytest
import synthetic_published
from site_cases import site_of_all_kinds
from synthetic_plan import plan_run
from synthetic_runs import quickstart

from keymark import cli as run_bench
from keymark.reports.plan import calibration
from keymark.reports.publish import publish


@pytest.fixture(scope="session")
def published(tmp_path_factory):
    """The report on a quickstart run, written once; tests must not change its files."""
    return publish([quickstart(tmp_path_factory.mktemp("published") / "run")])


@pytest.fixture(scope="module")
def fitted(tmp_path_factory):
    """A saved fit and the runs that it can be compared with."""
    folder = tmp_path_factory.mktemp("command")
    run = plan_run(folder / "run", repetitions=1)
    other = plan_run(folder / "other", run_id="o1", repetitions=1, sizes=(400_000,))
    path = folder / "fit.json"
    assert run_bench.main(["plan", "--calibration", str(run), "--save", str(path)]) == 0
    return {"fit": path, "run": run, "other": other}


@pytest.fixture(scope="module")
def known(fitted):
    """The saved fit, read again."""
    return calibration.load(fitted["fit"])


@pytest.fixture(scope="session")
def original(tmp_path_factory):
    """A published run; tests must not change its files."""
    return synthetic_published.published(tmp_path_factory.mktemp("original"))


@pytest.fixture(scope="session")
def site(tmp_path_factory, original):
    """A site of runs with every section; tests must not change its files."""
    return site_of_all_kinds(tmp_path_factory.mktemp("site"), original)


@pytest.fixture
def copy(original, tmp_path):
    """A copy of it to be altered, alone in a folder."""
    path = tmp_path / "results" / original.name
    return synthetic_published.Copy(shutil.copytree(original, path))
