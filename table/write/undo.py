"""Taking back what failed writes left.

What a failed write leaves is its data files (named by markers made before them), its log files in
the metadata table and its instants. Undoing deletes them in an order that keeps the instant pending
until nothing else is left, so that it can be cut off anywhere and done again.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from keymark.table.errors import UnsupportedTableError
from keymark.table.layout.naming import (
    PARTITION_METADATA,
    TEMP,
    check_relative,
    marked_file,
    parse_base_file,
)
from keymark.table.metadata.writer import take_back_delta
from keymark.table.properties.config import restore_properties
from keymark.table.state.late import note_fenced, sweep_late
from keymark.table.state.uncommitted import may_be_archived
from keymark.table.storage.storage import Storage
from keymark.table.timeline.instant_name import COMPLETED
from keymark.table.timeline.timeline import Timeline

_MARKERS_FILE = re.compile(r"^MARKERS\d+$")


def clear_failed(storage: Storage) -> None:
    """Undo what dead writers left and sweep the markers of completed instants.

    Call it under the lease. Pending writes of kinds that Keymark does not make are refused by name:
    they belong to an engine that can finish them.
    """
    restore_properties(storage)
    timeline = Timeline.load(storage)
    _refuse_pending(timeline)
    for instant in timeline.pending():
        if instant.action == "commit":
            note_fenced(storage, instant.time, _marked(storage, instant.time))
            # A power cut may have taken markers and left files.
            undo(storage, timeline, instant.time, everywhere=True)
    _sweep_markers(storage, timeline)
    sweep_late(storage, timeline)


def _sweep_markers(storage: Storage, timeline: Timeline) -> None:
    """Delete the markers of completed instants, and what tasks wrote that outlived their writer.

    Such a task makes markers and files of an instant that was taken back already, or completed
    without them. The files of an instant that was archived stay.
    """
    done = {instant.time: instant for instant in timeline.completed()}
    for time in {s.path.split("/")[2] for s in storage.walk(TEMP) if s.path.count("/") > 2}:
        instant = done.get(time)
        if instant is not None and instant.action in ("commit", "replacecommit"):
            named = {path for _, path, _ in timeline.commit(instant).files}
            sweep_losers(storage, time, named)
        elif instant is None:
            if not time.isdigit() or may_be_archived(time, timeline):
                continue
            for path in list(data_files(storage, time)):
                storage.delete(path)
        storage.delete_tree(f"{TEMP}/{time}")


def _refuse_pending(timeline: Timeline) -> None:
    for instant in timeline.pending():
        if instant.action in ("deltacommit", "replacecommit", "compaction", "logcompaction"):
            raise UnsupportedTableError(
                f"a {instant.action} of instant {instant.time} is pending: finish or roll it back "
                "with Apache Hudi first"
            )


def undo(storage: Storage, timeline: Timeline, time: str, *, everywhere: bool = False) -> None:
    """Take an uncompleted commit back: data files, index blocks, markers, instants, in that order.

    Files are found by the instant's markers, or `everywhere`, by a listing of the table.

    An instant that was completed after all stays: the put may have succeeded and its answer lost.
    """
    if storage.exists(timeline.path(time, "commit", COMPLETED)):
        return
    for path in data_files(storage, time, everywhere=everywhere):
        storage.delete(path)
    take_back_delta(storage, time)
    storage.delete_tree(f"{TEMP}/{time}")
    # After a power cut nothing but the instant leads to a file that is there again.
    storage.sync()
    timeline.remove(time, "commit")


def data_files(storage: Storage, time: str, *, everywhere: bool = False) -> Iterator[str]:
    """Files that an instant made, by its markers, and by a listing where it has none or is asked.

    Args:
        storage: the table's.
        time: the instant.
        everywhere: whether files without a marker are looked for.
    """
    folder = f"{TEMP}/{time}"
    marked = set(_marked(storage, time))
    if everywhere or not storage.exists(folder):
        marked |= {status.path for status in storage.walk("")}
    partitions: set[str] = set()
    found: list[str] = []
    for path in marked:
        check_relative(path, folder)
        partition, _, name = path.rpartition("/")
        file = parse_base_file(partition, name, 0)
        if file is not None and file.instant_time == time:
            partitions.add(partition)
            found.append(path)
    # Delete these first: once the base files are gone, nothing refers to them.
    for partition in partitions:
        yield from _partition_metadata(storage, partition, time)
    yield from found


def sweep_losers(storage: Storage, time: str, winners: set[str]) -> None:
    """Delete the data files that an instant marked and no result of it names."""
    for path in set(_marked(storage, time)) - winners:
        storage.delete(check_relative(path, f"{TEMP}/{time}"))


def _marked(storage: Storage, time: str) -> Iterator[str]:
    """The files that DIRECT markers or a timeline server's marker files name."""
    for status in storage.walk(f"{TEMP}/{time}"):
        if _MARKERS_FILE.match(status.name):
            for line in storage.read(status.path).decode("utf-8", "replace").splitlines():
                path = marked_file(line, time)
                if path is not None:
                    yield path
        else:
            path = marked_file(status.path, time)
            if path is not None:
                yield path


def _partition_metadata(storage: Storage, partition: str, time: str) -> Iterator[str]:
    """The partition's own file, where this instant opened the partition."""
    path = f"{partition}/{PARTITION_METADATA}" if partition else PARTITION_METADATA
    try:
        text = storage.read(path).decode("iso-8859-1")
    except FileNotFoundError:
        return
    if f"commitTime={time}\n" in text:
        yield path
