"""The options that every call of Hudi gets: the same ones to each.

Hudi takes away every metadata index whose option is not set in the writer at hand, so the options
of the metadata table go to all calls. What Hudi leaves to the user (parallelism) is set to what
`native` does; a scenario's own options come last and win. A bulk insert keeps Hudi's default sort
mode, NONE: each task writes a file of each partition that it meets, as `native`'s tasks do. Where
rows are to lie in the order of their keys, it is GLOBAL_SORT: by partition path, then by key.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from keymark.harness.engines import HudiName, hudi_releases
from keymark.harness.engines.base import Layout
from keymark.harness.engines.formats import BY_KEY, ROW_ORDER
from keymark.indexes.installed import measured_specs
from keymark.table.properties.options import (
    BLOOM_FILTERS_ON,
    COLUMN_STATS_ON,
    INDEX_TYPE,
    PAYLOAD_CLASS,
    RECORD_INDEX_ON,
)

HBASE_CONF = "keymark-hbase.xml"
"""Name of the file on Hudi's class path with settings for its HBase client."""

_METADATA = {
    "record_index": RECORD_INDEX_ON,
    "column_stats": COLUMN_STATS_ON,
    "bloom_filters": BLOOM_FILTERS_ON,
}
_METADATA_OPTIONS = {
    "hoodie.metadata.enable": "true",
    "hoodie.enable.data.skipping": "true",
    RECORD_INDEX_ON: "false",
    COLUMN_STATS_ON: "false",
    BLOOM_FILTERS_ON: "false",
}
_PARALLEL = (
    "hoodie.upsert.shuffle.parallelism",
    "hoodie.insert.shuffle.parallelism",
    "hoodie.bulkinsert.shuffle.parallelism",
    "hoodie.delete.shuffle.parallelism",
    "hoodie.simple.index.parallelism",
    "hoodie.global.simple.index.parallelism",
    "hoodie.bloom.index.parallelism",
)
_MERGE_MODES = {
    "DefaultHoodieRecordPayload": "EVENT_TIME_ORDERING",
    "OverwriteWithLatestAvroPayload": "COMMIT_TIME_ORDERING",
}
_SORTED = {"hoodie.bulkinsert.sort.mode": "GLOBAL_SORT"}
_OVERWRITE = "org.apache.hudi.common.model.OverwriteWithLatestAvroPayload"


def table_options(
    layout: Layout, *, index: str, engine: HudiName, parallelism: int, options: Mapping[str, str]
) -> dict[str, str]:
    """The options of a table and its writer.

    Args:
        layout: how its rows are keyed, laid out and ordered.
        index: name of its index.
        engine: the release and the version of its tables.
        parallelism: tasks of each shuffle.
        options: the cell's.
    """
    given = {name: value for name, value in options.items() if name.startswith("hoodie.")}
    payload = given.get(PAYLOAD_CLASS, _OVERWRITE)
    return {
        "hoodie.table.name": layout.name,
        "hoodie.datasource.write.recordkey.field": ",".join(layout.record_key),
        "hoodie.datasource.write.partitionpath.field": ",".join(layout.partition_path),
        **(
            {"hoodie.datasource.write.precombine.field": layout.ordering} if layout.ordering else {}
        ),
        PAYLOAD_CLASS: payload,
        INDEX_TYPE: measured_specs()[index].table_type,
        **dict.fromkeys(_PARALLEL, str(parallelism)),
        **(_SORTED if options.get(ROW_ORDER) == BY_KEY else {}),
        **_version_options(engine, payload),
        **measured_specs()[index].hudi_options,
        **given,
    }


def _version_options(engine: HudiName, payload: str) -> dict[str, str]:
    """What a release needs to make tables of a version.

    Tables of version 6 are alike in all releases: without an index that 0.15 does not know, and
    with no statistics. In tables of a later version a release does what it does by default.
    """
    release, mode = hudi_releases.release(engine.version), payload.rpartition(".")[2]
    found = {}
    if release.has_merge_modes and mode in _MERGE_MODES:
        found["hoodie.record.merge.mode"] = _MERGE_MODES[mode]
    if not engine.is_own:
        found[hudi_releases.WRITE_VERSION] = str(engine.table_version)
        found[hudi_releases.AUTO_UPGRADE] = "false"
    if engine.table_version == hudi_releases.BASE_VERSION:
        found |= _METADATA_OPTIONS
        if not engine.is_own:
            found["hoodie.metadata.index.partition.stats.enable"] = "false"
    return found


def kept_options(partitions: Iterable[str]) -> dict[str, str]:
    """Options under which Hudi keeps the metadata partitions that a table has."""
    return {_METADATA[name]: "true" for name in partitions if name in _METADATA}
