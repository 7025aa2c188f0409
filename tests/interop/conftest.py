from __future__ import annotations

import sys
from pathlib import Path

import pytest

# The suite shares the cases of the tables' tests.
sys.path.append(str(Path(__file__).parents[1] / "table"))

from hudi_judge import VERSIONS, Hudi

from keymark.harness.engines.jars import bundle, missing_bundle
from keymark.table.runtime.spark import ensure_java


def pytest_addoption(parser):
    parser.addoption("--interop-full", action="store_true", help="every cell with every Hudi")


@pytest.fixture(scope="session", params=VERSIONS)
def started(request, tmp_path_factory):
    """A function that starts the process of a Hudi version at its first call."""
    opened = []

    def start():
        if not opened:
            ensure_java()
            folder = tmp_path_factory.mktemp(f"hudi-{request.param}")
            opened.append(Hudi(request.param, bundle(request.param), folder))
        return opened[0]

    start.version = request.param
    yield start
    for hudi in opened:
        hudi.close()


@pytest.fixture
def hudi(started, request):
    """Apache Hudi in a process of its own; skipped by name where its bundle is missing."""
    missing = missing_bundle(started.version)
    if missing:
        pytest.skip(f"{request.node.name}: {missing}")
    return started()


def pytest_configure(config):
    config.addinivalue_line("markers", "share(version): the Hudi with which the share runs a test")
    config.addinivalue_line("markers", "only(version): the one Hudi with which a test runs at all")


def pytest_collection_modifyitems(config, items):
    """Without --interop-full a test with a share runs with the Hudi of its share alone.

    A test of what one release does runs with that one only.

    One worker of pytest-xdist takes them all: a JVM for each release is enough.
    """
    for item in items:
        if "started" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.xdist_group("hudi"))
    marks = ("only",) if config.getoption("--interop-full", default=False) else ("only", "share")
    left_out = {item for item in items if _is_left_out(item, marks)}
    if left_out:
        config.hook.pytest_deselected(items=list(left_out))
        items[:] = [item for item in items if item not in left_out]


def _is_left_out(item, marks):
    told = [mark for name in marks if (mark := item.get_closest_marker(name))]
    return any(item.callspec.params["started"] != mark.args[0] for mark in told)
