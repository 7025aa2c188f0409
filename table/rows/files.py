"""Rows and keys in files of the user's: Parquet, CSV, JSON lines, text."""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from keymark.table.errors import CorruptFileError, InputError, StorageError
from keymark.table.format.json_lines import MOST_COLUMNS, read_json_lines
from keymark.table.format.parquet.base_file import read_metadata
from keymark.table.format.parquet.bounds import check_size
from keymark.table.state.table_state import columns_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from keymark.table.table import Table

MOST_HEADER_BYTES = 1 << 20
_JSON_SUFFIXES = (".json", ".jsonl", ".ndjson")
_CSV_MISTAKE = re.compile(r"In CSV column #(\d+): Row #(\d+): (.*)")


def read_data(paths: Sequence[Path], table: Table) -> pa.Table:
    """The rows of data files; CSV takes its types from the table, JSON its texts."""
    tables: list[pa.Table] = []
    # The columns that are text; none of a new table.
    schema = columns_of(table.storage)
    texts = {field.name for field in schema if pa.types.is_string(field.type)}
    for path in paths:
        tables.append(_read_file(path, table, texts))
        # A new table has no types yet: those of the files before it count.
        texts |= {field.name for field in tables[-1].schema if pa.types.is_string(field.type)}
    try:
        return pa.concat_tables(tables, promote_options="permissive")
    except pa.ArrowException as error:
        raise InputError(f"the data files differ in their columns: {_first(error)}") from error


def read_frame(paths: Sequence[Path], spark: SparkSession) -> DataFrame | None:
    """The rows of Parquet files as a Spark DataFrame, which executors read; None for others."""
    missing = next((path for path in paths if not path.exists()), None)
    if missing is not None:
        raise InputError(f"{missing} does not exist")
    if not all(path.is_dir() or path.suffix.lower() == ".parquet" for path in paths):
        return None
    options = {"mergeSchema": "true", "__globPaths__": "false"}
    try:
        return spark.read.options(**options).parquet(*(path.resolve().as_uri() for path in paths))
    except Exception as error:
        raise InputError(f"Spark cannot read the data files: {_first(error)}") from error


def _read_file(path: Path, table: Table, texts: set[str]) -> pa.Table:
    if not path.exists():
        raise InputError(f"{path} does not exist")
    suffix = path.suffix.lower()
    try:
        if suffix == ".csv":
            rows = _read_csv(path, table)
        elif suffix in _JSON_SUFFIXES:
            rows = read_json_lines(path, texts)
            _check_numbers(path, rows, columns_of(table.storage))
        elif suffix == ".parquet" or path.is_dir():
            rows = _read_parquet(path)
        else:
            raise InputError(f"{path}: data must be .parquet, .csv or .json lines")
        names = rows.column_names
    except (pa.ArrowException, OSError, UnicodeDecodeError, CorruptFileError) as error:
        raise InputError(f"{path} cannot be read: {_first(error)}") from error
    _check_names(names, f"{path}, line 1" if suffix == ".csv" else str(path))
    return rows


def _read_parquet(path: Path) -> pa.Table:
    """The rows of a Parquet file, or of all files in a folder.

    Raises:
        InputError: a file is damaged, or names a column twice.
    """
    for file in [path] if path.is_file() else _files_below(path):
        with file.open("rb") as opened:
            source = _FileReader(str(file), file.stat().st_size, opened.fileno())
            try:
                # Arrow ends the process at some footers that contradict themselves.
                metadata = read_metadata(source, misplaced=True)
                names = metadata.schema.to_arrow_schema().names
                _check_names(names, str(file))
                check_size(source, metadata, names)
            except CorruptFileError as error:
                raise InputError(f"{file} cannot be read: {_first(error)}") from error
    return pq.read_table(path)


def _files_below(folder: Path) -> list[Path]:
    """The files in a folder that Arrow reads, whatever they are named: all that are not hidden."""
    found = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    hidden = (".", "_")
    return [
        path
        for path in found
        if not any(part.startswith(hidden) for part in path.relative_to(folder).parts)
    ]


@dataclass(frozen=True, slots=True)
class _FileReader:
    """Ranged reads of a file of the user's, which need not lie in a table."""

    name: str
    size: int
    descriptor: int

    def read(self, offset: int, length: int) -> bytes:
        return os.pread(self.descriptor, length, offset)


def _check_names(names: Sequence[str], place: str) -> None:
    """Refuse columns with the same name: it would be unclear which one is meant."""
    twice = next((name for name, count in Counter(names).items() if count > 1), None)
    if twice is not None:
        raise InputError(f"{place}: column {twice!r} is named twice")


