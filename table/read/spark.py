"""Reading a snapshot as a Spark DataFrame, opening only the files that can hold what is asked."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from keymark.table.errors import InputError
from keymark.table.format.parquet.base_file import read_footer
from keymark.table.format.schema import META_COLUMNS, without_meta
from keymark.table.keygen.stored import StoredKeys
from keymark.table.layout.model import BaseFile
from keymark.table.properties.config import KEY_COLUMN
from keymark.table.read.arrow import hidden_columns, open_base, plan_read
from keymark.table.read.matching import SearchedTable, matching_files
from keymark.table.read.predicate import parse_condition
from keymark.table.read.skipping import ReadStats
from keymark.table.runtime.runner import pack
from keymark.table.state.base_files import stored_rows
from keymark.table.state.table_state import TableState
from keymark.table.storage.fence import FencedStorage
from keymark.table.storage.object_storage import ObjectStorage
from keymark.table.storage.storage import Storage

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from keymark.table.rows.arrow import Keys

_LISTING_THRESHOLD = "spark.sql.sources.parallelPartitionDiscovery.threshold"
_KEYS_IN_FILTER = 1000


class OpenTable(SearchedTable, Protocol):
    """What reading asks of an open table; `Table` is one."""

    def session(self) -> SparkSession:
        """The Spark session to read with."""

    def state(self, as_of: str | None = None) -> TableState:
        """The table as it is now, or was at an instant."""

    def keys_of(self, keys: Keys) -> pa.Array:
        """Encoded record keys of a list, an array or a frame."""


def read_frame(  # noqa: PLR0913  Table.read's parameters
    table: OpenTable,
    keys: Keys | None,
    where: str | None,
    *,
    columns: Sequence[str] | None,
    as_of: str | None,
    stats: ReadStats,
) -> DataFrame:
    """Rows of a table as a DataFrame; see Table.read."""
    from pyspark.sql import functions as F  # noqa: N812, PLC0415  only where Spark is used

    spark = table.session()
    state = table.state(as_of)
    wanted = None if keys is None else table.keys_of(keys)
    plan = plan_read(state, state.snapshot.files, wanted, columns)
    condition = parse_condition(spark, where, plan.known_schema())
    files = matching_files(table, plan, condition, stats)
    frame = scan_files(spark, state.storage, files, plan.full)
    if wanted is not None:
        keys = StoredKeys.of(state.config)
        if keys.virtual:
            frame = frame.mapInArrow(_KeepKeys(wanted.unique(), keys), frame.schema)
        else:
            frame = _only_keys(spark, frame, wanted)
    for name in hidden_columns(state.config):
        frame = frame.withColumn(name, F.lit(None).cast("string"))
    if where is not None:
        frame = _filtered(frame, where)
    return frame if columns is None else frame.select(*(f"`{name}`" for name in columns))


def _filtered(frame: DataFrame, where: str) -> DataFrame:
    """The rows that pass a condition.

    Raises:
        InputError: it names no column of the table, or Spark finds another fault in it.
    """
    from pyspark.errors import AnalysisException  # noqa: PLC0415  only where Spark is used

    try:
        return frame.where(where)
    except AnalysisException as error:
        reason = str(error).partition("\n")[0]
        if (error.getErrorClass() or "").startswith("UNRESOLVED_COLUMN"):
            name = (error.getMessageParameters() or {}).get("objectName", "").replace("`", "")
            near = difflib.get_close_matches(name, frame.columns, n=1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            reason = f"the table has no column {name!r}{hint}"
        raise InputError(f"where {where!r}: {reason}") from error


def scan_files(
    spark: SparkSession,
    storage: Storage,
    files: Sequence[BaseFile],
    schema: pa.Schema,
    *,
    name: str | None = None,
) -> DataFrame:
    """A DataFrame over exactly these base files, with these columns.

    A file that is gone or cut short is an error here: where paths are taken literally, Spark
    silently leaves out some missing files.

    Args:
        spark: the session.
        storage: of the table.
        files: the base files.
        schema: the columns.
        name: of one more column, the name of the file that each row is in.
    """
    from pyspark.sql import functions as F  # noqa: N812, PLC0415  only where Spark is used
    from pyspark.sql.pandas.types import from_arrow_schema  # noqa: PLC0415  needs pandas

    given = pa.schema(schema)
    asked = given if name is None else given.append(pa.field(name, pa.string()))
    if not files:
        return spark.createDataFrame([], from_arrow_schema(asked))
    for file in files:
        open_base(storage, file)
    inner = storage.inner if isinstance(storage, FencedStorage) else storage
    if isinstance(inner, ObjectStorage):
        work = _ReadFiles(storage, given, name)
        return _scan_by_tasks(spark, files, work, from_arrow_schema(asked))
    # The files are known by name: Spark need not start a job to look at them.
    with with_conf(spark, _LISTING_THRESHOLD, "1000000"):
        frame = (
            spark.read.schema(from_arrow_schema(given))
            # No partition columns from folder names, no glob characters in them.
            .option("recursiveFileLookup", "true")
            .option("__globPaths__", "false")
            .parquet(*(f"{storage.root}/{file.path}" for file in files))
        )
    return frame if name is None else frame.select("*", F.col("_metadata.file_name").alias(name))


@dataclass(frozen=True, slots=True)
class _ReadFiles:
    """Reads base files by our own connection: Spark needs none, and no jars for one."""

    storage: Storage
    schema: pa.Schema
    name: str | None

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        # If all columns of a file are wanted, all its bytes are: they are read at once.
        whole = set(META_COLUMNS) <= set(self.schema.names)
        wanted = without_meta(self.schema) if whole else self.schema
        for batch in batches:
            for path in batch["path"].to_pylist():
                source = self.storage.open(path)
                rows = stored_rows(source, read_footer(source), wanted, meta=whole)
                if self.name is not None:
                    names = pa.repeat(path.rpartition("/")[2], rows.num_rows)
                    rows = rows.append_column(self.name, names)
                yield from rows.to_batches()


def _scan_by_tasks(
    spark: SparkSession, files: Sequence[BaseFile], work: _ReadFiles, columns: StructType
) -> DataFrame:
    """The rows of base files, a task for some of about as many bytes."""
    weights = [file.size for file in files]
    packs = pack(weights, 2 * spark.sparkContext.defaultParallelism)
    rows = [[(files[i].path,) for i in members] for members in packs]
    paths = spark.sparkContext.parallelize(rows, len(rows)).flatMap(lambda members: members)
    frame = spark.createDataFrame(paths, "path string")
    return frame.mapInArrow(work, columns)


@contextmanager
def with_conf(spark: SparkSession, name: str, value: str) -> Iterator[None]:
    """Set an option of a session for a while; the session is the user's again after."""
    before = str(spark.conf.get(name))
    spark.conf.set(name, value)
    try:
        yield
    finally:
        spark.conf.set(name, before)


@dataclass(frozen=True, slots=True)
class _KeepKeys:
    """Keeps the rows of some keys that are made from them."""

    wanted: pa.Array
    keys: StoredKeys

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            rows = pa.Table.from_batches([batch])
            made = self.keys.of_rows(rows, "a base file")
            yield from rows.filter(pc.is_in(made, value_set=self.wanted)).to_batches()


def _only_keys(spark: SparkSession, frame: DataFrame, keys: pa.Array) -> DataFrame:
    texts = keys.unique().to_pylist()
    if len(texts) <= _KEYS_IN_FILTER:
        return frame.where(frame[KEY_COLUMN].isin(texts))
    asked = spark.createDataFrame([(text,) for text in texts], f"{KEY_COLUMN} string")
    return frame.join(asked, KEY_COLUMN, "left_semi").select(frame.columns)
