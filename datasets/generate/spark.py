"""The Spark half: rows, change streams and digests as SQL on the JVM.

All is text handed to `selectExpr`, evaluated by Spark's own expressions with code generation; there
is no Python on the executors, and nothing here imports pyspark. Values that are used more than once
get a projection of their own, because Spark would otherwise copy their expression.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from keymark.datasets.changes.permutation import Permutation
from keymark.datasets.changes.stream import LATE, ChosenPiece, Stream
from keymark.datasets.changes.stripes import StripedOrder
from keymark.datasets.columns.kind import Expressions, element, quoted
from keymark.datasets.errors import DatasetError
from keymark.datasets.generate.digest import SEEDS, Truth, check_columns
from keymark.datasets.specs.spec import DatasetSpec

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import DataType, MapType

_NUMBER = "__number"
_VERSION = "__version"
_MOVES = "__moves"
_ROW, _COLUMN = "__grid_row", "__grid_column"
_INTEGERS = ("byte", "short", "integer", "long")
_NATIVE = ("boolean", "date", "timestamp", "timestamp_ntz", "double", "decimal", "string", "binary")
_MASK = 2**64 - 1


def inserted(spark: SparkSession, stream: Stream, round_: int, partitions: int) -> DataFrame:
    """The rows that a round adds; round 0 adds the first load."""
    start, stop = stream.inserted(round_)
    return _versioned(_range(spark, start, stop, partitions), "id", round_)


def batch(spark: SparkSession, stream: Stream, round_: int, partitions: int) -> DataFrame:
    """The rows of a round's batch: see `GeneratedDataset.batch_slice`."""
    doubled = min(stream.duplicates, stream.updates)
    parts = [_updated(spark, stream, round_, (stream.updates, round_, partitions))]
    if stream.spec.movers is not None:
        moved = _range(spark, *stream.spec.movers.turn(round_), partitions)
        numbers = _ordered(moved, stream.spec.order, "id", ())
        parts.append(_versioned(numbers, "id", round_, moves=stream.spec.movers.moves(round_)))
    parts.append(inserted(spark, stream, round_, partitions))
    if stream.late:
        late = _permuted(_range(spark, 0, stream.late, partitions), stream.late_ranks(round_))
        numbers = _numbers(late, stream, round_, "id")
        parts.append(_versioned(numbers, "__place", LATE))
    if doubled:
        parts.append(_updated(spark, stream, round_, (doubled, round_ - 1, partitions)))
    if stream.duplicates > doubled:
        start = stream.inserted(round_)[0]
        again = _range(spark, start, start + stream.duplicates - doubled, partitions)
        parts.append(_versioned(again, "id", round_ - 1))
    if stream.repeats:
        [number] = stream.repeated(round_, 0, 1).tolist()
        again = _range(spark, 0, stream.repeats, partitions)
        columns = f"{number}L as {_NUMBER}", f"{LATE}L - id as {_VERSION}", f"0L as {_MOVES}"
        parts.append(again.selectExpr(*columns))
    return functools.reduce(lambda one, other: one.union(other), parts)


def _versioned(df: DataFrame, column: str, version: int, moves: int = 0) -> DataFrame:
    """What `rows` takes: numbers of rows, the round of their last change, and their moves."""
    return df.selectExpr(
        f"{column} as {_NUMBER}", f"{version}L as {_VERSION}", f"{moves}L as {_MOVES}"
    )


def _updated(
    spark: SparkSession, stream: Stream, round_: int, taken: tuple[int, int, int]
) -> DataFrame:
    """The first rows that a round updates: how many, as which version, in how many partitions."""
    count, version, partitions = taken
    ranked = _ranked(_range(spark, 0, count, partitions), stream, round_)
    return _versioned(_numbers(ranked, stream, round_, "__rank"), "__place", version)


def _numbers(ranked: DataFrame, stream: Stream, round_: int, rank: str) -> DataFrame:
    """The numbers, as `__place`, of rows that a round ranks."""
    ranking = stream.ranking(stream.before(round_))
    for name, expression in ranking.named(rank):
        ranked = ranked.selectExpr("*", f"{expression} as {name}")
    rows = stream.spec.rows
    placed = ranked.selectExpr(f"{ranking.sql(rank)} as __place").selectExpr(
        "__place as __added", f"least(__place, {rows - 1}L) as __place"
    )
    return _ordered(placed, stream.spec.order, "__place", ("__added",)).selectExpr(
        f"if(__added >= {rows}L, __added, __place) as __place"
    )


