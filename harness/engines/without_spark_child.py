"""The process of `native@without-spark`: Keymark's tables and pyarrow, with calls over a pipe.

It does what a user without Spark does: reads a batch's files into Arrow and hands them to the
table, and reads through `Table.scan`. A load is one Arrow table in memory.
"""

from __future__ import annotations

import functools
import operator
import os
import platform
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

import keymark
from keymark.datasets.generate.digest import RowsDigest
from keymark.harness.engines import pipe_server, revision_child
from keymark.harness.engines.libraries.child import plainly, read, use_cores
from keymark.harness.engines.libraries.conditions import Test, column_tests

_OPERATORS: Mapping[str, Callable[[Any, Any], Any]] = {
    "in": operator.eq,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


class Session(revision_child.Session):
    """The tables by number; those of `revision_child` with a Spark session that is none."""

    def __init__(self) -> None:
        super().__init__(str(Path(keymark.__file__).parents[1]))
        self._spark: Any = None

    def start(self, *, cores: int) -> dict[str, Any]:  # type: ignore[override]  # no master
        """Set how many cores are used; versions of what matters."""
        use_cores(cores)
        versions = {name: version(name) for name in ("pyarrow", "numpy", "numba")}
        return {"versions": {**versions, "python": platform.python_version()}}

    def find(  # type: ignore[override]  # rows are mappings, not Spark's
        self, *, table: int, keys: list[str] | None, where: str | None
    ) -> list[dict[str, Any]]:
        """The rows of some keys, or of a condition."""
        opened = self._table(table)
        if where is None:
            self._found = opened.scan(keys=keys)
            return list(self._found.to_arrow().to_pylist())
        condition = _expression(column_tests(where))
        self._found = replace(opened.scan(), files=opened.files(where))
        return [row for rows in self._found.tables() for row in rows.filter(condition).to_pylist()]

    def opened(self) -> list[str]:
        """Names of the files that the last `find` opened."""
        return [file.path for file in self._found.files]

    def digest(self, *, table: int, columns: Sequence[str]) -> tuple[int, str]:
        """Rows and digest of a table."""
        names, total = sorted(columns), RowsDigest()
        for rows in self._table(table).scan(columns=names).tables():
            total += RowsDigest.of(plainly(rows), names)
        return total.rows, total.hex

    def _rows(self, files: tuple[str, ...]) -> pa.Table:
        """The rows of files."""
        return read(files)

    def cancel(self) -> None:
        """End what runs, and with it the process; called beside it."""
        os._exit(1)

    def close(self) -> None:
        """Nothing is left open that matters."""


def _expression(tests: Sequence[Test]) -> pc.Expression:
    """The rows that pass all tests; each test that one of its values passes."""
    passed = [
        functools.reduce(
            operator.or_, [_OPERATORS[op](pc.field(column), value) for value in values]
        )
        for column, op, values in tests
    ]
    return functools.reduce(operator.and_, passed)


def main() -> None:
    """Serve the parent."""
    os.environ["TZ"] = "UTC"
    time.tzset()
    pipe_server.serve(Session(), explain=revision_child.explain)


if __name__ == "__main__":
    main()