def _read_csv(path: Path, table: Table) -> pa.Table:
    schema = columns_of(table.storage)
    if not schema.names:
        raise InputError(
            f"{path}: a new table cannot take its types from CSV; give Parquet or JSON"
        )
    with path.open("rb") as file:
        columns = file.readline(MOST_HEADER_BYTES).count(b",") + 1
    if columns > MOST_COLUMNS:
        raise InputError(f"{path}, line 1 names more than {MOST_COLUMNS:,} columns")
    types = {field.name: field.type for field in schema}
    # Only an empty value without quotes is null, as RowWriter writes it. NA and NaN are texts.
    options = pyarrow.csv.ConvertOptions(
        column_types=types,
        null_values=[""],
        strings_can_be_null=True,
        quoted_strings_can_be_null=False,
    )
    try:
        return pyarrow.csv.read_csv(path, convert_options=options)
    except pa.ArrowInvalid:
        raise _csv_mistake(path, options) from None


def _csv_mistake(path: Path, options: pyarrow.csv.ConvertOptions) -> InputError:
    """What is wrong with a CSV file; Arrow tells the row where it reads with one thread."""
    try:
        pyarrow.csv.read_csv(
            path,
            convert_options=options,
            read_options=pyarrow.csv.ReadOptions(use_threads=False),
        )
    except pa.ArrowInvalid as error:
        found = _CSV_MISTAKE.match(_first(error))
        if found is None:
            return InputError(f"{path} cannot be read: {_first(error)}")
        names = pyarrow.csv.open_csv(path).schema.names
        return InputError(f"{path}, line {found[2]}: column {names[int(found[1])]!r}: {found[3]}")
    return InputError(f"{path} cannot be read")


def _check_numbers(path: Path, rows: pa.Table, schema: pa.Schema) -> None:
    """Refuse texts in a column of JSON that is a number or a truth value in the table.

    Raises:
        InputError: a line has one; Arrow reads such a column as text, or as time, as a whole.
    """
    for field in schema:
        at = rows.schema.get_field_index(field.name)
        is_text = at >= 0 and (
            pa.types.is_string(rows.schema.field(at).type)
            or pa.types.is_timestamp(rows.schema.field(at).type)
        )
        if is_text and pa.types.is_primitive(field.type) and not pa.types.is_temporal(field.type):
            first = rows.column(at).is_valid().index(pa.scalar(value=True)).as_py()
            with path.open("rb") as file:
                lines = (number for number, line in enumerate(file, 1) if line.strip())
                line = next(islice(lines, first, None))
            raise InputError(
                f"{path}, line {line}: column {field.name!r} is {field.type} in the table, "
                "and a text here"
            )


def read_keys(path: Path, table: Table) -> pa.Array | list[str]:
    """Keys of a keys file: Parquet with `record_key` or the key columns, or a key per line."""
    if not path.exists():
        raise InputError(f"{path} does not exist")
    try:
        if path.suffix.lower() == ".parquet":
            return table.keys_of(_read_parquet(path))
        lines = path.read_bytes().decode("utf-8").split("\n")
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path} cannot be read: {_first(error)}") from error
    if lines[-1] == "":
        lines.pop()
    return lines


class RowWriter:
    """Writes tables of one schema to a file, or nowhere."""

    def __init__(self, path: Path | None, schema: pa.Schema | None) -> None:
        self._path = path
        self._sink: Any = None
        if path is None or schema is None:
            return
        suffix = path.suffix.lower()
        try:
            if suffix == ".csv":
                self._sink = pyarrow.csv.CSVWriter(path, schema)
            elif suffix in _JSON_SUFFIXES:
                self._sink = path.open("w", encoding="utf-8")
            elif suffix == ".parquet":
                self._sink = pq.ParquetWriter(path, schema)
            else:
                raise InputError(f"{path}: --out must end in .parquet, .csv or .jsonl")
        except (OSError, pa.ArrowException) as error:
            raise StorageError(f"cannot write {path}: {_first(error)}") from error

    def __enter__(self) -> Self:
        return self

    def write(self, rows: pa.Table) -> None:
        """Append rows."""
        if self._sink is None:
            return
        try:
            if hasattr(self._sink, "write_table"):
                self._sink.write_table(rows)
            elif hasattr(self._sink, "write_batch"):
                self._sink.write(rows)
            else:
                for row in rows.to_pylist():
                    self._sink.write(json.dumps(row, default=str, ensure_ascii=False) + "\n")
        except (OSError, pa.ArrowException) as error:
            raise StorageError(f"cannot write {self._path}: {_first(error)}") from error

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._sink is not None:
            self._sink.close()


def _first(error: Exception) -> str:
    return str(error).partition("\n")[0]
