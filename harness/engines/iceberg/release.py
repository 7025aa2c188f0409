"""Apache Iceberg's releases. Which fit which Spark: https://iceberg.apache.org/multi-engine-support."""

from __future__ import annotations

from keymark.harness.engines.format_release import FormatRelease

RELEASE = FormatRelease(
    name="iceberg",
    title="Apache Iceberg",
    example="iceberg@1.10.0",
    artifacts=(("org/apache/iceberg", "iceberg-spark-runtime-3.5_2.12"),),
    first=(1, 4, 0),
    newest=(1, 11, 0),
    end=None,
    for_later_spark=(
        "Iceberg's build for Spark 4.0 is iceberg-spark-runtime-4.0_2.13, from 1.10.0 on; "
        "Keymark measures builds for Spark 3.5"
    ),
    untold=(
        "it reports no phases: they are read off the stages of its MERGE. Planning and the commit "
        "are between them, and a stage that both finds rows and rewrites them counts as writing."
    ),
    orders=("key", "zorder"),
)
