"""Whether Apache Hudi wrote to a table with virtual keys and left its record index behind.

Hudi 0.15 lists the record index among the metadata partitions of such a table and enters no key in
it: a commit that adds or takes keys has a delta commit without a word on record_index. Keymark's
commits have both, and a build of the index covers the commits before it.
Source: HoodieBackedTableMetadataWriter.getRecordIndexUpdates, which goes by the meta columns.
"""

from __future__ import annotations

from keymark.table.errors import IndexUnavailableError
from keymark.table.metadata.partitions import RECORD_INDEX
from keymark.table.state.table_state import TableState
from keymark.table.timeline.timeline import COMMIT_ACTIONS

_INSTANT_DIGITS = 17


def stale_since(state: TableState) -> str | None:
    """The instant of the newest commit whose keys the record index lacks; None if there is none.

    Only instants of the active timelines can tell; `table check` compares every key.
    """
    config, metadata = state.config, state.metadata
    # Where Hudi stores keys, it enters them.
    if config.stores_meta or metadata is None or RECORD_INDEX not in config.metadata_partitions:
        return None
    deltas = {i.time: i for i in metadata.timeline.completed({"deltacommit"})}
    builds = [t for t in deltas if len(t) > _INSTANT_DIGITS and _enters_keys(state, t)]
    built = max((time[:_INSTANT_DIGITS] for time in builds), default="")
    for instant in reversed(state.timeline.completed(COMMIT_ACTIONS)):
        if instant.time <= built or instant.time not in deltas:
            return None
        if _enters_keys(state, instant.time):
            return None
        if state.timeline.commit(instant).changes_keys:
            return instant.time
    return None


def _enters_keys(state: TableState, time: str) -> bool:
    assert state.metadata is not None
    timeline = state.metadata.timeline
    (delta,) = (i for i in timeline.completed({"deltacommit"}) if i.time == time)
    return any(partition == RECORD_INDEX for partition, _, _ in timeline.commit(delta).files)


def refuse_stale_index(state: TableState) -> None:
    """Refuse to rely on a record index that lacks keys.

    Raises:
        IndexUnavailableError: it was left behind; the text names the remedy.
    """
    instant = stale_since(state)
    if instant is not None:
        root = state.storage.root
        raise IndexUnavailableError(
            f"the record index of {root} was left behind by commit {instant} of Apache Hudi, which "
            f"enters no virtual keys in it: `keymark table index build {root} record_index` "
            "builds it anew"
        )
