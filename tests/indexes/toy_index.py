"""An index that no module of Keymark knows: global, its entries in a file outside of the table."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from pathlib import Path
from typing import ClassVar

import pyarrow as pa

from keymark.indexes.spec import Equation, IndexCost, IndexOption, IndexSpec, LookupCounter
from keymark.table.index.build.scan import record_keys
from keymark.table.index.external import CHANGES
from keymark.table.index.protocol import LOCATION_SCHEMA
from keymark.table.keygen.stored import StoredKeys
from keymark.table.timeline.timeline import Timeline

FOLDER = "toy.index.folder"
COUNTER = "toy_entries_read"

SPEC = IndexSpec(
    name="toy",
    table_type="TOY",
    is_global=True,
    is_exact=False,
    color="#123456",
    entries="folder",
    entries_option=FOLDER,
    options=(IndexOption(name=FOLDER, fixed=True),),
    counters=(LookupCounter(name=COUNTER, title="entries read by the toy"),),
    cells="toy_index:ToyCells",
    cost=IndexCost(
        equations={"tag": Equation("tag/toy", lambda at, _mode: {"keys": at.batch})},
        weight=lambda at: at.batch,
        memory=lambda at: at.batch * at.key_bytes,
    ),
)


def stored(folder):
    """Key -> [partition path, file id, instant]."""
    path = Path(folder) / "entries.json"
    return json.loads(path.read_text()) if path.exists() else {}


def store(folder, entries):
    Path(folder).mkdir(parents=True, exist_ok=True)
    path = Path(folder) / "entries.json"
    path.with_suffix(".new").write_text(json.dumps(entries))
    os.replace(path.with_suffix(".new"), path)  # noqa: PTH105


def changed(folder, changes):
    entries = stored(folder)
    for row in changes.to_pylist():
        key, *place = (row[name] for name in CHANGES.names)
        entries.pop(key, None)
        if place[1] is not None:
            entries[key] = place
    store(folder, entries)


class ToyIndex:
    """Implements keymark.table.index.external.ExternalIndex."""

    spec: ClassVar[IndexSpec] = SPEC
    name: ClassVar[str] = SPEC.name
    is_global: ClassVar[bool] = SPEC.is_global
    is_exact: ClassVar[bool] = SPEC.is_exact

    def tag(self, keys, partitions, context):
        return self.lookup(keys, context, partitions)

    def lookup(self, keys, context, partitions=None):
        del partitions
        found = self._counting(context)
        context.stats.count(COUNTER, len(found))
        rows = [found.get(key, (None, None, None)) for key in keys.to_pylist()]
        columns = [pa.array(column, pa.string()) for column in zip(*rows, strict=True)]
        return pa.table(columns or [[], [], []], schema=LOCATION_SCHEMA)

    def buckets(self, keys, config, options):
        del keys, config, options

    def enter(self, parts, instant, context):
        counting, known = self._counting(context), []
        entries = stored(self._folder(context))
        for part in parts:
            for number in range(len(part.keys.stretches)):
                for row in part.keys.read(context.storage, number).to_pylist():
                    change = [*part.places[row["file"]], instant]
                    if row["key"] in counting:
                        known.append([row["key"], *change])
                    else:
                        entries[row["key"]] = change
        store(self._folder(context), entries)
        columns = list(zip(*known, strict=True)) or [[]] * 4
        return pa.table([pa.array(c, pa.string()) for c in columns], schema=CHANGES)

    def change(self, changes, context):
        changed(self._folder(context), changes)

    def withdraw(self, keys, instant, context):
        asked = {key for batch in keys for key in batch.to_pylist()}
        entries = stored(self._folder(context))
        left = {k: e for k, e in entries.items() if k not in asked or e[2] != instant}
        store(self._folder(context), left)

    def rebuild(self, context, progress):
        del progress
        entries, keys = {}, StoredKeys.of(context.config)
        for file in context.snapshot.files:
            place = [file.partition_path, file.file_id, file.instant_time]
            for batch in record_keys(context.storage, file, keys):
                entries |= dict.fromkeys(batch.to_pylist(), place)
        store(self._folder(context), entries)
        return len(entries)

    def erase(self, keys, context):
        gone = set(keys.to_pylist())
        entries = stored(self._folder(context))
        store(self._folder(context), {k: e for k, e in entries.items() if k not in gone})
        return "the keys' entries are gone"

    def _folder(self, context):
        return context.options.text(FOLDER)

    def _counting(self, context):
        """Entries of commits that are visible and file groups that are there."""
        entries = stored(self._folder(context))
        times = set(Timeline.load(context.storage).commit_times())
        places = context.snapshot.by_location()
        return {
            key: (path, file, time)
            for key, (path, file, time) in entries.items()
            if time in times and (path, file) in places
        }


class ToyCells:
    """Implements keymark.harness.run.outside_entries.CellEntries."""

    def missing(self):
        return None

    def options(self, run_id, number):
        return {FOLDER: f"{tempfile.gettempdir()}/toy-{run_id}-{number}"}

    def renew(self, options):
        shutil.rmtree(options[FOLDER], ignore_errors=True)

    def put(self, options, entries):
        changed(options[FOLDER], entries)

    def delete(self, options, keys):
        entries = stored(options[FOLDER])
        for key in keys.to_pylist():
            entries.pop(key, None)
        store(options[FOLDER], entries)

    def settle(self, options):
        pass

    def index_bytes(self, options, listed):
        del listed
        return sum(file.stat().st_size for file in Path(options[FOLDER]).glob("*"))

    def clear(self, options):
        self.renew(options)
