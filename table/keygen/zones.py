"""Time zones by the names that Java takes: UTC, GMT, GMT+8:00, Asia/Kolkata.

Java reads a name that it does not know as GMT, and some of three letters as places with summer time
(EST is New York to Joda-Time): both are refused here.
Source: TimeZone.getTimeZone, DateTimeZone.forTimeZone of Joda-Time 2.
"""

from __future__ import annotations

import datetime as dt
import re
import zoneinfo
from functools import cache

from keymark.table.errors import InvalidOptionError

_OFFSET = re.compile(r"GMT([+-])(\d{1,2})(?::?([0-5]\d))?\Z")


@cache
def zone_named(name: str, option: str) -> dt.tzinfo:
    """The zone of a name, which an option gave.

    Raises:
        InvalidOptionError: it is none, or Java would take it for another.
    """
    if name in ("UTC", "GMT", "Etc/UTC", "Z"):
        return dt.UTC
    match = _OFFSET.match(name)
    if match is not None and int(match[2]) < 24:
        minutes = int(match[2]) * 60 + int(match[3] or 0)
        return dt.timezone(dt.timedelta(minutes=-minutes if match[1] == "-" else minutes))
    if "/" in name:
        try:
            return zoneinfo.ZoneInfo(name)
        except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
            pass
    raise InvalidOptionError(
        f"option {option}: {name!r} is not a time zone; give UTC, GMT+8:00 or a name such as "
        "Asia/Kolkata"
    )
