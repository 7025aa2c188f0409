from __future__ import annotations

import pytest
from synthetic_runs import quickstart

from keymark.reports.publish import publish


@pytest.fixture(scope="session")
def published(tmp_path_factory):
    """The report on a quickstart run, written once; tests must not change its files."""
    return publish([quickstart(tmp_path_factory.mktemp("published") / "run")])
