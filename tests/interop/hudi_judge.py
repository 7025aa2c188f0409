"""Ask a release of Apache Hudi about a table, and compare what it says.

`Hudi` is the process with one bundle. `findings` are all differences between what Hudi reads and
what must be there, each as a sentence: none for a good table. An exception of Hudi's is one, too.
"""

from __future__ import annotations

import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from table_cases import by_hudi_rs, files_stored

from keymark.harness.engines.pipe import Child
from keymark.harness.errors import CellError
from keymark.table.properties.config import decode_properties

VERSIONS = ("0.15.0", "1.1.1")
INDEXES = {
    "hoodie.metadata.enable": "true",
    "hoodie.metadata.record.index.enable": "true",
    "hoodie.enable.data.skipping": "true",
}
PARTITIONS = "hoodie.table.metadata.partitions"
ABSENT = ("", "absent", "k" * 300, "\x00", "€😀")

Place = tuple[str, str]
"""Partition path and file id."""


class Hudi:
    """One release of Hudi, in a process that lives as long as the tests that use it."""

    def __init__(self, version: str, jar: Path, folder: Path) -> None:
        self.version = version
        self._folder = folder
        script = Path(__file__).with_name("judge_child.py")
        command = [sys.executable, str(script), str(jar), str(folder)]
        self._child = Child(command, log=folder / "log", name=f"Hudi {version}")

    def read(
        self,
        root: Path,
        where: Mapping[str, Any] | None = None,
        options: Mapping[str, str] = INDEXES,
    ) -> tuple[pa.Table | None, int | None]:
        """The rows of a snapshot (None if there are none), and how many files were opened."""
        with tempfile.TemporaryDirectory(dir=self._folder) as folder:
            out = f"{folder}/rows.parquet"
            files = self._child.call(
                "read", table=str(root), out=out, options=dict(options), where=dict(where or {})
            )
            return (pq.read_table(out) if Path(out).exists() else None), files

    def write(self, root: Path, rows: pa.Table, operation: str, options: Mapping[str, str]) -> None:
        """One write through Hudi's data source."""
        with tempfile.TemporaryDirectory(dir=self._folder) as folder:
            pq.write_table(rows, f"{folder}/rows.parquet")
            self._child.call(
                "write",
                table=str(root),
                rows=f"{folder}/rows.parquet",
                operation=operation,
                options=dict(options),
            )

    def record_index(self, root: Path, keys: Iterable[str]) -> dict[str, list[str]]:
        """Key -> partition path, file id and instant, by readRecordIndex."""
        return self._child.call("record_index", table=str(root), keys=list(keys))

    def record_index_keys(self, root: Path) -> list[str]:
        """All keys of the record index."""
        return self._child.call("record_index_keys", table=str(root))

    def listing(self, root: Path) -> dict[str, int]:
        """Path -> size of the files that the metadata table lists."""
        found = self._child.call("listing", table=str(root))
        return {
            f"{partition}/{name}" if partition else name: size
            for partition, names in found.items()
            for name, size in names.items()
        }

    def configure(self, name: str, text: str) -> None:
        """Settings (the XML of a Hadoop configuration) for all that the process does from now."""
        (self._folder / name).write_text(text, encoding="utf-8")
        self._child.call("configure", name=name)

    def buckets(self, keys: Iterable[str], fields: Iterable[str], count: int) -> list[int]:
        """The bucket of each key in the simple bucket index."""
        return self._child.call("buckets", keys=list(keys), fields=",".join(fields), count=count)

    def close(self) -> None:
        """End the process."""
        self._child.close()


def properties(root: Path) -> dict[str, str]:
    """hoodie.properties of a table."""
    path = root / ".hoodie/hoodie.properties"
    return decode_properties(path.read_bytes(), str(path))


def metadata_partitions(root: Path) -> set[str]:
    """The metadata partitions that a table has in use."""
    return {name for name in properties(root).get(PARTITIONS, "").split(",") if name}


