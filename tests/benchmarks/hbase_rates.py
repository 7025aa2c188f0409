"""Keys a second of the HBase index beside the record index, on the same keys of the same rows.

    python tests/benchmarks/hbase_rates.py --rows 1000000 --asked 20000 --repetitions 5

Needs a running HBase (`make hbase`). Both tables get the same rows by a bulk insert, whose phase
`index` is the time of the entries; a connection puts 10,000 a second at most. HBase then writes
them to disk and compacts them; its filter is ROW. Lookups of present and of absent keys go through
`Table.lookup`, interleaved, a handle each; the record index decodes its blocks anew each time,
while HBase keeps its cache.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import shutil
import statistics
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa

from keymark import Table
from keymark.harness.hbase import server as hbase_server
from keymark.indexes.hbase.client import Access, connected

NAME = "keymark_rates"
FREE = str(10**9)


def keys_of(numbers, mark):
    """Random-looking keys of 36 characters, as UUIDs have."""
    return [hashlib.sha1(b"%s%d" % (mark, n)).hexdigest()[:36] for n in numbers.tolist()]


def options(running, batch, connections):
    return {
        "hoodie.index.hbase.table": NAME,
        "keymark.hbase.thrift.port": str(running.thrift_port),
        "keymark.hbase.thrift.connections": str(connections),
        "hoodie.index.hbase.get.batch.size": str(batch),
        "hoodie.index.hbase.put.batch.size": "10000",
    }


def load(folder, index, keys, given):
    """A table of the keys; seconds of its phase `index`."""
    table = Table.create(
        folder / index,
        record_key="k",
        ordering="ts",
        index=index,
        options={"hoodie.parquet.bloom.filter.enabled": "false", **given},
    )
    rows = pa.table({"k": keys, "ts": np.zeros(len(keys), np.int64)})
    return table.bulk_insert(rows).phases["index"]


def lookup(folder, index, asked, given, *, present):
    """Seconds of a lookup through a new handle."""
    table = Table.open(folder / index, options=given)
    start = time.perf_counter()
    found = table.lookup(asked)
    spent = time.perf_counter() - start
    missing = found["file_id"].null_count
    assert missing == (0 if present else len(asked)), f"{missing} of {len(asked)} not found"
    return spent


def settle(running):
    """HBase's rows on disk, in one file."""
    with connected(Access(hbase_server.HOST, running.thrift_port, NAME)) as client:
        client.flush()
        client.compact()
    time.sleep(20)


def measure(running, arguments):
    rng = np.random.default_rng(1)
    numbers = np.arange(arguments.rows)
    keys = keys_of(numbers, b"k")
    asked = {
        "present": [keys[n] for n in rng.choice(numbers, arguments.asked, replace=False)],
        "absent": keys_of(np.arange(arguments.asked), b"absent"),
    }
    shards = {
        "hoodie.metadata.record.index.min.filegroup.count": "4",
        "hoodie.metadata.record.index.max.filegroup.count": "4",
    }
    cold = {"keymark.hfile.block.cache.bytes": "0"}
    variants = {"record": ("record", cold)}
    for batch in arguments.batches:
        for connections in arguments.connections:
            name = f"hbase, batches of {batch}, connections {connections}"
            variants[name] = ("hbase", options(running, batch, connections))
    folder = Path(tempfile.mkdtemp(dir=arguments.folder))
    rates = {}
    try:
        for name, (index, given) in variants.items():
            shutil.rmtree(folder / index, ignore_errors=True)
            with connected(Access(hbase_server.HOST, running.thrift_port, NAME)) as client:
                client.drop()
            seconds = load(folder, index, keys, shards if index == "record" else given)
            rates[name] = {"put": [arguments.rows / seconds]}
        settle(running)
        for _ in range(arguments.repetitions):
            for name, (index, given) in variants.items():
                for kind, wanted in asked.items():
                    present = kind == "present"
                    spent = lookup(folder, index, wanted, given, present=present)
                    rates[name].setdefault(kind, []).append(len(wanted) / spent)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        with connected(Access(hbase_server.HOST, running.thrift_port, NAME)) as client:
            client.drop()
    return rates


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--asked", type=int, default=20_000)
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--batches", type=int, nargs="+", default=[1_000, 2_000, 10_000])
    parser.add_argument("--connections", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--folder", type=Path, help="where tables are made for the time being")
    arguments = parser.parse_args()
    running = hbase_server.running(hbase_server.default_folder())
    if running is None:
        sys.exit("no HBase runs: make hbase")
    rates = measure(running, arguments)
    for name, kinds in rates.items():
        told = {
            kind: f"{statistics.median(v):,.0f} ({min(v):,.0f} to {max(v):,.0f})"
            for kind, v in kinds.items()
        }
        sys.stdout.write(f"{name} {json.dumps(told)}\n")


if __name__ == "__main__":
    main()
