"""The statistics of a table's keys: counts, lengths, shape, entropy, order, partition sizes, bytes.

Spark reads the rows four times: all key columns in one aggregate; keys counted by their hashes;
partitions counted; and a sample, drawn by the hash of the key, for what is estimated. Nothing of a
profile but `prefix`, `low` and `high` of a column is a value of the table.
"""

from __future__ import annotations

import dataclasses
import itertools
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlparse

import numpy as np
import numpy.typing as npt

from keymark.datasets.columns.kind import DateFormat, quoted
from keymark.datasets.errors import DatasetError
from keymark.datasets.generate.digest import check_columns
from keymark.datasets.profiles.folders import KeyCounts, count_keys
from keymark.datasets.profiles.key_columns import aggregate
from keymark.datasets.profiles.shapes import (
    TextSample,
    gini,
    largest_shard,
    look_at,
    rank_correlation,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row

MAX_PARTITIONS = 1_000_000
ESTIMATED = (
    "entropy, characters, shards, growth and percentiles from the sample; entropy is that of each "
    "position's characters, summed, so an upper bound; of several key columns, the number of "
    "different values to about one twentieth"
)
_INTEGERS = ("tinyint", "smallint", "int", "bigint")
_DAYS: dict[DateFormat, re.Pattern[str]] = {
    "yyyy-MM-dd": re.compile("[0-9]{4}-[0-9]{2}-[0-9]{2}"),
    "yyyy/MM/dd": re.compile("[0-9]{4}/[0-9]{2}/[0-9]{2}"),
    "yyyyMMdd": re.compile("[0-9]{8}"),
}
_SLICES = 1_000_000
_UNIQUE = 0.85  # of several columns the number of different values is known to one twentieth


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileRequest:
    """What to profile.

    Attributes:
        name: how the table is called.
        record_key: key columns.
        partition_path: partition columns, may be empty.
        ordering: the ordering column, if there is one.
        sample: about how many rows are looked at one by one, at most.
    """

    name: str
    record_key: tuple[str, ...]
    partition_path: tuple[str, ...] = ()
    ordering: str | None = None
    sample: int = 20_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Lengths:
    """Lengths of texts in characters; the percentiles are those of the sample."""

    min: int
    mean: float
    p50: int
    p90: int
    p99: int
    max: int


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyColumn:
    """One key column; exact, but for `sample` and, where there are several, `distinct`.

    Attributes:
        name: of the column.
        type: Spark's name of its type.
        rows: those that are not null.
        distinct: different values; of several columns to about one twentieth.
        lengths: of the values as text.
        bytes_mean: UTF-8 bytes of a value as text.
        low: the least text.
        high: the greatest.
        uuids: share of texts that are UUIDs of any version.
        versions: share of UUIDs of version 4 and of version 7.
        hexes: share of texts of nothing but hex digits of one case.
        alike: share of texts of nothing but `Aa` and `BB`, which all hash alike.
        prefix: what stands before the digits at the end of all texts; None where it differs.
        digits: shortest and longest number of these digits.
        padded: share of texts whose digits begin with a zero.
        numbers: least and greatest number that these digits are, or that the column holds.
        sample: what is estimated.
    """

    name: str
    type: str
    rows: int
    distinct: int
    lengths: Lengths
    bytes_mean: float
    low: str
    high: str
    uuids: float
    versions: Mapping[int, float]
    hexes: float
    alike: float
    prefix: str | None
    digits: tuple[int, int]
    padded: float
    numbers: tuple[int, int] | None
    sample: TextSample

    @property
    def is_integer(self) -> bool:
        """Whether the column holds whole numbers and not texts."""
        return is_integer(self.type)

    @property
    def is_unique(self) -> bool:
        """Whether nearly every row has a value of its own."""
        return self.distinct >= _UNIQUE * self.rows

    @property
    def common_prefix(self) -> int:
        """Characters that all texts begin with: those that the least and the greatest share."""
        pairs = zip(self.low, self.high, strict=False)
        return sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], pairs))


@dataclass(frozen=True, slots=True, kw_only=True)
class Partitions:
    """How many rows each partition has.

    Attributes:
        sizes: in the order of the partition values.
        text_length: mean characters of these as one path.
        date_format: how they are written, if they are days.
    """

    sizes: npt.NDArray[np.int64]
    text_length: float
    date_format: DateFormat | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """What a look-alike is made from.

    Attributes:
        request: what was asked for.
        counts: how often keys come.
        columns: key columns.
        partitions: None without partition columns.
        largest_shard: share of the record keys in the fullest of 16 shards of Hudi's hash, in the
            sample; even is 1/16.
        by_ordering: rank correlation of keys with the ordering column, in the sample.
        by_partition: rank correlation of keys with partition values, in the sample.
        other_bytes: mean bytes of a row's other values as text.
        stored_bytes: of the files that were read, None where they are not on this machine.
        sampled: rows in the sample.
    """

    request: ProfileRequest
    counts: KeyCounts
    columns: tuple[KeyColumn, ...]
    partitions: Partitions | None
    largest_shard: float
    by_ordering: float | None
    by_partition: float | None
    other_bytes: float
    stored_bytes: int | None
    sampled: int


