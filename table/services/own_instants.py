"""Instants that only the metadata table has: <latest of the data>010, 011, ..."""

from __future__ import annotations

from keymark.table.metadata.records import SCHEMA
from keymark.table.state.table_state import TableState
from keymark.table.timeline.commit_metadata import encode_commit
from keymark.table.timeline.timeline import Timeline

BOOTSTRAP = "0" * 14
"""What stands for the latest instant of a table that has none."""

_FIRST_SUFFIX = 10
_SUFFIX_DIGITS = 3


def latest_completed(timeline: Timeline) -> str:
    """The latest completed instant of the data."""
    return max((instant.time for instant in timeline.completed()), default=BOOTSTRAP)


def free_instant(state: TableState) -> str:
    """The next of the metadata table's own instants, after all that it has."""
    assert state.metadata is not None
    latest = latest_completed(state.timeline)
    suffix = slice(len(latest), len(latest) + _SUFFIX_DIGITS)
    own = [i.time for i in state.metadata.timeline.instants if len(i.time) > len(latest)]
    taken = [int(time[suffix]) for time in own if time.startswith(latest)]
    return f"{latest}{max([_FIRST_SUFFIX - 1, *taken]) + 1:03d}"


def put_empty_delta(state: TableState) -> None:
    """Put a delta commit of the metadata table that changes nothing, after all others."""
    assert state.metadata is not None
    timeline, instant = state.metadata.timeline, free_instant(state)
    timeline.begin(instant, "deltacommit")
    timeline.start(instant, "deltacommit")
    content = encode_commit([], schema=SCHEMA, operation="UPSERT_PREPPED")
    timeline.complete(instant, "deltacommit", content)


def with_room(state: TableState) -> TableState:
    """The table with a delta commit after which there was neither compaction nor clean yet.

    Both take their instants from the latest delta commit.
    """
    assert state.metadata is not None
    timeline = state.metadata.timeline
    latest = max(i.time for i in timeline.completed({"deltacommit"}))
    if not {f"{latest}001", f"{latest}002"} & {i.time for i in timeline.instants}:
        return state
    put_empty_delta(state)
    return TableState.load(state.storage)
