"""Iceberg in words of Spark's SQL.

Tables are those of a Hadoop catalog, which keeps a table in a folder of its namespace: the table at
`<warehouse>/<namespace>/<name>` is `<catalog>.<namespace>.<name>`. Each warehouse is a catalog of
its own, without a cache. Sources: https://iceberg.apache.org/docs/latest/spark-configuration
(catalogs), /configuration (table properties), /spark-writes (MERGE), /spark-procedures.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path

from keymark.harness.engines.format_dialect import (
    CODEC,
    FILE_SIZE,
    Written,
    own_properties,
    own_settings,
)
from keymark.harness.engines.formats import BY_Z_ORDER, ROW_ORDER
from keymark.harness.engines.iceberg import own_copy
from keymark.harness.sql_text import named, quoted
from keymark.harness.tables.formats.iceberg_files import IcebergReader

_REWRITE = "rewrite_data_files."
"""Begins options of the cell that are the procedure's and not the table's."""

_PROPERTIES = {
    CODEC: "write.parquet.compression-codec",
    FILE_SIZE: "write.target-file-size-bytes",
}


class IcebergDialect:
    """How tables of Iceberg are made, changed and read."""

    source = "iceberg"
    file_name = "_file"

    def session(self, _parallelism: int) -> dict[str, str]:
        """Iceberg's extensions; its catalogs are named when they are needed."""
        extension = "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions"
        return {"spark.sql.extensions": extension}

    def relation(self, place: str) -> str:
        """The table of a catalog."""
        catalog, namespace, name = _named(place)
        return f"{catalog}.{named(namespace)}.{named(name)}"

    def settings(self, place: str, options: Mapping[str, str]) -> dict[str, str]:
        """The catalog of the folder above the table's namespace."""
        catalog, _, _ = _named(place)
        prefix = f"spark.sql.catalog.{catalog}"
        return {
            prefix: "org.apache.iceberg.spark.SparkCatalog",
            f"{prefix}.type": "hadoop",
            f"{prefix}.warehouse": _warehouse(place),
            f"{prefix}.cache-enabled": "false",
            **own_settings(options),
        }

    def properties(self, options: Mapping[str, str]) -> dict[str, str]:
        """Codec and file size in Iceberg's words, and those that the cell names."""
        own = own_properties(options)
        return {
            **{theirs: options[name] for name, theirs in _PROPERTIES.items() if name in options},
            **{name: value for name, value in own.items() if not name.startswith(_REWRITE)},
        }

    def compaction(
        self, place: str, options: Mapping[str, str], *, order_by: Sequence[str] = ()
    ) -> tuple[str, ...]:
        """Rewriting of data files, then of position deletes.

        In order, all files are rewritten, as Delta does: by default only small ones would be.
        """
        catalog, namespace, name = _named(place)
        table = quoted(f"{named(namespace)}.{named(name)}")
        given = {"rewrite-all": "true"} if order_by else {}
        given |= {
            name.removeprefix(_REWRITE): value
            for name, value in options.items()
            if name.startswith(_REWRITE)
        }
        pairs = ", ".join(quoted(text) for pair in given.items() for text in pair)
        more = f", options => map({pairs})" if given else ""
        if order_by:
            order = quoted(_sort_order(options, order_by))
            more = f", strategy => 'sort', sort_order => {order}{more}"
        return (
            f"CALL {catalog}.system.rewrite_data_files(table => {table}{more})",
            f"CALL {catalog}.system.rewrite_position_delete_files(table => {table})",
        )

    def written(self, table: Path) -> Written:
        """Files of the latest snapshot; Iceberg measures no times."""
        return Written(files=IcebergReader().last_commit(table).files)

    def settle(self, where: str, place: str, *, connection: Mapping[str, str]) -> None:
        """Paths in Iceberg's metadata are absolute: a copy gets those of its own folder."""
        own_copy.settle(where, place, connection=connection)


def _sort_order(options: Mapping[str, str], columns: Sequence[str]) -> str:
    """The order of rows, as the procedure reads it."""
    if options.get(ROW_ORDER) == BY_Z_ORDER:
        return f"zorder({', '.join(map(named, columns))})"
    return ", ".join(f"{named(column)} ASC NULLS FIRST" for column in columns)


def _named(place: str) -> tuple[str, str, str]:
    """Catalog, namespace and name of the table at a path or URL."""
    parent, _, name = place.rstrip("/").rpartition("/")
    _, _, namespace = parent.rpartition("/")
    return f"keymark_{zlib.crc32(_warehouse(place).encode()):08x}", namespace, name


def _warehouse(place: str) -> str:
    return place.rstrip("/").rsplit("/", 2)[0]
