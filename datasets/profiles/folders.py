"""Tables that others wrote: what a folder holds, its rows as Spark reads them, their keys counted.

A format shows in a folder's own files: `_delta_log` is Delta's, `metadata/*.metadata.json`
Iceberg's, `.hoodie` Hudi's; otherwise the endings of its files count. Tables of Hudi's are not
read here: Spark's Parquet reader would take all versions of a row.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa
import pyarrow.dataset as ds

from keymark.datasets.columns.kind import quoted
from keymark.datasets.errors import DatasetError
from keymark.datasets.generate.digest import check_columns

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FORMATS = ("parquet", "csv", "iceberg", "delta", "hudi")

_ENDINGS = {".parquet": "parquet", ".csv": "csv"}
_CSV = {"header": "true", "inferSchema": "true"}
_JARS = {"delta": "delta-spark and delta-storage", "iceberg": "iceberg-spark-runtime"}
_SESSION = {
    "delta": {
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    }
}


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyCounts:
    """How often keys come.

    Attributes:
        rows: all rows.
        nulls: rows with a null in a key column.
        distinct: different keys among the others.
        repeated: keys that come more than once.
        most: how often the most frequent key comes.
    """

    rows: int
    nulls: int
    distinct: int
    repeated: int
    most: int

    @property
    def mistake(self) -> str | None:
        """Why these rows cannot be a table with this key, None if they can; names no key."""
        if not self.rows:
            return "there are no rows"
        if self.nulls:
            return f"{self.nulls:,} of {self.rows:,} rows have a null in a key column"
        if self.repeated:
            return (
                f"{self.repeated:,} keys come more than once, one of them {self.most:,} times: "
                f"{self.rows:,} rows have {self.distinct:,} keys"
            )
        return None


def format_of(path: str) -> str:
    """The format of a file or folder on this machine, by what is in it.

    Raises:
        DatasetError: it is not there, or holds files of no format or of several.
    """
    folder = Path(path)
    if not folder.exists():
        raise DatasetError(f"{path} does not exist")
    if (folder / ".hoodie").is_dir():
        return "hudi"
    if (folder / "_delta_log").is_dir():
        return "delta"
    if any(folder.glob("metadata/*.metadata.json")):
        return "iceberg"
    files = [folder] if folder.is_file() else folder.rglob("*")
    return format_of_files(path, [file.name for file in files if file.is_file()])


class Listed(Protocol):
    """The storage of a folder that is not on this machine, as far as its format shows in it."""

    def exists(self, path: str, /) -> bool:
        """Whether there is a file, or a folder with one."""

    def walk(self, path: str, /) -> Iterator[Any]:
        """All files of a folder, each with `name` and `path`."""


def format_on_store(url: str, storage: Listed) -> str:
    """The format of a table on a store, as `format_of` tells it of a folder.

    Raises:
        DatasetError: nothing is there, or files of no format or of several.
    """
    if storage.exists(".hoodie/hoodie.properties"):
        return "hudi"
    if storage.exists("_delta_log"):
        return "delta"
    files = [(each.path, each.name) for each in storage.walk("")]
    if not files:
        raise DatasetError(f"{url} does not exist or is empty")
    if any(path == f"metadata/{name}" and name.endswith(".metadata.json") for path, name in files):
        return "iceberg"
    return format_of_files(url, [name for _, name in files])


def format_of_files(path: str, names: Iterable[str]) -> str:
    """The one format that the names of a folder's files end with.

    Raises:
        DatasetError: they are of no format or of several.
    """
    found = {_ENDINGS[ending] for name in names if (ending := _ending(name)) in _ENDINGS}
    if len(found) != 1:
        held = " and ".join(sorted(found)) if found else "no files of a known format"
        raise DatasetError(f"{path} holds {held}; name the format: {', '.join(FORMATS)}")
    return found.pop()


def check_named(path: str, format_: str, names: Sequence[str], options: Mapping[str, str]) -> None:
    """Check without Spark that a table has columns, as far as its files on this machine tell.

    Those of Parquet do, and the header of CSV files, where no option of Spark's reader changes it.

    Raises:
        DatasetError: there is no such column.
    """
    if format_ not in _ENDINGS.values() or options or "://" in path:
        return
    try:
        schema = ds.dataset(path, format=format_, partitioning="hive").schema
    except (pa.ArrowException, OSError):
        # Spark says what is wrong with the files.
        return
    check_columns(names, schema.names)


def session_conf(format_: str, conf: Mapping[str, str]) -> dict[str, str]:
    """What a session needs to read a format, under what the user gives."""
    return {**_SESSION.get(format_, {}), **conf}


def read(
    spark: SparkSession,
    path: str,
    *,
    format: str,  # noqa: A002 - Spark's own name for it
    options: Mapping[str, str],
    texts: Sequence[str] = (),
) -> DataFrame:
    """The rows of a table of any format but Hudi's.

    Args:
        spark: the session.
        path: file or folder.
        format: one of `FORMATS`.
        options: of Spark's reader. CSV has a header and its types are inferred by default.
        texts: columns that CSV is to read as texts: `007` is a key, 7 another.

    Raises:
        DatasetError: the format is not known, its jar is missing or Spark cannot read the table.
    """
    if format not in FORMATS or format == "hudi":
        raise DatasetError(f"format {format!r} is none of {', '.join(FORMATS)}")
    given = {**_CSV, **options} if format == "csv" else dict(options)
    reader = spark.read.format(format).options(**given)
    with reading(path, format):
        df = reader.load(path)
        if format == "csv" and texts:
            kinds = [(name, "string" if name in texts else kind) for name, kind in df.dtypes]
            kept = ", ".join(f"{quoted(name)} {kind}" for name, kind in kinds)
            df = reader.schema(kept).load(path)
        return df


@contextmanager
def reading(path: str, format_: str) -> Iterator[None]:
    """What Spark says while it reads a table, in one line as a DatasetError."""
    # where Spark runs, and only there
    from py4j.protocol import Py4JJavaError  # noqa: PLC0415
    from pyspark.errors import PySparkException  # noqa: PLC0415

    try:
        yield
    except (PySparkException, Py4JJavaError) as error:
        java = getattr(error, "java_exception", None)
        message = str(error) if java is None else str(java.toString())
        raise DatasetError(_why(message, path, format_)) from error


def count_keys(df: DataFrame, record_key: Sequence[str]) -> KeyCounts:
    """Count the distinct keys of rows by 96 bits of their hashes, so that little is shuffled.

    Raises:
        DatasetError: there is no such column.
    """
    check_columns(record_key, df.columns)
    columns = [quoted(name) for name in record_key]
    null = " or ".join(f"{column} is null" for column in columns)
    joined = ", ".join(columns)
    hashed = df.selectExpr(f"if({null}, null, struct(xxhash64({joined}), hash({joined}))) as key")
    counted = hashed.groupBy("key").count()
    row = counted.selectExpr(
        "coalesce(sum(count), 0)",
        "coalesce(sum(if(key is null, count, 0)), 0)",
        "count(key)",
        "count_if(key is not null and count > 1)",
        "coalesce(max(if(key is null, 0, count)), 0)",
    ).collect()[0]
    rows, nulls, distinct, repeated, most = (int(value) for value in row)
    return KeyCounts(rows=rows, nulls=nulls, distinct=distinct, repeated=repeated, most=most)


def _ending(name: str) -> str:
    """The ending that tells a file's format; none for what Spark does not read either."""
    if name.startswith((".", "_")):
        return ""
    file = Path(name)
    return file.with_suffix("").suffix if file.suffix in (".gz", ".bz2") else file.suffix


def _why(message: str, path: str, format_: str) -> str:
    if "DATA_SOURCE_NOT_FOUND" in message or "ClassNotFoundException" in message:
        return (
            f"Spark has no reader for {format_}: give it the jars of {_JARS.get(format_, format_)} "
            "that fit Spark's version (spark.jars)"
        )
    if "No FileSystem for scheme" in message:
        return (
            f"Spark cannot read {path}: give it the jars of the store (spark.jars; for S3 those of "
            "hadoop-aws, and s3a:// in the URL)"
        )
    first, *_ = message.strip().splitlines()
    return f"{path} cannot be read as {format_}: {first}"