def _ranked(places: DataFrame, stream: Stream, round_: int) -> DataFrame:
    """The ranks that a round updates, for the places 0..updates-1 in the column `id`."""
    chosen = stream.chosen(round_)
    if len(chosen) < 2:
        first = chosen[0].piece.first if chosen else 0
        order = chosen[0].order if chosen else Permutation(1, 0)
        return _permuted(places, order).selectExpr(f"id + {first}L as __rank")
    ends = list(itertools.accumulate(each.piece.quota for each in chosen))
    cases = " ".join(f"when id < {end}L then {number}" for number, end in enumerate(ends))
    starts = _picked([0, *ends[:-1]])
    sizes = [_picked([each.order.grid[axis] for each in chosen]) for axis in (0, 1)]
    df = places.selectExpr("id", f"case {cases} end as __piece").selectExpr(
        "__piece",
        f"(id - {starts}) div {sizes[1]} as {_ROW}",
        f"(id - {starts}) % {sizes[1]} as {_COLUMN}",
    )
    keys = zip(*(each.order.round_keys for each in chosen), strict=True)
    df = _mixed(df, ("__piece",), sizes, [_picked(of_round) for of_round in keys])
    firsts = _picked([each.piece.first for each in chosen])
    cell = f"{_ROW} * {sizes[1]} + {_COLUMN}"
    if not any(each.order.landings for each in chosen):
        return df.selectExpr(f"{firsts} + {cell} as __rank")
    landed = _landed(chosen)
    return df.selectExpr("__piece", f"{cell} as __cell").selectExpr(
        f"{firsts} + {landed} as __rank"
    )


def _landed(chosen: Sequence[ChosenPiece]) -> str:
    """The cell, or where its walk ends if it is beyond its piece's elements."""
    sizes = _picked([each.order.size for each in chosen])
    starts = itertools.accumulate((len(each.order.landings) for each in chosen), initial=0)
    places = [str(place) for each in chosen for place in each.order.landings]
    landing = element(places, f"{_picked(list(starts)[:-1])} + __cell - {sizes}")
    return f"if(__cell < {sizes}, __cell, cast({landing} as bigint))"


def _picked(values: Sequence[int]) -> str:
    """The value that belongs to a piece."""
    return f"array({', '.join(f'{value}L' for value in values)})[__piece]"


def deleted(spark: SparkSession, stream: Stream, round_: int, partitions: int) -> DataFrame:
    """The rows that the delete step of a round removes, with the round as version."""
    places = _range(spark, *stream.deleted_slice(round_), partitions)
    return _versioned(_ordered(places, stream.spec.order, "id", ()), "id", round_)


def rows(spec: DatasetSpec, numbered: DataFrame, columns: Sequence[str]) -> DataFrame:
    """Rows of the named columns for a DataFrame of numbers and versions.

    Raises:
        DatasetError: a column is unknown.
    """
    kinds = dict(spec.flat_columns())
    check_columns(columns, list(kinds))
    shape = spec.shape
    helpers: dict[str, str] = {}
    values = []
    for name in columns:
        source = Expressions(shape=shape, name=name, number=_NUMBER, version=_VERSION, moves=_MOVES)
        values.append(f"{kinds[name].sql(source)} as {quoted(name)}")
        helpers |= source.helpers
    if helpers:
        named = (f"{expression} as {quoted(name)}" for name, expression in helpers.items())
        numbered = numbered.selectExpr(_NUMBER, _VERSION, _MOVES, *named)
    return numbered.selectExpr(*values)


def digest_dataframe(df: DataFrame, columns: Sequence[str] | None = None) -> Truth:
    """Return (rows, digest) of a DataFrame over the named columns, or over all.

    The rules are those of `digest`. The sums go over halves of the hashes, so that they
    fit 64 bits also where Spark refuses to overflow (ANSI mode).

    Raises:
        DatasetError: a column is missing or of a type that has no digest.
    """
    names = sorted(columns if columns is not None else df.columns)
    check_columns(names, df.columns)
    types = {field.name: field.dataType for field in df.schema.fields}
    terms = [term for name in names for term in _terms(quoted(name), types[name], name, 0)]
    hashes = [f"xxhash64({', '.join([f'{seed}L', *terms])}) as h{seed}" for seed in SEEDS]
    halves = [
        half
        for seed in SEEDS
        for half in (f"sum(shiftrightunsigned(h{seed}, 32))", f"sum(h{seed} & 4294967295L)")
    ]
    [answer] = df.selectExpr(*hashes).selectExpr("count(1)", *halves).collect()
    count, *sums = (int(value or 0) for value in answer)
    high, low = (((upper << 32) + lower) & _MASK for upper, lower in (sums[:2], sums[2:]))
    return Truth(count, f"{high:016x}{low:016x}")


