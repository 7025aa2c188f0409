"""A clock far ahead is refused before anything is written by it.

One instant in the future would put all later instants there, since they have to ascend.
"""

from __future__ import annotations

import contextlib
from datetime import UTC, datetime

from keymark.table.errors import CorruptFileError, InputError
from keymark.table.properties.options import CLOCK_DAYS, Options
from keymark.table.runtime.clock import Clock
from keymark.table.storage.storage import Dated, Storage
from keymark.table.timeline.instant_name import instant_millis
from keymark.table.timeline.timeline import Timeline

_DAY = 24 * 3600 * 1000


def check_clock(storage: Storage, clock: Clock, options: Options) -> None:
    """Compare the clock with the newest time of the storage and the newest instant of the table.

    Raises:
        InputError: it is further ahead than the option allows.
    """
    if not isinstance(storage, Dated):
        return
    days = options.integer(CLOCK_DAYS)
    now = clock.millis()
    enough = now - days * _DAY
    newest = storage.time(enough)
    if newest >= enough:
        return
    for instant in Timeline.load(storage).instants[-1:]:
        with contextlib.suppress(CorruptFileError):
            # The zone does not matter to days.
            newest = max(newest, instant_millis(instant.time, UTC))
    if newest >= enough:
        return
    raise InputError(
        f"the clock says {_text(now)}, {(now - newest) // _DAY} days after the newest time of "
        f"{storage.root} ({_text(newest)}): set the clock, or give option {CLOCK_DAYS} a greater "
        "number for this write"
    )


def _text(millis: int) -> str:
    try:
        return datetime.fromtimestamp(millis / 1000, UTC).strftime("%Y-%m-%d")
    except (ValueError, OverflowError):
        return f"{millis} ms"
