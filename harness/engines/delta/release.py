"""Delta Lake's releases. Which fit which Spark: https://docs.delta.io/releases."""

from __future__ import annotations

from keymark.harness.engines.format_release import FormatRelease

RELEASE = FormatRelease(
    name="delta",
    title="Delta Lake",
    example="delta@3.3.2",
    artifacts=(("io/delta", "delta-spark_2.12"), ("io/delta", "delta-storage")),
    first=(3, 0, 0),
    newest=(3, 3, 2),
    end=(4, 0, 0),
    for_later_spark=(
        "Delta Lake 4.0 is built for Spark 4.0, and 4.1 for Spark 4.1 and 4.0 "
        "(delta-spark_4.1_2.13); Keymark measures builds for Spark 3.5"
    ),
    untold=(
        "a MERGE measures reading the batch, finding rows and rewriting files itself; planning "
        "before it and the commit after it are between the phases."
    ),
    orders=("zorder",),
    unordered="Delta sorts no rows: keymark.row.order = zorder orders them by OPTIMIZE ZORDER BY",
)
