"""Date patterns of Java's Joda-Time, as Hudi's timestamp-based key generator takes them.

    y Y year   x weekyear   M month   w week   D day of year   d day of month   E e day of week
    a half of day   H 0-23   k 1-24   K 0-11   h 1-12   m minute   s second   S fraction
    Z +0800   ZZ +08:00   ZZZ zone (printed only)   'text'   '' quote

How often a letter stands is the least number of digits; MMM, E and EEEE are English names. Letters
that Joda has beside these (C, G, z), and in input patterns those that Hudi would read in another
way from year to year (yy) or that no date needs, are refused by name.
Source: DateTimeFormat of Joda-Time 2.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable
from dataclasses import dataclass

from keymark.table.errors import InputError, InvalidOptionError

DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
MONTHS = (
    *("January", "February", "March", "April", "May", "June", "July"),
    *("August", "September", "October", "November", "December"),
)
_TOKEN = re.compile(r"([A-Za-z])\1*|'(?:[^']|'')*'|[^A-Za-z']+")
_PRINTED = frozenset("yYxMwDdEeaHkKhmsSZ")
_READ = frozenset("yYMDdEaHkKhmsSZ")
_SHORT = 3

# The part of a pattern for the time of day, in milliseconds.
_DAY, _HOUR, _MINUTE, _SECOND = 86_400_000, 3_600_000, 60_000, 1_000
_STEPS = {**dict.fromkeys("HkKha", _HOUR), "m": _MINUTE, "s": _SECOND, "S": 1}

_NUMBERS: dict[str, Callable[[dt.datetime], int]] = {
    "M": lambda time: time.month,
    "w": lambda time: time.isocalendar().week,
    "D": lambda time: time.timetuple().tm_yday,
    "d": lambda time: time.day,
    "e": lambda time: time.isoweekday(),
    "H": lambda time: time.hour,
    "k": lambda time: time.hour or 24,
    "K": lambda time: time.hour % 12,
    "h": lambda time: time.hour % 12 or 12,
    "m": lambda time: time.minute,
    "s": lambda time: time.second,
}


@dataclass(frozen=True, slots=True)
class Token:
    """A letter and how often it stands; or, without letter, a text that stands for itself."""

    letter: str
    width: int
    text: str = ""


def tokens_of(pattern: str) -> tuple[Token, ...]:
    """The parts of a pattern.

    Raises:
        InvalidOptionError: a letter that is no field, or a quote that does not end.
    """
    found: list[Token] = []
    at = 0
    for match in _TOKEN.finditer(pattern):
        if match.start() != at:
            break
        at = match.end()
        part = match[0]
        if not match[1]:
            plain = "'" if part == "''" else part.removeprefix("'").removesuffix("'")
            found.append(Token("", 0, plain.replace("''", "'") if part != "''" else plain))
        elif match[1] in _PRINTED:
            found.append(Token(match[1], len(part)))
        else:
            raise InvalidOptionError(f"date pattern {pattern!r}: {match[1]} is not supported")
    if at != len(pattern) or not found:
        raise InvalidOptionError(f"date pattern {pattern!r} is malformed")
    return tuple(found)


@dataclass(frozen=True, slots=True)
class Printer:
    """Prints times by a pattern."""

    tokens: tuple[Token, ...]

    @classmethod
    def of(cls, pattern: str) -> Printer:
        """Take a pattern apart."""
        return cls(tokens_of(pattern))

    @property
    def names_zone(self) -> bool:
        """Whether the zone is printed."""
        return any(token.letter == "Z" for token in self.tokens)

    @property
    def step(self) -> int:
        """Milliseconds within which all times of a day print alike."""
        return min((_STEPS.get(token.letter, _DAY) for token in self.tokens), default=_DAY)

    def text(self, time: dt.datetime) -> str:
        """A time as text; it needs a zone where the pattern names it."""
        return "".join(_print(token, time) for token in self.tokens)


def _print(token: Token, time: dt.datetime) -> str:
    letter, width = token.letter, token.width
    if not letter:
        return token.text
    if letter in "yYx":
        year = time.isocalendar().year if letter == "x" else time.year
        return f"{year % 100:02d}" if width == 2 else f"{year:0{width}d}"
    if not _is_number(token):
        return _print_name(letter, width, time)
    if letter == "S":
        return f"{time.microsecond // 1000:03d}".ljust(width, "0")[:width]
    return f"{_NUMBERS[letter](time):0{width}d}"


def _print_name(letter: str, width: int, time: dt.datetime) -> str:
    if letter == "a":
        return "AM" if time.hour < 12 else "PM"
    if letter == "Z":
        return _print_zone(width, time)
    name = DAYS[time.weekday()] if letter == "E" else MONTHS[time.month - 1]
    return name if width > _SHORT else name[:_SHORT]


def _print_zone(width: int, time: dt.datetime) -> str:
    offset = time.utcoffset() or dt.timedelta()
    minutes = offset // dt.timedelta(minutes=1)
    colon = ":" if width > 1 else ""
    text = f"{'-' if minutes < 0 else '+'}{abs(minutes) // 60:02d}{colon}{abs(minutes) % 60:02d}"
    if width < _SHORT or time.tzinfo is None:
        return text
    name = getattr(time.tzinfo, "key", None)
    return name or ("UTC" if time.tzinfo is dt.UTC else text)


@dataclass(frozen=True, slots=True)
class Reader:
    """Reads times by a pattern."""

    pattern: str
    expression: re.Pattern[str]

    @classmethod
    def of(cls, pattern: str) -> Reader:
        """Take a pattern apart.

        Raises:
            InvalidOptionError: it has a letter that is not read.
        """
        tokens = tokens_of(pattern)
        parts = []
        for number, token in enumerate(tokens):
            _check_read(pattern, token, tokens[:number])
            following = tokens[number + 1] if number + 1 < len(tokens) else None
            parts.append(_expression(token, following))
        return cls(pattern, re.compile("".join(parts), re.IGNORECASE | re.ASCII))

    def read(self, text: str) -> tuple[dt.datetime, dt.timezone | None] | None:
        """The time as written and the offset that it names; None where the text does not fit."""
        match = self.expression.fullmatch(text)
        if match is None:
            return None
        fields = {name: value for name, value in match.groupdict().items() if value is not None}
        try:
            return _date(fields) + _time(fields), _offset(fields.get("Z"))
        except (ValueError, OverflowError):
            return None


def _check_read(pattern: str, token: Token, before: tuple[Token, ...]) -> None:
    letter = token.letter
    text = f"date pattern {pattern!r}: "
    if letter and letter not in _READ:
        raise InvalidOptionError(f"{text}{letter} is not supported in input")
    if letter in ("y", "Y") and token.width == 2:
        raise InvalidOptionError(
            f"{text}{letter * 2} is not supported in input: which century it means depends on the "
            "year in which it is read"
        )
    if letter == "Z" and token.width >= _SHORT:
        raise InvalidOptionError(f"{text}{letter * token.width} is not supported in input")
    if letter and any(_field(letter) == _field(other.letter) for other in before):
        raise InvalidOptionError(f"{text}{letter} stands in it twice")


def _field(letter: str) -> str:
    return "y" if letter == "Y" else letter


def _is_number(token: Token | None) -> bool:
    if token is None or not token.letter:
        return False
    named = token.letter in "EaZ" or (token.letter == "M" and token.width >= _SHORT)
    return not named


def _expression(token: Token, following: Token | None) -> str:
    """A regular expression of what the token reads, named by its letter."""
    letter, width = token.letter, token.width
    if not letter:
        return re.escape(token.text)
    if letter in "yY":
        # Beside another number a year has as many digits as the pattern.
        return f"(?P<y>[0-9]{{1,{width if _is_number(following) else 9}}}+)"
    if letter == "E" or (letter == "M" and width >= _SHORT):
        names = DAYS if letter == "E" else MONTHS
        group = "E" if letter == "E" else "N"
        both = "|".join([*names, *(name[:_SHORT] for name in names)])
        return f"(?P<{group}>{both})"
    if letter == "a":
        return "(?P<a>AM|PM)"
    if letter == "Z":
        return "(?P<Z>Z|[+-][0-9]{2}(?::?[0-9]{2})?)"
    digits = {"S": width, "D": 3}.get(letter, 2)
    return f"(?P<{letter}>[0-9]{{1,{digits}}}+)"


def _date(fields: dict[str, str]) -> dt.datetime:
    year = int(fields.get("y", 1970))
    if "D" in fields:
        found = dt.datetime(year, 1, 1) + dt.timedelta(days=int(fields["D"]) - 1)  # noqa: DTZ001
        if found.year != year:
            raise ValueError("no such day")
    else:
        month = int(fields.get("M", 1))
        if "N" in fields:
            month = [name[:_SHORT] for name in MONTHS].index(fields["N"][:_SHORT].title()) + 1
        found = dt.datetime(year, month, int(fields.get("d", 1)))  # noqa: DTZ001
    if "E" in fields and DAYS[found.weekday()][:_SHORT] != fields["E"][:_SHORT].title():
        raise ValueError("another day of the week")
    return found


def _time(fields: dict[str, str]) -> dt.timedelta:
    hour = _within(fields.get("H", "0"), 0, 23)
    if "k" in fields:
        hour = _within(fields["k"], 1, 24) % 24
    half = fields.get("a", "AM").upper()
    if "h" in fields or "K" in fields:
        small = _within(fields["h"], 1, 12) % 12 if "h" in fields else _within(fields["K"], 0, 11)
        hour = small + (12 if half == "PM" else 0)
    return dt.timedelta(
        hours=hour,
        minutes=_within(fields.get("m", "0"), 0, 59),
        seconds=_within(fields.get("s", "0"), 0, 59),
        milliseconds=int(fields.get("S", "0").ljust(3, "0")[:3]),
    )


def _within(text: str, low: int, high: int) -> int:
    if not low <= int(text) <= high:
        raise ValueError("out of range")
    return int(text)


def _offset(text: str | None) -> dt.timezone | None:
    if text is None:
        return None
    if text in ("Z", "z"):
        return dt.UTC
    digits = text[1:].replace(":", "").ljust(4, "0")
    minutes = int(digits[:2]) * 60 + _within(digits[2:], 0, 59)
    return dt.timezone(dt.timedelta(minutes=-minutes if text[0] == "-" else minutes))


def instant_of(time: dt.datetime, zone: dt.tzinfo) -> dt.datetime:
    """A local time in a zone; of two the earlier.

    Raises:
        InputError: the zone's clocks skip that time.
    """
    found = time.replace(tzinfo=zone)
    if found.astimezone(dt.UTC).astimezone(zone).replace(tzinfo=None) != time:
        raise InputError(f"there is no time {time} in the zone {zone}")
    return found
