"""Tables as a source of Spark's own reader, on PySpark 4.1 and later.

from keymark.table.source import register
register(spark)
spark.read.format("keymark").load("path").where("uuid = '...'")

Conditions on the key columns are asked of the record index before any file is opened.

Spark (seen in 4.3.0) keeps the files of a condition with the loaded DataFrame: another read of the
same one, with no condition, or beside it in one query, gets those files. So each read needs a
`load` of its own.
"""

from __future__ import annotations

import re
import warnings
from typing import Any

from keymark.table.errors import TableWarning, UnsupportedTableError
from keymark.table.source.name import FORMAT

_PUSHDOWN = "spark.sql.python.filterPushdown.enabled"
_SINCE = (4, 1)


def register(spark: Any) -> None:
    """Make `spark.read.format("keymark")` known to a session, with conditions handed down to it.

    Raises:
        UnsupportedTableError: this PySpark hands no conditions to a Python source; use Table.read.
    """
    if version(spark.version) < _SINCE:
        raise UnsupportedTableError(
            f"the format {FORMAT!r} needs PySpark 4.1 or later, not {spark.version}: "
            "use Table.open(path).read(where=...)"
        )
    from keymark.table.source.reader import TableSource  # noqa: PLC0415  its bases are not in PySpark 3.5

    spark.conf.set(_PUSHDOWN, "true")
    spark.dataSource.register(TableSource)
    warnings.warn(
        f"Spark {spark.version} may read a DataFrame of the format {FORMAT!r} with the files of a "
        "condition that it had before: call load() anew for each query",
        TableWarning,
        stacklevel=2,
    )


def version(text: str) -> tuple[int, int]:
    """The first two numbers of a version of Spark's."""
    numbers = re.findall(r"\d+", text)
    return int(numbers[0]), int(numbers[1])
