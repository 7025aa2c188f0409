"""The HBase index: an HBase table says where each key is."""

from __future__ import annotations

from keymark.indexes.shared.cost import asked_bytes, entry_weight
from keymark.indexes.spec import Equation, IndexCost, IndexOption, IndexSpec, Requirements
from keymark.indexes.workload import Workload

HBASE_MOVE = "hoodie.hbase.index.update.partition.path"
HBASE_TABLE = "hoodie.index.hbase.table"
HBASE_QUORUM = "hoodie.index.hbase.zkquorum"
HBASE_PORT = "hoodie.index.hbase.zkport"
HBASE_GET_BATCH = "hoodie.index.hbase.get.batch.size"
HBASE_PUT_BATCH = "hoodie.index.hbase.put.batch.size"
HBASE_PUT_AUTO = "hoodie.index.hbase.put.batch.size.autocompute"
HBASE_SHARE = "hoodie.index.hbase.qps.fraction"
HBASE_PACE = "hoodie.index.hbase.max.qps.per.region.server"
THRIFT_HOST = "keymark.hbase.thrift.host"
THRIFT_PORT = "keymark.hbase.thrift.port"
THRIFT_CONNECTIONS = "keymark.hbase.thrift.connections"

_ALLOCATOR = "org.apache.hudi.index.hbase.DefaultHBaseQPSResourceAllocator"


def _only(name: str, value: str) -> IndexOption:
    """An option of which one value is supported."""
    return IndexOption(name=name, default=value, choices=(value,))


OPTIONS = (
    IndexOption(name=HBASE_MOVE, default="false", fixed=True),
    IndexOption(name=HBASE_TABLE, fixed=True),
    IndexOption(name=HBASE_QUORUM),
    IndexOption(name=HBASE_PORT),
    IndexOption(name="hoodie.index.hbase.zknode.path"),
    IndexOption(name=HBASE_GET_BATCH, default="100", positive=True),
    IndexOption(name=HBASE_PUT_BATCH, default="100", positive=True),
    IndexOption(name=HBASE_PUT_AUTO, default="false"),
    IndexOption(name=HBASE_SHARE, default="0.5", share=True),
    IndexOption(name=HBASE_PACE, default="1000", positive=True),
    _only("hoodie.index.hbase.qps.allocator.class", _ALLOCATOR),
    _only("hoodie.index.hbase.dynamic_qps", "false"),
    _only("hoodie.index.hbase.rollback.sync", "true"),
    _only("hoodie.index.hbase.security.authentication", "simple"),
    IndexOption(name=THRIFT_HOST, default="127.0.0.1"),
    IndexOption(name=THRIFT_PORT, default="9090", positive=True),
    IndexOption(name=THRIFT_CONNECTIONS, default="2", positive=True),
)

UNSUPPORTED = {
    "hoodie.index.hbase.min.qps.fraction": "sharing HBase's load between jobs",
    "hoodie.index.hbase.max.qps.fraction": "sharing HBase's load between jobs",
    "hoodie.index.hbase.zkpath.qps_root": "sharing HBase's load between jobs",
    "hoodie.index.hbase.desired_puts_time_in_secs": "sharing HBase's load between jobs",
    "hoodie.index.hbase.sleep.ms.for.put.batch": "pausing between batches (as in Hudi)",
    "hoodie.index.hbase.sleep.ms.for.get.batch": "pausing between batches (as in Hudi)",
    "hoodie.index.hbase.zk.session_timeout_ms": "asking ZooKeeper",
    "hoodie.index.hbase.zk.connection_timeout_ms": "asking ZooKeeper",
    "hoodie.index.hbase.kerberos.user.keytab": "Kerberos",
    "hoodie.index.hbase.kerberos.user.principal": "Kerberos",
    "hoodie.index.hbase.regionserver.kerberos.principal": "Kerberos",
    "hoodie.index.hbase.master.kerberos.principal": "Kerberos",
}


def tag(at: Workload, mode: str) -> dict[str, float]:
    """Round trips of `hoodie.index.hbase.get.batch.size` keys each; the server does the rest.

    A key that is there costs it an answer of three cells, one that is not ends at a row filter.
    """
    return {f"once_{mode}": 1.0, "found": at.updates, "absent": at.inserts}


def index(at: Workload, mode: str) -> dict[str, float]:
    """Puts of the new keys, as many a second as the options let pass."""
    return {f"once_{mode}": 1.0, "keys": at.inserts}


SPEC = IndexSpec(
    name="hbase",
    table_type="HBASE",
    is_global=True,
    is_exact=False,
    order=7,
    color="#f0e442",
    entries="HBase table",
    entries_option=HBASE_TABLE,
    move_option=HBASE_MOVE,
    options=OPTIONS,
    unsupported_options=UNSUPPORTED,
    requirements=Requirements(
        options=("hoodie.index.type", HBASE_TABLE, HBASE_QUORUM, HBASE_PORT),
        steps=("start HBase", "create its table", "put the keys of the base files"),
        servers=("HBase", "ZooKeeper"),
    ),
    in_hudi=True,
    hudi_before=(1, 1, 0),
    cells="keymark.indexes.hbase.cells:HBaseCells",
    # Hudi's row writer makes no entries in HBase: the next upsert would find none of its keys.
    hudi_options={"hoodie.datasource.write.row.writer.enable": "false"},
    cost=IndexCost(
        equations={
            # A lookup is fitted with tagging, as it asks another share of known keys.
            "tag": Equation("tag/hbase", tag),
            "lookup": Equation("tag/hbase", tag),
            "index": Equation("index/hbase", index),
        },
        weight=entry_weight,
        memory=asked_bytes,
    ),
)
