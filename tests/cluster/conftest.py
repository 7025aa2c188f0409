from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

# The suite shares the cases of the tests of tables and indexes.
sys.path += [str(Path(__file__).parents[1] / folder) for folder in ("table", "indexes")]


@pytest.fixture(scope="session")
def cluster(tmp_path_factory):
    """A master and two workers of a core each."""
    from standalone import StandaloneCluster

    with StandaloneCluster(tmp_path_factory.mktemp("cluster")) as started:
        yield started


@pytest.fixture(scope="session")
def spark(cluster):
    """A session on all of the cluster; a process has one, so it is no other test's."""
    from keymark.table.runtime.spark import session

    # Tasks find the modules of the tests where the driver does.
    paths = os.pathsep.join(path for path in sys.path if path)
    opened = session(cluster.url, {**cluster.conf(), "spark.executorEnv.PYTHONPATH": paths})
    yield opened
    opened.stop()
