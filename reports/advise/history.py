"""The upserts of a surveyed table, in medians: what advice shows and plans with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from statistics import median

from keymark.table.survey.model import TableSurvey, WriteFacts

_UPSERTS = ("UPSERT", "UPSERT_PREPPED", "INSERT", "INSERT_PREPPED")
_SECONDS_A_DAY = 86400.0


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """The table's own upserts, in medians.

    Attributes:
        upserts: how many were read.
        batch, files, partitions, bytes_written: of one.
        new_share: of the rows that all of them put or changed; None where they only deleted.
        amplification: rows written for a changed one; None where log files take the changes.
        seconds: from request to completion; None where the table's version does not keep it.
        file_seconds: of tasks for its files, summed over them; None where no commit tells it.
        rows_a_day: by which the table grows; None where its writes are less than an hour apart, and
            where they do not tell it: one took file groups out, or has an instant that is no time.
    """

    upserts: int
    batch: float
    files: float
    partitions: float
    bytes_written: float
    new_share: float | None
    amplification: float | None
    seconds: float | None
    file_seconds: float | None
    rows_a_day: float | None


def history(survey: TableSurvey) -> History | None:
    """The upserts of a table; None where none was read."""
    upserts = [write for write in survey.writes if write.operation in _UPSERTS and write.batch > 0]
    if not upserts:
        return None
    put = sum(write.updated + write.inserted for write in upserts)
    seconds = [write.seconds for write in upserts if write.seconds is not None]
    of_files = [write.file_seconds for write in upserts if write.file_seconds is not None]
    return History(
        upserts=len(upserts),
        batch=median(write.batch for write in upserts),
        files=median(write.files for write in upserts),
        partitions=median(write.partitions for write in upserts),
        bytes_written=median(write.bytes_written for write in upserts),
        new_share=sum(write.inserted for write in upserts) / put if put else None,
        amplification=None
        if survey.merge_on_read
        else median(write.rows_written / write.batch for write in upserts),
        seconds=median(seconds) if seconds else None,
        file_seconds=median(of_files) if of_files else None,
        rows_a_day=_rows_a_day(survey.writes),
    )


def _rows_a_day(writes: Sequence[WriteFacts]) -> float | None:
    """Rows by which the writes after the first one changed the table, by the day."""
    # A commit does not say how many rows the file groups had that it replaces.
    if len(writes) < 3 or any(write.action == "replacecommit" for write in writes[1:]):
        return None
    first, last = _moment(writes[0].time), _moment(writes[-1].time)
    if first is None or last is None or (last - first).total_seconds() < 3600:
        return None
    grown = sum(write.inserted - write.deleted for write in writes[1:])
    return grown / (last - first).total_seconds() * _SECONDS_A_DAY


def _moment(time: str) -> datetime | None:
    """The time of an instant; None of one that names none, as those of Hudi's bootstrap."""
    try:
        return datetime.strptime(time[:14], "%Y%m%d%H%M%S").replace(tzinfo=UTC)
    except ValueError:
        return None
