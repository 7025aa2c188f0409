"""The HBase index: an HBase table says where each key is.

    lookup      batches of gets over a few connections
    commit      puts of new keys before it, moves and deletes after it (table/index/external.py)

An entry stays as its key's first commit made it, as long as its file group exists: it names that
commit and the file group. One that was put for a row that is there names a commit that no rollback
takes back. Entries of commits that were taken back, or of file groups that are gone, do not count.
Source: SparkHoodieHBaseIndex of Hudi 0.15.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import ClassVar

import pyarrow as pa
import pyarrow.compute as pc

from keymark.indexes.hbase import client as hbase_client
from keymark.indexes.hbase.client import Access, NoHBaseTableError
from keymark.indexes.hbase.entries import (
    EnterWork,
    FileWork,
    GetWork,
    Rule,
    delete_entries,
    enter_file,
    enter_keys,
    get_entries,
    put_entries,
)
from keymark.indexes.hbase.rate_limit import RateLimit, Throttle
from keymark.indexes.hbase.spec import (
    HBASE_PUT_AUTO,
    HBASE_TABLE,
    SPEC,
    THRIFT_CONNECTIONS,
    THRIFT_HOST,
    THRIFT_PORT,
)
from keymark.indexes.shared.lookup_index import LookupIndex
from keymark.indexes.spec import IndexSpec
from keymark.table.errors import IndexUnavailableError
from keymark.table.format.kernels.order import key_order
from keymark.table.index.external import CHANGES, KeyPart, gone
from keymark.table.index.protocol import LOCATION_SCHEMA, IndexContext
from keymark.table.keygen.stored import StoredKeys
from keymark.table.properties.options import Options
from keymark.table.runtime.runner import Progress, ProgressRunner, pack
from keymark.table.state.table_state import TableState
from keymark.table.timeline.timeline import Timeline


class HBaseIndex(LookupIndex):
    """Global; its entries are outside the table (table.index.external.ExternalIndex).

    Where only Keymark writes, a tag is exact. A dead writer of Hudi's may have left entries of
    keys that are not there, so merging looks whether the key is there.
    """

    spec: ClassVar[IndexSpec] = SPEC
    name: ClassVar[str] = SPEC.name
    is_global: ClassVar[bool] = True
    is_exact: ClassVar[bool] = False

    def lookup(
        self, keys: pa.Array, context: IndexContext, partitions: pa.Array | None = None
    ) -> pa.Table:
        """Locate keys by their entries."""
        del partitions
        try:
            entries = _entries(keys, context)
        except NoHBaseTableError as error:
            # Without commits the HBase table need not be there yet.
            if Timeline.load(context.storage).commit_times():
                raise _lost(error, context) from error
            entries = CHANGES.empty_table()
        entries = entries.filter(_counts(entries, context))
        rows = pc.index_in(keys, value_set=entries["key"].combine_chunks())
        columns = [entries[name].combine_chunks().take(rows) for name in LOCATION_SCHEMA.names]
        return pa.table(columns, schema=LOCATION_SCHEMA)

    def enter(self, parts: Sequence[KeyPart], instant: str, context: IndexContext) -> pa.Table:
        """Put entries of keys that have none that counts; see table.index.external."""
        access, timeline = _access(context.options), Timeline.load(context.storage)
        rule = Rule.of(timeline, context.snapshot) if timeline.commit_times() else None
        if rule is None:
            # These are the table's first rows: an HBase table that is not there held nothing.
            with hbase_client.connected(access) as client:
                if not client.exists():
                    client.create()
        stretches = [(part, n) for part in parts for n in range(len(part.keys.stretches))]
        sizes = [size for part in parts for _, size in part.keys.stretches]
        shares = pack(sizes, context.options.integer(THRIFT_CONNECTIONS))
        pace = _pace(context.options, len(shares))
        works = [
            EnterWork(
                access=access,
                pace=pace,
                storage=context.storage,
                stretches=tuple(stretches[number] for number in share),
                instant=instant,
                rule=rule,
            )
            for share in shares
        ]
        weights = [sum(sizes[number] for number in share) for share in shares]
        try:
            known = context.runner.run(enter_keys, works, weights=weights, packed=False)
        except NoHBaseTableError as error:
            raise _lost(error, context) from error
        return pa.concat_tables(known)

    def change(self, changes: pa.Table, context: IndexContext) -> None:
        """Put and delete entries; see table.index.external."""
        if not changes.num_rows:
            return
        pace, stays = _pace(context.options, 1), pc.is_valid(changes["file_id"])
        throttle = Throttle(pace.put_batch)
        with hbase_client.connected(_access(context.options)) as client:
            put_entries(client, changes.filter(stays), pace, throttle)
            nowhere = changes.filter(pc.invert(stays))["key"].combine_chunks()
            delete_entries(client, nowhere, pace, throttle)

    def withdraw(self, keys: Iterable[pa.Array], instant: str, context: IndexContext) -> None:
        """Delete the entries of keys that name an instant."""
        for asked in keys:
            entries = _entries(asked.unique(), context)
            mine = entries.filter(pc.equal(entries["instant_time"], instant))
            self.change(gone(mine["key"].combine_chunks()), context)

    def rebuild(self, context: IndexContext, progress: Progress) -> int:
        """Empty the HBase table, or make it, and put an entry for each key of the snapshot.

        Each names a commit that stays as long as its key's row. Nobody may write to the table
        meanwhile.
        """
        access, options = _access(context.options), context.options
        with hbase_client.connected(access) as client:
            if client.exists():
                client.empty()
            else:
                client.create()
        pace = _pace(options, options.integer(THRIFT_CONNECTIONS))
        keys, storage = StoredKeys.of(context.config), context.storage
        timeline = Timeline.load(storage)
        works = [
            FileWork(access, pace, storage, file, keys, timeline.lasting(file.instant_time))
            for file in context.snapshot.files
        ]
        weights = [file.size for file in context.snapshot.files]
        return sum(
            ProgressRunner(context.runner, progress, "files").run(
                enter_file, works, weights=weights
            )
        )

    def erase(self, keys: pa.Array, context: IndexContext) -> str:
        """Delete the entries of keys and ask for a major compaction."""
        access, pace = _access(context.options), _pace(context.options, 1)
        with hbase_client.connected(access) as client:
            delete_entries(client, keys, pace, Throttle(pace.put_batch))
            client.compact()
        return (
            f"the keys' entries are deleted from {access}; HBase holds their bytes until its next "
            "flush and major compaction, and longer in its archive and old write-ahead logs: "
            f"`flush '{access.table}'` and `major_compact '{access.table}'` in the HBase shell "
            "hasten that"
        )


def _access(options: Options) -> Access:
    host, port = options.text(THRIFT_HOST), options.integer(THRIFT_PORT)
    return Access(host, port, options.text(HBASE_TABLE))


def _pace(options: Options, tasks: int) -> RateLimit:
    """The pace of a task; only where it must be computed HBase is asked for its servers."""
    servers = 1
    if options.flag(HBASE_PUT_AUTO):
        with hbase_client.connected(_access(options)) as client:
            servers = client.servers()
    return RateLimit.of(options, servers=servers, tasks=max(1, tasks))


def _entries(keys: pa.Array, context: IndexContext) -> pa.Table:
    """The entries (rows of CHANGES) of distinct keys that have one."""
    if not len(keys):
        return CHANGES.empty_table()
    options = context.options
    # Sorted, neighbours are in one block of HBase's: it is read once.
    ordered = keys.take(pa.array(key_order(keys)))
    connections = options.integer(THRIFT_CONNECTIONS)
    pace = RateLimit.of(options, servers=1, tasks=connections)
    size = max(pace.get_batch, -(-len(keys) // connections))
    works = [
        GetWork(_access(options), pace, ordered.slice(start, size))
        for start in range(0, len(keys), size)
    ]
    weights = [work.keys.nbytes for work in works]
    found = context.runner.run(get_entries, works, weights=weights, packed=False)
    return pa.concat_tables(found).combine_chunks()


def _counts(entries: pa.Table, context: IndexContext) -> pa.Array:
    """For each entry whether it counts.

    The timeline is read after the entries. Where an entry names a file group that the snapshot does
    not have, a writer may have opened it since: the table is then read anew.
    """
    rule = Rule.of(Timeline.load(context.storage), context.snapshot)
    committed, placed = rule.committed(entries), rule.placed(entries)
    if pc.any(pc.and_not(committed, placed)).as_py():
        placed = Rule.of(rule.timeline, TableState.load(context.storage).snapshot).placed(entries)
    return pc.and_(committed, placed)


def _lost(error: NoHBaseTableError, context: IndexContext) -> IndexUnavailableError:
    return IndexUnavailableError(
        f"{error}, which is the index of {context.storage.root}: "
        f"`keymark table index build {context.storage.root} hbase` makes it anew"
    )