def texts(rows: pa.Table) -> list[str]:
    """Rows as texts that differ where any value of a data column does."""
    names = sorted(c for c in rows.column_names if not c.startswith("_hoodie_"))
    columns = [_values(rows[name]) for name in names]
    return [repr(dict(zip(names, row, strict=True))) for row in zip(*columns, strict=True)]


def _values(column: pa.ChunkedArray) -> list[Any]:
    """The values of a column; entries of a map have no order."""
    values = column.to_pylist()
    if not pa.types.is_map(column.type):
        return values
    return [None if value is None else sorted(value) for value in values]


def by_key(rows: pa.Table | None) -> dict[str, str]:
    """Record key -> its data columns as text, exactly; a key that occurs twice tells so."""
    if rows is None:
        return {}
    keys = rows["_hoodie_record_key"].to_pylist()
    found = dict(zip(keys, texts(rows), strict=True))
    twice = [key for key, count in Counter(keys).items() if count > 1]
    return {**found, **dict.fromkeys(twice, "occurs more than once")}


def places(rows: pa.Table | None) -> dict[str, Place]:
    """Record key -> where its row is, by the meta columns."""
    if rows is None:
        return {}
    names = ("_hoodie_record_key", "_hoodie_partition_path", "_hoodie_file_name")
    columns = [rows[name].to_pylist() for name in names]
    return {k: (p, file.rsplit("_", 2)[0]) for k, p, file in zip(*columns, strict=True)}


def findings(hudi: Hudi, root: Path, wanted: Mapping[str, str]) -> list[str]:
    """What is wrong with a table whose rows must be `wanted` (as `by_key` tells them)."""
    found: list[str] = []
    rows: pa.Table | None = None
    try:
        rows, _ = hudi.read(root)
        found += _differences("snapshot", by_key(rows), wanted)
        listed, _ = hudi.read(root, options={"hoodie.metadata.enable": "false"})
        found += _differences("snapshot without metadata table", by_key(listed), wanted)
    except CellError as error:
        found.append(f"snapshot: {error}")
    for check in (_point_queries, _record_index, _listing):
        try:
            found += check(hudi, root, rows)
        except CellError as error:
            found.append(f"{check.__name__.strip('_')}: {error}")
    try:
        named = [key for key, _, _ in by_hudi_rs(root)]
        found += _differences("hudi-rs", Counter(named), Counter(wanted.keys()))
    except Exception as error:  # noqa: BLE001  hudi-rs has no errors of its own
        found.append(f"hudi-rs: {error}")
    return found


def _differences(name: str, found: Mapping[str, Any], wanted: Mapping[str, Any]) -> list[str]:
    """A full outer comparison by key: one sentence with counts and an example, or none."""
    missing = sorted(wanted.keys() - found.keys())
    extra = sorted(found.keys() - wanted.keys())
    wrong = sorted(key for key in found.keys() & wanted.keys() if found[key] != wanted[key])
    if not missing and not extra and not wrong:
        return []
    told = f"{len(missing)} missing, {len(extra)} extra, {len(wrong)} wrong of {len(wanted)}"
    example = (missing or extra or wrong)[0]
    return [
        f"{name}: {told}: {example!r} is {found.get(example)}, not {wanted.get(example)}",
    ]


def _point_queries(hudi: Hudi, root: Path, rows: pa.Table | None) -> list[str]:
    """The first and the last key by their columns, and one that is absent."""
    if rows is None:
        return []
    found = []
    fields = properties(root)["hoodie.table.recordkey.fields"].split(",")
    ordered = rows.sort_by("_hoodie_record_key")
    if hudi.version.startswith("1."):
        # It misses a key with an empty part: see test_limits.py.
        empty = pc.match_substring(ordered["_hoodie_record_key"], ":__empty__")
        ordered = ordered.filter(pc.invert(empty))
    pruned = "record_index" in metadata_partitions(root) and len(fields) == 1
    for at in {0, len(ordered) - 1} if len(ordered) else ():
        row = ordered.slice(at, 1)
        read, files = hudi.read(root, {name: row[name][0].as_py() for name in fields})
        found += _differences("point query", by_key(read), by_key(row))
        if pruned and files != 1:
            found.append(f"point query: {files} files opened")
    if pa.types.is_string(rows.schema.field(fields[0]).type):
        read, files = hudi.read(root, {fields[0]: "absent"})
        found += _differences("point query for an absent key", by_key(read), {})
    return found