def is_integer(type_: str) -> bool:
    """Whether values of one of Spark's types are whole numbers."""
    return type_ in _INTEGERS or (type_.startswith("decimal") and type_.endswith(",0)"))


def profile(df: DataFrame, request: ProfileRequest, progress: Callable[[str], None]) -> Profile:
    """Compute the statistics of the key columns of a table.

    Args:
        df: its rows.
        request: what to profile.
        progress: receives what each pass reads the rows for.

    Raises:
        DatasetError: a column is missing or binary, or there are no keys.
    """
    roles = [*request.record_key, *request.partition_path]
    roles += [request.ordering] if request.ordering else []
    check_columns(roles, df.columns)
    _refuse_binary(df, request.record_key)
    progress("key columns")
    facts = aggregate(df, request.record_key, roles)
    if not all(facts[f"k{place}_rows"] for place in range(len(request.record_key))):
        raise DatasetError(f"{request.name} has no keys: no rows, or nulls in all of them")
    progress("keys counted")
    counts = count_keys(df, request.record_key)
    progress("partition sizes")
    sizes = _partition_sizes(df, request.partition_path)
    progress("sample")
    sample = _Sample(df, request, counts.rows)
    types = dict(df.dtypes)
    facts.setdefault("k0_distinct", counts.distinct)
    return Profile(
        request=request,
        counts=counts,
        columns=tuple(
            _column(facts, place, type_=types[name], sample=sample)
            for place, name in enumerate(request.record_key)
        ),
        partitions=None if sizes is None else sample.partitions(sizes),
        largest_shard=largest_shard(sample.record_keys()),
        by_ordering=sample.correlation("ordering") if request.ordering else None,
        by_partition=sample.correlation("partition") if request.partition_path else None,
        other_bytes=float(facts["other_bytes"] or 0.0),
        stored_bytes=_stored_bytes(df),
        sampled=len(sample.rows),
    )


def _refuse_binary(df: DataFrame, record_key: Sequence[str]) -> None:
    types = dict(df.dtypes)
    for name in record_key:
        if types[name] == "binary" or types[name].startswith(("array", "map", "struct")):
            raise DatasetError(f"key column {name!r} is {types[name]}, of which no key is made")


def _column(facts: Mapping[str, Any], place: int, *, type_: str, sample: _Sample) -> KeyColumn:
    found = {
        name.partition("_")[2]: value
        for name, value in facts.items()
        if name.startswith(f"k{place}_")
    }
    rows = int(found["rows"])
    texts = sample.texts(place)
    sizes = np.percentile([len(text) for text in texts], (50, 90, 99), method="nearest")
    p50, p90, p99 = (int(size) for size in sizes)
    same_head = found["first_head"] == found["last_head"]
    source = "value" if is_integer(type_) else "number"
    low, high = f"{source}_min", f"{source}_max"
    known = found[low] is not None
    return KeyColumn(
        name=sample.request.record_key[place],
        type=type_,
        rows=rows,
        distinct=min(int(found["distinct"]), rows),
        lengths=Lengths(
            min=found["min"], mean=found["mean"], p50=p50, p90=p90, p99=p99, max=found["max"]
        ),
        bytes_mean=float(found["bytes"]),
        low=found["low"],
        high=found["high"],
        uuids=found["uuids"] / rows,
        versions={version: found[f"uuid{version}"] / rows for version in (4, 7)},
        hexes=found["hexes"] / rows,
        alike=found["alike"] / rows,
        prefix=found["first_head"] if same_head else None,
        digits=(int(found["digits_min"]), int(found["digits_max"])),
        padded=found["padded"] / rows,
        numbers=(int(found[low]), int(found[high])) if known else None,
        sample=look_at(texts),
    )


def _partition_sizes(df: DataFrame, partition_path: Sequence[str]) -> npt.NDArray[np.int64] | None:
    """Rows of each partition in the order of the partition values; values stay behind."""
    if not partition_path:
        return None
    columns = [quoted(name) for name in partition_path]
    counted = df.groupBy(*columns).count().orderBy(*columns).select("count")
    found = counted.limit(MAX_PARTITIONS + 1).collect()
    if len(found) > MAX_PARTITIONS:
        raise DatasetError(
            f"{', '.join(partition_path)}: more than {MAX_PARTITIONS:,} partitions; these columns "
            "are no partition path"
        )
    return np.array([row[0] for row in found], np.int64)


