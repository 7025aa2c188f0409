"""What differs between the releases of Apache Hudi that are measured: one table, asked by all.

Table versions are those of `hoodie.table.version`. A release makes tables of its own version unless
`hoodie.write.table.version` (since 1.0) names another one.

| from release | own version | versions it can make | what else is new |
|---|---|---|---|
| 0.15.0 | 6 | 6 | the first with a bundle for Spark 3.5 |
| 1.0.0 | 8 | 6, 8 | merge modes; statistics of partitions; timeline in a folder of its own |
| | | | record index answers with a list of locations for each key |
| 1.0.2 | 8 | 6, 8 | metadata writer for tables of version 6; one location for each key again |
| 1.1.0 | 9 | 6, 8, 9 | record index of each partition; record index answers with locations |
| 1.2.0 | 9 | 6, 8, 9 | schemas are Hudi's own objects, no longer Avro's |
"""

from __future__ import annotations

from dataclasses import dataclass

BASE_VERSION = 6
"""The table version that Keymark writes, and that every release can make."""

WRITE_VERSION = "hoodie.write.table.version"
"""Hudi's option for the version of the tables that it makes."""

AUTO_UPGRADE = "hoodie.write.auto.upgrade"
"""Hudi's option, on by default: whether a write brings an older table to the version it makes."""

BUNDLED = ("0.15.0", "1.0.1", "1.0.2", "1.1.1", "1.2.0")
"""The releases with a bundle for Spark 3.5 in Maven Central, ascending.

1.0.0, 1.1.0 and 1.2.1 have none there. Advice names these; others may be asked for, since newer
releases come.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """What is true of a release and of those after it, up to the next one in the table.

    Attributes:
        first: the release.
        own_version: of the tables that it makes by default.
        versions: of the tables that it can make, ascending.
        has_merge_modes: whether `hoodie.record.merge.mode` says how rows are merged.
        has_locations: whether the record index is asked with, and answers with, distributed data.
        lists_locations: whether the record index answers with a list of locations for each key.
        schema_call: method of `TableSchemaResolver` that gives the schema of the rows.
        metadata_writer: class whose `create` opens the metadata table for writing.
    """

    first: tuple[int, int, int]
    own_version: int
    versions: tuple[int, ...]
    has_merge_modes: bool = True
    has_locations: bool = True
    lists_locations: bool = False
    schema_call: str = "getTableAvroSchema"
    metadata_writer: str = "SparkMetadataWriterFactory"


_RELEASES = (
    Release(
        first=(0, 15, 0),
        own_version=BASE_VERSION,
        versions=(6,),
        has_merge_modes=False,
        has_locations=False,
        metadata_writer="SparkHoodieBackedTableMetadataWriter",
    ),
    Release(
        first=(1, 0, 0),
        own_version=8,
        versions=(6, 8),
        has_locations=False,
        lists_locations=True,
        metadata_writer="SparkHoodieBackedTableMetadataWriter",
    ),
    Release(first=(1, 0, 2), own_version=8, versions=(6, 8), has_locations=False),
    Release(first=(1, 1, 0), own_version=9, versions=(6, 8, 9)),
    Release(first=(1, 2, 0), own_version=9, versions=(6, 8, 9), schema_call="getTableSchema"),
)

FIRST = _RELEASES[0].first
"""The first release that can be measured: no earlier one has a bundle for Spark 3.5."""


def number(version: str) -> tuple[int, int, int]:
    """The numbers of a release, as in `1.2.0`."""
    major, minor, patch = map(int, version.split("."))
    return major, minor, patch


def maker(table_version: int) -> str:
    """The first release with a bundle that makes tables of a version by default."""
    return next(name for name in BUNDLED if release(name).own_version == table_version)


def release(version: str) -> Release:
    """What is true of a release; of one that is newer than the table, what its last line says.

    Raises:
        LookupError: it is older than the first one.
    """
    for each in reversed(_RELEASES):
        if each.first <= number(version):
            return each
    raise LookupError(f"Hudi {version} is older than {'.'.join(map(str, FIRST))}")
