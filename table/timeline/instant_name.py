"""Instant file names of timeline layout 1, and instant times.

    <time>.<action>                     completed
    <time>.<action>.<requested|inflight>
    <time>.inflight                     an inflight commit
    <time>.compaction.*                 completes as <time>.commit
    <time>.logcompaction.*              completes as <time>.deltacommit

A time is `yyyyMMddHHmmssSSS` in the zone that the table names; the metadata table appends suffixes,
so a time has 14 to 23 digits, and times compare as strings. Source: HoodieInstant,
HoodieInstantTimeGenerator of Hudi 0.15.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, tzinfo

from keymark.table.errors import CorruptFileError, InputError
from keymark.table.layout.model import Instant

COMPLETED, INFLIGHT, REQUESTED = "completed", "inflight", "requested"
_NAME = re.compile(r"^(\d{1,30})\.([a-z]+)(?:\.(requested|inflight))?$")
_ACTIONS = frozenset(
    {
        "commit",
        "deltacommit",
        "replacecommit",
        "compaction",
        "logcompaction",
        "clean",
        "rollback",
        "restore",
        "indexing",
        "savepoint",
    }
)


def parse_instant(name: str) -> Instant | None:
    """The instant of a timeline file, or None where the name is no instant's."""
    match = _NAME.match(name)
    if match is None:
        return None
    time, action, state = match.groups()
    if action == INFLIGHT and state is None:
        return Instant(time=time, action="commit", state=INFLIGHT)
    if action not in _ACTIONS:
        return None
    return Instant(time=time, action=action, state=state or COMPLETED)


def instant_file(time: str, action: str, state: str) -> str:
    """The timeline file name of an instant."""
    if state == COMPLETED:
        return f"{time}.{action}"
    if action == "commit" and state == INFLIGHT:
        return f"{time}.inflight"
    return f"{time}.{action}.{state}"


def format_instant(epoch_ms: int, zone: tzinfo | None) -> str:
    """An instant time from milliseconds since the epoch; zone None is the process's own."""
    moment = datetime.fromtimestamp(epoch_ms // 1000, UTC).astimezone(zone)
    return f"{moment:%Y%m%d%H%M%S}{epoch_ms % 1000:03d}"


def as_of_instant(text: str) -> str:
    """An instant time given by a user: 17 digits, or 14 for the end of that second."""
    if not re.fullmatch(r"[0-9]{14}(?:[0-9]{3})?", text):
        raise InputError(f"{text!r} is not an instant: yyyyMMddHHmmss or yyyyMMddHHmmssSSS")
    return text if len(text) == 17 else f"{text}999"


def instant_millis(time: str, zone: tzinfo | None) -> int:
    """Epoch milliseconds of an instant time (14 digits mean .999, more than 17 are cut)."""
    digits = f"{time}999" if len(time) == 14 else time[:17]
    try:
        moment = datetime.strptime(digits[:14], "%Y%m%d%H%M%S")  # noqa: DTZ007
        millis = int(digits[14:17])
    except ValueError as error:
        raise CorruptFileError(time, 0, "not an instant time") from error
    moment = moment.replace(tzinfo=zone) if zone else moment.astimezone()
    return int(moment.timestamp()) * 1000 + millis