def described(found: Profile) -> dict[str, Any]:
    """A profile as JSON; without a value of the table."""
    key = [_described(column) for column in found.columns]
    answer: dict[str, Any] = {
        "rows": found.counts.rows,
        "keys": found.counts.distinct,
        "keys_repeated": found.counts.repeated,
        "keys_most_frequent": found.counts.most,
        "keys_null": found.counts.nulls,
        "key": key,
        "entropy_bits": round(sum(column.sample.entropy_bits for column in found.columns), 1),
        "largest_shard_of_16": round(found.largest_shard, 4),
        "grows_with_ordering": _rounded(found.by_ordering),
        "grows_with_partition": _rounded(found.by_partition),
        "other_bytes_per_row": round(found.other_bytes, 1),
        "stored_bytes": found.stored_bytes,
        "stored_bytes_per_row": None
        if found.stored_bytes is None
        else round(found.stored_bytes / found.counts.rows, 1),
        "sampled_rows": found.sampled,
        "estimated": ESTIMATED,
    }
    if found.partitions is not None:
        sizes = found.partitions.sizes
        descending = np.sort(sizes)[::-1]
        answer["partitions"] = {
            "count": len(sizes),
            "rows_min": int(sizes.min()),
            "rows_max": int(sizes.max()),
            "share_of_largest": round(float(descending[0] / sizes.sum()), 4),
            "share_of_largest_tenth": round(
                float(descending[: -(-len(sizes) // 10)].sum() / sizes.sum()), 4
            ),
            "gini": round(gini(sizes), 4),
            "text_length": round(found.partitions.text_length, 2),
            "date_format": found.partitions.date_format,
        }
    return answer


def _described(column: KeyColumn) -> dict[str, Any]:
    sample = column.sample
    return {
        "column": column.name,
        "type": column.type,
        "distinct": column.distinct,
        "length": dataclasses.asdict(column.lengths),
        "bytes_mean": round(column.bytes_mean, 2),
        "common_prefix_length": column.common_prefix,
        "uuid_share": round(column.uuids, 4),
        "characters": {name: round(share, 4) for name, (share, _) in sample.characters.items()},
        "different_characters": sum(count for _, count in sample.characters.values()),
        "entropy_bits": round(sample.entropy_bits, 1),
    }


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 3)


class _Sample:
    """Rows whose keys' hashes fall into a slice: the same ones however the table is stored."""

    def __init__(self, df: DataFrame, request: ProfileRequest, rows: int) -> None:
        self.request = request
        keys = [quoted(name) for name in request.record_key]
        parts = [f"coalesce(cast({quoted(name)} as string), '')" for name in request.partition_path]
        known = df.where(" and ".join(f"{key} is not null" for key in keys)).selectExpr(
            *(f"{key} as value_{place}" for place, key in enumerate(keys)),
            *(f"cast({key} as string) as text_{place}" for place, key in enumerate(keys)),
            f"concat_ws('/', {', '.join(parts)}) as partition" if parts else "'' as partition",
            f"{quoted(request.ordering) if request.ordering else 'null'} as ordering",
            f"pmod(xxhash64({', '.join(keys)}), {_SLICES}L) as slice",
        )
        share = min(_SLICES, -(-request.sample * _SLICES // rows))
        drawn = known.where(f"slice < {share}").limit(2 * request.sample).collect()
        # few keys that come often may have no hash in the slice
        self.rows = drawn or known.limit(request.sample).collect()

    def texts(self, place: int) -> list[str]:
        """The texts of a key column."""
        return [row[f"text_{place}"] for row in self.rows]

    def record_keys(self) -> list[str]:
        """The keys as Hudi's key generators write them: one text, or `name:text` with commas."""
        names = self.request.record_key
        if len(names) == 1:
            return self.texts(0)
        return [
            ",".join(f"{name}:{row[f'text_{place}']}" for place, name in enumerate(names))
            for row in self.rows
        ]

    def partitions(self, sizes: npt.NDArray[np.int64]) -> Partitions:
        """The partitions of these sizes, with what their values look like."""
        texts = [row["partition"] for row in self.rows]
        formats = (
            name
            for name, pattern in _DAYS.items()
            if all(pattern.fullmatch(text) for text in texts)
        )
        return Partitions(
            sizes=sizes,
            text_length=sum(map(len, texts)) / len(texts),
            date_format=next(formats, None),
        )

    def correlation(self, name: str) -> float | None:
        """Rank correlation of the keys with `partition` or `ordering`, where that is not null."""
        rows = [row for row in self.rows if row[name] is not None]
        return rank_correlation([self._key(row) for row in rows], [row[name] for row in rows])

    def _key(self, row: Row) -> Any:
        """A key as it is compared: a number, a text, or the texts of several columns."""
        places = range(len(self.request.record_key))
        if len(places) == 1:
            return row["value_0"]
        return "\0".join(row[f"text_{place}"] for place in places)


def _stored_bytes(df: DataFrame) -> int | None:
    """Bytes of the files that are read, if all are on this machine."""
    files = [Path(unquote(urlparse(uri).path)) for uri in df.inputFiles()]
    if not files or not all(file.is_file() for file in files):
        return None
    return sum(file.stat().st_size for file in files)
