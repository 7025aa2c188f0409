"""The process of one revision of Keymark: Spark and its tables, which gets calls over a pipe.

Run as a file, with the root of the revision as its first argument: the packages are the revision's,
only this file and the pipe are those of the run. So what it takes and gives is built of Python's
and Arrow's own types, and nothing is asked of the revision but what `PLACES` names.
"""

from __future__ import annotations

import dataclasses
import importlib
import importlib.util
import os
import sys
import time
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, Row

    from keymark import Table

PLACES = {
    "Table": ("keymark", "table"),
    "LookupStats": ("keymark", "table.index.protocol", "table.write.index"),
    "SeededIds": ("keymark.table.runtime.ids", "table.ids"),
    "digest_dataframe": ("keymark.datasets.generate.spark", "datasets.spark"),
    "REQUEST_LOG": ("keymark.table.properties.options",),
    "session": ("keymark.table.runtime.spark", "table.spark"),
}
"""What is asked of a revision: its module now, and those before there was a package `keymark`."""

KEPT = 16
"""Tables that stay open, those that were used last: after each step another one is opened to verify
the one that is measured."""

_WORKERS_PATH = "spark.executorEnv.PYTHONPATH"


class Session:
    """Spark, and the tables of a revision by number.

    Args:
        root: of the revision.
    """

    def __init__(self, root: str) -> None:
        self._root = root
        self._tables: OrderedDict[int, Table] = OrderedDict()
        self._frames: dict[tuple[str, ...], DataFrame] = {}
        self._count = 0
        self._keys: pa.StringArray | None = None
        self._found: Any = None
        self._scan: Any = None

    def start(self, *, master: str, conf: Mapping[str, str]) -> dict[str, str]:
        """Start Spark; the options that it runs with."""
        self._spark = self._of_revision("session")(master, {**conf, **_workers(self._root, conf)})
        return dict(self._spark.sparkContext.getConf().getAll())

    def seeded(self) -> bool:
        """Whether the revision makes file ids from a seed."""
        return bool(self._ids("loaded"))

    def counts_requests(self) -> bool:
        """Whether the revision counts its requests to an object store."""
        try:
            return bool(self._of_revision("REQUEST_LOG"))
        except (ImportError, AttributeError):
            return False

    def begin(self, *, properties: Mapping[str, str]) -> None:
        """What runs from now on carries these local properties."""
        for name, value in properties.items():
            self._spark.sparkContext.setLocalProperty(name, value)

    def end(self, *, names: Sequence[str]) -> None:
        """What runs from now on carries them no longer."""
        for name in names:
            self._spark.sparkContext.setLocalProperty(name, None)

    def cancel(self) -> None:
        """End the jobs that run; called beside them."""
        self._spark.sparkContext.cancelAllJobs()

    def create(self, *, path: str, **arguments: Any) -> int:
        """Make a table; its number."""
        table = self._of_revision("Table")
        made = table.create(path, spark=self._spark, **arguments, **self._ids("loaded"))
        return self._keep(made)

    def open(self, *, path: str, options: Mapping[str, str]) -> int:
        """Open a table; its number."""
        table = self._of_revision("Table")
        opened = table.open(path, options=options, spark=self._spark, **self._ids("repeated"))
        return self._keep(opened)

    def hold_rows(self, *, files: tuple[str, ...]) -> None:
        """Know the rows of Parquet files, by the files' names."""
        if files not in self._frames:
            self._frames[files] = self._spark.read.parquet(*files)

    def write(self, *, table: int, operation: str, files: tuple[str, ...]) -> dict[str, Any]:
        """Write held rows."""
        done = getattr(self._table(table), operation)(self._rows(files))
        return {"files_written": done.files_written, "phases": dict(done.phases)}

    def hold_keys(self, *, keys: pa.StringArray) -> None:
        """Keep the keys of the next lookup."""
        self._keys = keys

    def lookup(self, *, table: int) -> dict[str, int]:
        """Look the held keys up; what the lookup touched."""
        stats = self._of_revision("LookupStats")()
        self._found = self._table(table).lookup(self._keys, stats=stats)
        return dataclasses.asdict(stats)

    def places(self) -> pa.Table:
        """The answer of the last lookup."""
        return self._found

    def find(self, *, table: int, keys: list[str] | None, where: str | None) -> list[Row]:
        """The rows of some keys, or of a condition."""
        self._found = self._table(table).read(keys=keys, where=where)
        return list(self._found.collect())

    def opened(self) -> list[str]:
        """Names of the files that the last `find` opened."""
        return list(self._found.inputFiles())

    def scan(self, *, table: int, keys: list[str] | None) -> list[str]:
        """Plan a read without Spark; names of the files that it opens."""
        self._scan = self._table(table).scan(keys=keys)
        return [file.path for file in self._scan.files]

    def scanned(self) -> pa.Table:
        """The rows of the last `scan`."""
        return self._scan.to_arrow()

    def digest(self, *, table: int, columns: list[str]) -> tuple[int, str]:
        """Rows and digest of a table."""
        digest = self._of_revision("digest_dataframe")
        found = digest(self._table(table).read(), columns)
        return found.rows, found.digest

    def index(self, *, table: int) -> str:
        """The index that a table says it uses."""
        return str(self._table(table).info().index)

    def check(self, *, table: int) -> dict[str, Any]:
        """Compare record index and data."""
        found = self._table(table).check()
        return {
            name: getattr(found, name) for name in ("ok", "missing", "extra", "wrong", "duplicate")
        }

    def compact(self, *, table: int) -> str | None:
        """Merge the log blocks of the index."""
        instant = self._table(table).compact()
        return None if instant is None else str(instant)

    def drop_index(self, *, table: int) -> None:
        """Take the record index away."""
        self._table(table).drop_index()

    def build_index(self, *, table: int) -> None:
        """Build the record index of the rows that are there."""
        self._table(table).build_index()

    def purge(self, *, table: int, files: tuple[str, ...]) -> dict[str, Any]:
        """Erase held keys from all that a table keeps."""
        found = self._table(table).purge(self._rows(files))
        names = ("keys", "files_rewritten", "files_left", "proven")
        return {name: getattr(found, name) for name in names}

    def _rows(self, files: tuple[str, ...]) -> Any:
        """The rows of files that are held."""
        return self._frames[files]

    def close(self) -> None:
        """Stop Spark; its event log is complete after that."""
        self._spark.stop()

    def _of_revision(self, name: str) -> Any:
        """What is asked of the revision; ImportError where it has none."""
        now, *before = PLACES[name]
        modules = [now] if Path(self._root, "keymark").is_dir() else before
        for module in modules:
            with suppress(ModuleNotFoundError):
                return getattr(importlib.import_module(module), name)
        raise ImportError(f"the revision has no {name}")

    def _ids(self, seed: str) -> dict[str, Any]:
        """The argument that names files from a seed, of revisions that have it; as in `native`."""
        try:
            return {"ids": self._of_revision("SeededIds")(seed)}
        except ImportError:
            return {}

    def _table(self, number: int) -> Table:
        self._tables.move_to_end(number)
        return self._tables[number]

    def _keep(self, table: Table) -> int:
        self._count += 1
        self._tables[self._count] = table
        if len(self._tables) > KEPT:
            self._tables.popitem(last=False)
        return self._count


def _workers(root: str, conf: Mapping[str, str]) -> dict[str, str]:
    """Spark options by which Python workers import the revision's packages, as this process does.

    Without them a worker takes those of the folder that the run was started in, or of the
    environment: those of the work tree.
    """
    before = conf.get(_WORKERS_PATH)
    return {
        _WORKERS_PATH: os.pathsep.join([root, *([before] if before else [])]),
        "spark.executorEnv.PYTHONSAFEPATH": "1",  # not the folder that it was started in
    }


def explain(error: Exception) -> str:
    """Kind and first line of an error."""
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0] if lines else ''}"


def main() -> None:
    """Serve the parent with the packages of the revision."""
    # In place of this file's folder, whose modules are the run's.
    sys.path[0] = sys.argv[1]
    os.environ["TZ"] = "UTC"
    time.tzset()
    spec = importlib.util.spec_from_file_location(
        "keymark_pipe", Path(__file__).with_name("pipe_server.py")
    )
    if spec is None or spec.loader is None:
        raise AssertionError("the pipe lies beside this file")
    pipe = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(pipe)
    pipe.serve(Session(sys.argv[1]), explain=explain)


if __name__ == "__main__":
    main()