def _range(spark: SparkSession, start: int, stop: int, partitions: int) -> DataFrame:
    return spark.range(start, stop, 1, partitions or spark.sparkContext.defaultParallelism)


def _ordered(df: DataFrame, order: StripedOrder, column: str, keep: Sequence[str]) -> DataFrame:
    """Replace a column of places by row numbers."""
    if order.stripes < 2:
        return df.selectExpr(*keep, column)
    split = df.selectExpr(
        *keep,
        f"{column} as __before",
        f"{column} % {order.lots}L as __within",
        f"least({column} div {order.lots}L, {order.stripes - 1}L) as {column}",
    )
    moved = _permuted(split, order.permutation, column, (*keep, "__before", "__within"))
    shift = f"pmod(xxhash64({order.shift_key}L, __within), {order.stripes}L)"
    number = f"pmod({column} + {shift}, {order.stripes}L) * {order.lots}L + __within"
    whole = f"__before < {order.stripes * order.lots}L"
    return moved.selectExpr(*keep, f"if({whole}, {number}, __before) as {column}")


def _permuted(
    df: DataFrame, permutation: Permutation, column: str = "id", keep: Sequence[str] = ()
) -> DataFrame:
    """Replace a column by its images."""
    size = permutation.size
    sizes = permutation.grid
    df = df.selectExpr(
        *keep, f"{column} div {sizes[1]}L as {_ROW}", f"{column} % {sizes[1]}L as {_COLUMN}"
    )
    keys = [f"{key}L" for key in permutation.round_keys]
    df = _mixed(df, keep, [f"{side}L" for side in sizes], keys)
    df = df.selectExpr(*keep, f"{_ROW} * {sizes[1]}L + {_COLUMN} as {column}")
    if not permutation.landings:
        return df
    places = ", ".join(f"{landing}L" for landing in permutation.landings)
    landing = f"array({places})[cast({column} - {size}L as int)]"
    return df.selectExpr(*keep, f"if({column} < {size}L, {column}, {landing}) as {column}")


def _mixed(
    df: DataFrame, keep: Sequence[str], sizes: Sequence[str], keys: Sequence[str]
) -> DataFrame:
    """The rounds of the network over the grid's row and column, of these sizes."""
    for index, key in enumerate(keys):
        moved, other = ((_ROW, _COLUMN), (_COLUMN, _ROW))[index % 2]
        modulus = sizes[index % 2]
        by = f"pmod(xxhash64({key}, {other}), {modulus})"
        df = df.selectExpr(*keep, f"({moved} + {by}) % {modulus} as {moved}", other)
    return df


def _terms(value: str, kind: Any, name: str, depth: int) -> Iterator[str]:
    """The arguments of `xxhash64` that a value of a Spark type contributes."""
    type_name = kind.typeName()
    if type_name == "array":
        yield f"if({value} is null, -1, size({value}))"
        yield _elements(value, kind.elementType, name, depth)
    elif type_name == "map":
        yield f"if({value} is null, -1, size({value}))"
        yield _entries(value, kind, name, depth)
    else:
        yield f"{value} is null"
        if type_name == "struct":
            for field in kind.fields:
                inner = f"{name}.{field.name}"
                yield from _terms(f"{value}.{quoted(field.name)}", field.dataType, inner, depth)
        elif type_name in _INTEGERS:
            yield f"cast({value} as bigint)"
        elif type_name == "float":
            yield f"cast({value} as double)"
        elif type_name.startswith(_NATIVE):
            yield value
        else:
            raise DatasetError(
                f"column {name!r} has type {kind.simpleString()}, of which no digest is defined"
            )


def _elements(value: str, kind: DataType, name: str, depth: int) -> str:
    """Elements of a list; Spark hashes a list of structs by folding over all their fields."""
    variable = f"x{depth}"
    inner = ", ".join(_terms(variable, kind, f"{name}[]", depth + 1))
    return f"transform({value}, {variable} -> struct({inner}))"


def _entries(value: str, kind: MapType, name: str, depth: int) -> str:
    """Entries of a map in the order of their keys; an entry itself is never null."""
    variable = f"x{depth}"
    terms = [
        "false",
        *_terms(variable, kind.keyType, f"{name}.key", depth + 1),
        *_terms(f"{value}[{variable}]", kind.valueType, f"{name}.value", depth + 1),
    ]
    return f"transform(array_sort(map_keys({value})), {variable} -> struct({', '.join(terms)}))"
