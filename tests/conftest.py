from __future__ import annotations

import os

import pytest
from hypothesis import settings

# The first example may have to wait for a kernel's compilation.
settings.register_profile("keymark", deadline=None)
settings.load_profile("keymark")
os.environ.setdefault("TZ", "UTC")


@pytest.fixture(scope="session")
def spark():
    """One local session for all tests that are marked `spark`."""
    from table.spark import session

    opened = session(
        "local[2]",
        {
            "spark.ui.enabled": "false",
            "spark.sql.shuffle.partitions": "2",
            "spark.default.parallelism": "2",
            "spark.driver.memory": "2g",
            "spark.sql.sources.parallelPartitionDiscovery.threshold": "1000",
        },
    )
    yield opened
    opened.stop()
