"""A timestamp-based part of the partition path: a time, printed by a pattern in a zone.

    number, date   ->  milliseconds, by the input type's unit
    text           ->  milliseconds, by the first input pattern that it fits
    milliseconds   ->  text, by the output pattern

Null is the number 1 and, for texts, that time as the first input pattern prints it. Where no output
zone is set, a text's own offset counts, and UTC for numbers and texts without one (Hudi takes the
zone of its process). Times outside the years 1 to 9999, which Hudi prints, are refused: what gives
them is a wrong input type.
Source: TimestampBasedAvroKeyGenerator, HoodieDateTimeParser of Hudi 0.15.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from keymark.table.errors import InputError, InvalidOptionError
from keymark.table.keygen.date_pattern import Printer, Reader, instant_of
from keymark.table.keygen.paths import PathStyle
from keymark.table.keygen.texts import column_of
from keymark.table.keygen.zones import zone_named
from keymark.table.properties.options import (
    TIME_DELIMITER,
    TIME_INPUT,
    TIME_INPUT_ZONE,
    TIME_OUTPUT,
    TIME_OUTPUT_ZONE,
    TIME_TYPE,
    TIME_UNIT,
    TIME_ZONE,
)

TEXT_TYPES = ("DATE_STRING", "MIXED")
# Nanoseconds of the units of java.util.concurrent.TimeUnit.
UNITS = {
    "NANOSECONDS": 1,
    "MICROSECONDS": 1_000,
    "MILLISECONDS": 1_000_000,
    "SECONDS": 1_000_000_000,
    "MINUTES": 60_000_000_000,
    "HOURS": 3_600_000_000_000,
    "DAYS": 86_400_000_000_000,
}
# Hudi 1.x has EPOCHMICROSECONDS, too: SCALAR with MICROSECONDS says the same to every release.
_UNIT_OF_TYPE = {"UNIX_TIMESTAMP": "SECONDS", "EPOCHMILLISECONDS": "MILLISECONDS"}
TYPES = (*_UNIT_OF_TYPE, "SCALAR", *TEXT_TYPES)
_MILLISECOND = UNITS["MILLISECONDS"]
_EPOCH = dt.datetime(1970, 1, 1)  # noqa: DTZ001  local times have no zone
_DAY = dt.timedelta(days=1)
# A day away from what a datetime holds, for the zones.
_FIRST = (dt.datetime.min + _DAY - _EPOCH) // dt.timedelta(milliseconds=1)  # noqa: DTZ901
_LAST = (dt.datetime.max - _DAY - _EPOCH) // dt.timedelta(milliseconds=1)  # noqa: DTZ901

_Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeOptions:
    """The meaning of the options hoodie.keygen.timebased.*.

    Attributes:
        unit: nanoseconds of a number; 0 where numbers are not taken.
        readers: of texts, in their order; none where texts are not taken.
        default: the text that stands for null.
        input_zone: of texts without an offset; None where none is set.
        output_zone: of the paths; None where none is set.
    """

    unit: int
    readers: tuple[Reader, ...]
    default: str
    input_zone: dt.tzinfo | None
    output_zone: dt.tzinfo | None
    printer: Printer

    @classmethod
    def of(cls, given: Mapping[str, str]) -> TimeOptions:
        """Parse and check the options.

        Raises:
            InvalidOptionError: one is missing, malformed or not supported.
        """
        kind = given.get(TIME_TYPE, "")
        if kind not in TYPES:
            found = f"{kind!r} is none of" if kind else "a timestamp-based partition needs one of"
            raise InvalidOptionError(f"option {TIME_TYPE}: {found} {', '.join(TYPES)}")
        if not given.get(TIME_OUTPUT):
            raise InvalidOptionError(f"option {TIME_OUTPUT}: a timestamp-based partition needs one")
        both = given.get(TIME_ZONE)
        zones = [
            (name, given.get(name, "") if both is None else both)
            for name in (TIME_INPUT_ZONE, TIME_OUTPUT_ZONE)
        ]
        into, out = (
            zone_named(zone.strip(), name) if zone.strip() else None for name, zone in zones
        )
        readers, default = (
            _readers(given, into or out or dt.UTC) if kind in TEXT_TYPES else ((), "")
        )
        return cls(
            unit=0 if kind in TEXT_TYPES else _unit(kind, given),
            readers=readers,
            default=default,
            input_zone=into,
            output_zone=out,
            printer=Printer.of(given[TIME_OUTPUT]),
        )


def _unit(kind: str, given: Mapping[str, str]) -> int:
    name = _UNIT_OF_TYPE.get(kind) or given.get(TIME_UNIT, "SECONDS").upper()
    if name not in UNITS:
        raise InvalidOptionError(f"option {TIME_UNIT}: {name!r} is none of {', '.join(UNITS)}")
    return UNITS[name]


def _readers(given: Mapping[str, str], zone: dt.tzinfo) -> tuple[tuple[Reader, ...], str]:
    """The input patterns, and the text that stands for null."""
    listed, delimiter = given.get(TIME_INPUT, ""), given.get(TIME_DELIMITER, ",")
    if not listed:
        raise InvalidOptionError(f"option {TIME_INPUT}: texts need a date pattern")
    try:
        patterns = re.split(delimiter, listed)
    except re.error as error:
        raise InvalidOptionError(f"option {TIME_DELIMITER}: {delimiter!r} ({error})") from error
    first = dt.datetime(1970, 1, 1, 0, 0, 0, 1000, tzinfo=dt.UTC).astimezone(zone)
    default = Printer.of(patterns[0].strip()).text(first)
    return tuple(Reader.of(pattern.strip()) for pattern in patterns), default


@dataclass(frozen=True, slots=True)
class TimeSegment:
    """A time of the field, as text."""

    field: str
    style: PathStyle
    options: TimeOptions

    def __call__(self, batch: pa.Table | pa.RecordBatch) -> pa.Array:
        """The part of each row's path."""
        column = column_of(batch, self.field, "partition")
        if pa.types.is_dictionary(column.type):
            column = column.dictionary_decode()
        if pa.types.is_null(column.type):
            column = column.cast(pa.string() if self.options.readers else pa.int64())
        is_text = pa.types.is_string(column.type) or pa.types.is_large_string(column.type)
        texts = self._of_texts(column) if is_text else self._of_numbers(column)
        return self.style.named(self.field, texts)

    def _of_texts(self, column: pa.Array) -> pa.Array:
        """Python once per distinct text."""
        if not self.options.readers and column.null_count < len(column):
            self._refuse_type(column.type)
        default = self.options.default
        if not self.options.readers:
            return self._of_numbers(pa.nulls(len(column), pa.int64()))
        encoded = pc.fill_null(column.cast(pa.string()), default).dictionary_encode()
        values = []
        for number, text in enumerate(encoded.dictionary.to_pylist()):
            path = self._path_of(text)
            if path is None:
                row = pc.index(encoded.indices, number).as_py()
                patterns = ", ".join(reader.pattern for reader in self.options.readers)
                raise InputError(
                    f"partition field {self.field}: {text!r} in row {row} of the input does not "
                    f"fit the date pattern {patterns}"
                )
            values.append(self.style.escaped(path))
        return pa.array(values, pa.string()).take(encoded.indices)

    def _path_of(self, text: str) -> str | None:
        for reader in self.options.readers:
            found = reader.read(text)
            if found is None:
                continue
            local, offset = found
            zone = offset or self.options.input_zone or dt.UTC
            # Without any input zone a text's own offset lives on, unless an output zone is set.
            shown = self.options.output_zone or self.options.input_zone or zone
            try:
                return self.options.printer.text(instant_of(local, zone).astimezone(shown))
            except OverflowError:
                return None
        return None

    def _of_numbers(self, column: pa.Array) -> pa.Array:
        """Python once per distinct path, and per distinct time where the zone is printed."""
        if not self.options.unit:
            if column.null_count < len(column):
                self._refuse_type(column.type)
            return self._of_texts(pa.nulls(len(column), pa.string()))
        millis = self._millis(_whole(pc.fill_null(column, 1) if column.null_count else column))
        zone, printer = self.options.output_zone or dt.UTC, self.options.printer
        if printer.names_zone:
            times, base = millis, _EPOCH.replace(tzinfo=dt.UTC)
        else:
            times = _local(millis, zone) // printer.step * printer.step
            base = _EPOCH
        distinct, rows = np.unique(times, return_inverse=True)
        values = []
        for value in distinct.tolist():
            time = base + dt.timedelta(milliseconds=value)
            shown = time.astimezone(zone) if printer.names_zone else time
            values.append(self.style.escaped(printer.text(shown)))
        return pa.array(values, pa.string()).take(pa.array(rows))

    def _millis(self, values: _Numbers) -> _Numbers:
        """Numbers of the unit as milliseconds; Java's division cuts towards zero."""
        unit = self.options.unit
        low, high = _FIRST * _MILLISECOND // unit, _LAST * _MILLISECOND // unit
        wrong = (values < max(low, -(1 << 63))) | (values > min(high, (1 << 63) - 1))
        if wrong.any():
            row = int(np.flatnonzero(wrong)[0])
            raise InputError(
                f"partition field {self.field}: {int(values[row])} in row {row} of the input is "
                f"outside the years 1 to 9999; is option {TIME_TYPE} right?"
            )
        if unit >= _MILLISECOND:
            return values * (unit // _MILLISECOND)
        step = _MILLISECOND // unit
        cut: _Numbers = values // step + ((values < 0) & (values % step != 0))
        return cut

    def _refuse_type(self, kind: pa.DataType) -> None:
        raise InputError(
            f"partition field {self.field} of type {kind} does not fit option {TIME_TYPE}"
        )


def _whole(column: pa.Array) -> _Numbers:
    """Numbers as Java's longValue has them; timestamps as microseconds, dates as days."""
    kind = column.type
    if pa.types.is_timestamp(kind):
        column = column.cast(pa.timestamp("us", kind.tz)).cast(pa.int64())
    elif pa.types.is_date32(kind):
        column = column.cast(pa.int32())
    elif pa.types.is_decimal(kind) or pa.types.is_floating(kind):
        column = pc.trunc(column)
    elif not pa.types.is_integer(kind):
        raise InputError(f"a partition field of type {kind} holds no times")
    try:
        numbers: _Numbers = column.cast(pa.int64()).to_numpy(zero_copy_only=False)
    except pa.ArrowInvalid as error:
        raise InputError(f"a partition field of type {kind} holds no times: {error}") from error
    return numbers


def _local(millis: _Numbers, zone: dt.tzinfo) -> _Numbers:
    """Times of a zone's clocks, in milliseconds."""
    name = getattr(zone, "key", None)
    if name is None:
        offset = zone.utcoffset(None) or dt.timedelta()
        return millis + offset // dt.timedelta(milliseconds=1)
    stamps = pa.array(millis).cast(pa.timestamp("ms", name))
    local: _Numbers = pc.local_timestamp(stamps).cast(pa.int64()).to_numpy()
    return local
