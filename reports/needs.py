"""What an index needs before it works: declared, for no run can measure it.

Options are those of Apache Hudi 0.15.0 that a writer must set, as HoodieIndexConfig,
HoodieMetadataConfig and HoodieHBaseIndexConfig have them: no default, a default that is another
index's, or, for buckets, a number that the table can never change. Steps are those that give the
index to a table which has rows already.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Needs:
    """What one index needs.

    Attributes:
        options: names of the options to set.
        steps: what to do to a table that has rows.
        servers: processes that must run beside the writer.
    """

    options: tuple[str, ...] = ()
    steps: tuple[str, ...] = ()
    servers: tuple[str, ...] = ()


_TYPE = "hoodie.index.type"

# Simple is what HoodieIndexConfig takes for Spark when nothing is said.
NEEDS = {
    "record": Needs(
        options=(_TYPE, "hoodie.metadata.record.index.enable"),
        steps=("build the index from the keys of the base files",),
    ),
    "global_simple": Needs(options=(_TYPE,)),
    "simple": Needs(),
    "global_bloom": Needs(options=(_TYPE,)),
    "bloom": Needs(options=(_TYPE,)),
    "bucket": Needs(
        options=(_TYPE, "hoodie.bucket.index.num.buckets"),
        steps=("write all rows anew, into buckets",),
    ),
    "hbase": Needs(
        options=(
            _TYPE,
            "hoodie.index.hbase.table",
            "hoodie.index.hbase.zkquorum",
            "hoodie.index.hbase.zkport",
        ),
        steps=("start HBase", "create its table", "put the keys of the base files"),
        servers=("HBase", "ZooKeeper"),
    ),
}
