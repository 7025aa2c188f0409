"""A dataset's specification: a built-in name or a TOML file, with overrides, checked at once."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Self, get_args

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from pydantic_core import ErrorDetails

from keymark.counts import as_count
from keymark.datasets.changes.choice import Shares, UpdateChoice
from keymark.datasets.changes.movers import TURNS, Movers
from keymark.datasets.changes.stripes import StripedOrder
from keymark.datasets.columns.kind import DateFormat, Shape, ValueKind
from keymark.datasets.columns.kinds import Ordering, Partition
from keymark.datasets.columns.nested import Kind
from keymark.datasets.errors import DatasetError, nearest
from keymark.datasets.generate.hashing import derive
from keymark.datasets.specs.lake_loader import expand
from keymark.datasets.specs.sizes import payload_for, row_bytes

_CATALOG = Path(__file__).parents[1] / "catalog"
_MAX_ROWS = 10**13
_AMOUNTS = ("updates", "inserts", "deletes", "moves", "late", "duplicates", "repeats")
_COUNTED = ("rows", *_AMOUNTS)
ColumnName = Annotated[str, Field(pattern=r"^[A-Za-z][A-Za-z0-9_]*$")]


class DatasetSpec(BaseModel):
    """What a generated dataset consists of; equal specifications give equal rows, anywhere.

    Attributes:
        name: name of the dataset and default name of its table.
        seed: all rows and all choices depend on it.
        rows: rows of the first load.
        record_key: key columns.
        partition_path: partition columns, may be empty.
        ordering: the column that grows with every change of a row.
        date_partitions: number of days that a column of kind `partition` spreads over.
        date_format: how these days are written.
        payload_bytes: size of each value of a column of kind `payload`.
        record_bytes: mean plain bytes of a row (see `sizes`), which then size the
            payloads; 0: they have `payload_bytes`.
        updates: rows changed per round: a count, or a share of `rows` below 1.
        inserts: new rows per round, likewise.
        deletes: rows removed by a delete step, likewise.
        delete_every: 0: a delete step may follow any round and ends the stream; k: every k-th
            round is followed by a delete step, and later rounds go on without its rows.
        update_choice: which rows the rounds update.
        moves: rows per round that are updated and go to another partition, each of a tenth of
            `rows` and less every tenth round; a count or a share, likewise.
        late: rows per round that are older than what the table has, and must change nothing.
        duplicates: keys of a round that come a second time, in an older row; likewise.
        repeats: further rows of one key of a round, the first, each older than those before it.
        insert_shares: shares of inserted rows that the newest partition gets, the second newest,
            and so on; what is left is for all others. None: as the first load is spread.
        columns: the columns in order, by name.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str = Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")
    seed: int = Field(default=42, ge=0, lt=2**63)
    rows: int = Field(default=1_000_000, ge=1, le=_MAX_ROWS)
    record_key: tuple[str, ...] = Field(min_length=1)
    partition_path: tuple[str, ...] = ()
    ordering: str | None = None
    date_partitions: int = Field(default=20, ge=1, le=20_000)
    date_format: DateFormat = "yyyy-MM-dd"
    payload_bytes: int = Field(default=100, ge=1, le=1_000_000)
    record_bytes: int = Field(default=0, ge=0, le=1_000_000)
    updates: int | float = Field(default=0.02, ge=0)
    inserts: int | float = Field(default=0.01, ge=0)
    deletes: int | float = Field(default=0.005, ge=0)
    delete_every: int = Field(default=0, ge=0)
    update_choice: UpdateChoice = UpdateChoice()
    moves: int | float = Field(default=0, ge=0)
    late: int | float = Field(default=0, ge=0)
    duplicates: int | float = Field(default=0, ge=0)
    repeats: int | float = Field(default=0, ge=0)
    insert_shares: tuple[()] | Shares = ()
    columns: dict[ColumnName, Kind] = Field(min_length=1)

    @model_validator(mode="after")
    def _names_fit(self) -> Self:
        problems = list(self._problems())
        if problems:
            raise ValueError("; ".join(problems))
        _ = self.shape  # what the record's size asks for may be impossible
        return self

    def _problems(self) -> Iterator[str]:
        names = [name for name, _ in self.flat_columns()]
        kinds = dict(self.flat_columns())
        roles = {"record_key": self.record_key, "partition_path": self.partition_path}
        roles["ordering"] = (self.ordering,) if self.ordering else ()
        yield from _unknown_columns(roles, names)
        yield from _repeated(names)
        key = [kinds[name] for name in self.record_key if name in kinds]
        if len(key) == len(self.record_key) and not any(kind.unique for kind in key):
            yield f"record_key: needs a column that makes keys unique: of kind {_UNIQUE}"
        yield from (
            f"{name}: a key or partition column must not change with the round"
            for name in (*self.record_key, *self.partition_path)
            if name in kinds and not kinds[name].is_fixed
        )
        yield from (
            f"{name}: a key or partition column must not be null"
            for name in (*self.record_key, *self.partition_path)
            if isinstance(kind := kinds.get(name), ValueKind) and kind.null_share
        )
        yield from (
            f"date_partitions: column {name!r} can have {kind.most} at most"
            for name, kind in kinds.items()
            if isinstance(kind, Partition) and kind.most and kind.most < self.date_partitions
        )
        if self.ordering in kinds and not isinstance(kinds[str(self.ordering)], Ordering):
            yield f"ordering: column {self.ordering!r} must be of kind ordering"
        amounts = {role: getattr(self, role) for role in _AMOUNTS}
        yield from (
            f"{role}: {value} is neither a whole number nor a share of rows below 1"
            for role, value in amounts.items()
            if isinstance(value, float) and value >= 1 and not value.is_integer()
        )
        yield from self._stream_problems()

    def _stream_problems(self) -> Iterator[str]:
        shares = {"insert_shares": self.insert_shares, "update_choice.shares": self._shares}
        yield from (
            f"{role}: needs a column of kind partition in partition_path"
            for role, asked in {"moves": self.moves, **shares}.items()
            if asked and not self.partition
        )
        yield from (
            f"{role}: {len(asked)} shares for {self.date_partitions} partitions"
            for role, asked in shares.items()
            if len(asked) > self.date_partitions
        )
        moves = self.count(self.moves)
        if TURNS * moves > self.rows // 2:
            yield f"moves: {moves} per round take {2 * TURNS * moves:,} rows at least"
        if moves and self.partition in self.record_key:
            yield f"moves: column {self.partition!r} is of the record key, which must not change"
        if (self.late or self.duplicates or self.repeats) and self.ordering is None:
            yield "late, duplicates, repeats: need an ordering column, which tells what is older"
        if self.count(self.duplicates) > self.count(self.updates) + self.count(self.inserts):
            yield "duplicates: more than a batch has updates and inserts"
        if self.count(self.repeats) and not self.count(self.updates) + self.count(self.inserts):
            yield "repeats: a batch without updates and inserts has no key to repeat"

    @property
    def _shares(self) -> tuple[float, ...]:
        choice = self.update_choice
        return choice.shares if choice.kind == "partitions" else ()

    @property
    def partition(self) -> str:
        """The first partition column that is of that kind; empty if there is none."""
        kinds = dict(self.flat_columns())
        found = (name for name in self.partition_path if isinstance(kinds.get(name), Partition))
        return next(found, "")

    @property
    def partition_kind(self) -> Partition:
        """The kind of that column; there must be one."""
        kind = dict(self.flat_columns())[self.partition]
        assert isinstance(kind, Partition)
        return kind

    @cached_property
    def partition_lots(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Partitions of the lots of loaded and of inserted rows, ascending."""
        kind = self.partition_kind
        return np.array(kind.lots(self._plain)), np.array(kind.insert_lots(self._plain))

    @cached_property
    def order(self) -> StripedOrder:
        """The places of loaded rows; partitions keep theirs where updates go by partition."""
        lots = len(self.partition_lots[0]) if self._shares else 1
        return StripedOrder(self.rows, lots, derive(self.seed, "delete order"))

    @cached_property
    def movers(self) -> Movers | None:
        """The rows that move, if any do."""
        each = self.count(self.moves)
        return Movers(self.partition, self.order, self.rows - TURNS * each, each) if each else None

    def flat_columns(self) -> Iterator[tuple[str, Kind]]:
        """Columns in order; a repeated column `x` gives `x_0`, `x_1`, ..."""
        for name, kind in self.columns.items():
            if kind.repeat == 1:
                yield name, kind
            else:
                yield from ((f"{name}_{index}", kind) for index in range(kind.repeat))

    def count(self, amount: float) -> int:
        """Rows that a setting means: a share of `rows` below 1, otherwise a count."""
        if isinstance(amount, float) and amount < 1:
            return round(amount * self.rows)
        return int(amount)

    @cached_property
    def shape(self) -> Shape:
        """What the columns need to know."""
        shape = replace(self._plain, movers=self.movers)
        if not self.record_bytes:
            return shape
        size = payload_for(self.record_bytes, list(self.flat_columns()), shape)
        return replace(shape, payload_bytes=size)

    @property
    def _plain(self) -> Shape:
        return Shape(
            seed=self.seed,
            date_partitions=self.date_partitions,
            date_format=self.date_format,
            payload_bytes=self.payload_bytes,
            rows=self.rows,
            insert_shares=self.insert_shares,
        )

    @cached_property
    def row_bytes(self) -> float:
        """Mean plain bytes of a row."""
        return row_bytes(list(self.flat_columns()), self.shape)


def built_in_names() -> tuple[str, ...]:
    """Names of the datasets that come with this package."""
    return tuple(sorted(path.stem for path in _CATALOG.glob("*.toml")))


def load_spec(source: str | Path, overrides: Mapping[str, object] | None = None) -> DatasetSpec:
    """Read a built-in or user-written specification.

    Args:
        source: a built-in name, or the path of a TOML file.
        overrides: settings by key, values as text or already typed; `columns.fare.low` reaches
            into a column.

    Raises:
        DatasetError: the name or file is unknown or unreadable, or some settings are wrong; all
            mistakes are in the one message, each with its key.
    """
    origin, settings = _read(source)
    problems = []
    for key, value in (overrides or {}).items():
        setting = as_count(value) if key in _COUNTED else value
        problem = _override(settings, key.split("."), _typed(setting))
        problems += [problem] if problem else []
    try:
        spec = DatasetSpec.model_validate(settings)
    except ValidationError as error:
        details = error.errors()
        problems += [_describe(detail) for detail in details]
        if all(detail["loc"] for detail in details):  # the names were not reached
            problems += _unknown_columns(settings, _raw_columns(settings))
    if problems:
        raise DatasetError(f"{origin}: {'; '.join(problems)}")
    return spec


def _unknown_columns(roles: Mapping[str, Any], columns: Sequence[str]) -> list[str]:
    """Names in record_key, partition_path and ordering that are no column."""
    given = {role: roles.get(role) or () for role in ("record_key", "partition_path", "ordering")}
    return [
        f"{role}: no column {name!r}{nearest(str(name), columns)}"
        for role, names in given.items()
        for name in ([names] if isinstance(names, str) else names)
        if name not in columns
    ]


def _repeated(names: Sequence[str]) -> Iterator[str]:
    """Columns that Spark, which ignores case, could not tell apart."""
    seen: dict[str, str] = {}
    for name in names:
        if name.lower() in seen:
            yield f"columns.{name}: there is already a column {seen[name.lower()]!r}"
        seen[name.lower()] = name


def _raw_columns(settings: Mapping[str, object]) -> list[str]:
    """Column names of settings that may be wrong elsewhere."""
    columns = settings.get("columns")
    names = []
    for name, kind in columns.items() if isinstance(columns, dict) else ():
        repeat = kind.get("repeat", 1) if isinstance(kind, dict) else 1
        count = repeat if isinstance(repeat, int) else 1
        names += [name] if count == 1 else [f"{name}_{index}" for index in range(count)]
    return names


def _read(source: str | Path) -> tuple[str, dict[str, Any]]:
    """Where the specification stands, and its settings."""
    built_in = str(source) in built_in_names()
    path = _CATALOG / f"{source}.toml" if built_in else Path(source)
    if not path.is_file():
        names = built_in_names()
        hint = nearest(str(source), names) or f"; built in are {', '.join(names)}"
        raise DatasetError(f"dataset {str(source)!r} is neither built in nor a TOML file{hint}")
    try:
        return str(source), expand(tomllib.loads(path.read_text("utf-8")))
    except (OSError, ValueError, RecursionError, DatasetError) as error:
        raise DatasetError(f"{source}: {error}") from error


def _typed(value: object) -> object:
    """Read a setting given as text the way TOML would; what TOML cannot read is text."""
    if not isinstance(value, str):
        return value
    try:
        return tomllib.loads(f"value = {value}")["value"]
    except (ValueError, RecursionError, KeyError):
        return value


def _override(settings: dict[str, object], path: Sequence[str], value: object) -> str | None:
    """Put a value at a dotted key; return what is wrong with the key, if anything."""
    *parents, last = path
    for parent in parents:
        inner = settings.setdefault(parent, {}) if parent in _SECTIONS else settings.get(parent)
        if not isinstance(inner, dict):
            return f"{'.'.join(path)}: no key {parent!r}{nearest(parent, settings)}"
        settings = inner
    settings[last] = [value] if last in _LISTS and isinstance(value, str) else value
    return None


_SECTIONS = ("update_choice",)
_LISTS = ("record_key", "partition_path")


def _describe(detail: ErrorDetails) -> str:
    """One mistake found by pydantic, with its key and the nearest valid name."""
    location = [str(part) for part in detail["loc"]]
    known = tuple(DatasetSpec.model_fields)
    if location[:1] == ["columns"]:
        location, tag = _without_tags(location)
        known = tuple(_KINDS[tag].model_fields) if tag else ()
    key = ".".join(location)
    if detail["type"] == "extra_forbidden":
        return f"{key}: unknown key{nearest(location[-1], known)}"
    if detail["type"] == "union_tag_invalid":
        given = str(detail["ctx"]["tag"])
        return f"{key}: unknown kind {given!r}{nearest(given, sorted(_KINDS))}"
    text = detail["msg"].removeprefix("Value error, ")
    return f"{key}: {text[0].lower()}{text[1:]}" if key else text


def _without_tags(location: list[str]) -> tuple[list[str], str | None]:
    """A column's place without the kinds that pydantic names behind it and its parts; the last."""
    kept, tag, is_next = location[:2], None, True
    for part in location[2:]:
        if is_next and part in _KINDS:
            tag, is_next = part, False
        else:
            is_next = kept[-1] == "fields" or part in ("items", "values")
            kept.append(part)
    return kept, tag


_KINDS = {
    tag: model
    for model in get_args(get_args(Kind)[0])
    for tag in get_args(model.model_fields["kind"].annotation)
}
_UNIQUE = ", ".join(tag for tag, model in _KINDS.items() if model.unique)