def _record_index(hudi: Hudi, root: Path, rows: pa.Table | None) -> list[str]:
    """What Hudi reads from the data against what its record index answers, key by key."""
    if "record_index" not in metadata_partitions(root):
        return []
    data = places(rows)
    asked = [*data, *(key for key in ABSENT if key not in data)]
    answers = hudi.record_index(root, asked)
    found = _differences(
        "record index", {key: tuple(place[:2]) for key, place in answers.items()}, data
    )
    found += _differences(
        "record index, all keys", Counter(hudi.record_index_keys(root)), Counter(data.keys())
    )
    times = {path.name.partition(".")[0] for path in (root / ".hoodie").glob("*.*commit")}
    start = min(times, default="")
    unknown = {place[2] for place in answers.values()} - times
    found += [f"record index: instant {time} is unknown" for time in unknown if time >= start]
    return found


def _listing(hudi: Hudi, root: Path, rows: pa.Table | None) -> list[str]:  # noqa: ARG001
    """The files that Hudi finds in the metadata table against those on storage, with sizes."""
    if "files" not in metadata_partitions(root):
        return []
    return _differences("listing", hudi.listing(root), files_stored(root))


def writer_options(
    hudi: Hudi, root: Path, extra: Mapping[str, str] | None = None
) -> dict[str, str]:
    """The options with which Hudi goes on writing to a table and keeps all that it has."""
    return {**options_of(properties(root), hudi.version), **(extra or {})}


def options_without_index(hudi: Hudi, root: Path) -> dict[str, str]:
    """Those of a user who does not ask for the record index."""
    own = ("hoodie.metadata.record.", "hoodie.index.type")
    asked = writer_options(hudi, root)
    return {name: value for name, value in asked.items() if not name.startswith(own)}


def options_of(known: Mapping[str, str], version: str) -> dict[str, str]:
    """The options of a Hudi writer for a table with these properties."""
    partitions = known.get(PARTITIONS, "").split(",")
    switches = {
        "record_index": "hoodie.metadata.record.index.enable",
        "column_stats": "hoodie.metadata.index.column.stats.enable",
        "bloom_filters": "hoodie.metadata.index.bloom.filter.enable",
    }
    options = {
        "hoodie.table.name": known["hoodie.table.name"],
        "hoodie.datasource.write.recordkey.field": known["hoodie.table.recordkey.fields"],
        "hoodie.datasource.write.partitionpath.field": known.get(
            "hoodie.table.partition.fields", ""
        ),
        "hoodie.datasource.write.keygenerator.class": known["hoodie.table.keygenerator.class"],
        "hoodie.datasource.write.precombine.field": known["hoodie.table.precombine.field"],
        "hoodie.metadata.enable": "true",
        "hoodie.index.type": "RECORD_INDEX",
        **{name: str(kind in partitions).lower() for kind, name in switches.items()},
        **{f"hoodie.{name}.shuffle.parallelism": "2" for name in _SHUFFLES},
        **{name: value for name, value in known.items() if name.startswith(_KEPT)},
    }
    if version.startswith("1."):
        options |= VERSION_6
    return options


VERSION_6 = {
    "hoodie.write.table.version": "6",
    "hoodie.write.auto.upgrade": "false",
    "hoodie.metadata.index.partition.stats.enable": "false",
}
_SHUFFLES = ("upsert", "insert", "bulkinsert", "delete")
_KEPT = (
    "hoodie.populate.meta.fields",
    "hoodie.index.type",
    "hoodie.bucket.index.",
    "hoodie.record.index.",
    "hoodie.simple.index.",
    "hoodie.bloom.index.",
    "hoodie.datasource.write.",
)
