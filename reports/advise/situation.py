"""A surveyed table in the planner's words: its workload, and the index that it uses."""

from __future__ import annotations

from dataclasses import dataclass

from keymark.indexes.installed import measured_specs
from keymark.indexes.spec import IndexSpec
from keymark.indexes.workload import FILTER_BYTES, Workload
from keymark.reports.advise.history import History, history
from keymark.reports.errors import ReportError
from keymark.table.survey.model import TableSurvey

_NEW_SHARE = 0.5
"""Share of new rows in a batch if the table's writes do not tell it; `plan` assumes the same."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What the user says beside the table.

    Attributes:
        index: that the writer's options name; None: not said.
        batch: rows of a batch; None: the median of the table's own.
        executors, cores: of the writer; cores are those of one executor.
        keys_stay: a key never changes its partition path.
    """

    index: str | None = None
    batch: int | None = None
    executors: int = 1
    cores: int = 2
    keys_stay: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """What is planned for.

    Attributes:
        at: the table, its batches and its writer; None where the table is empty, or neither its
            timeline nor the user tells a batch.
        index: in use, as far as known; None: not known.
        index_known_by: what says so.
        history: the upserts whose medians are in `at`; None where no upsert was read.
        keys_stay: whether partition-local indexes will do.
    """

    at: Workload | None
    index: IndexSpec | None
    index_known_by: str
    history: History | None
    keys_stay: bool


def situation(survey: TableSurvey, asked: Asked) -> Situation:
    """What the planner needs to know of a table.

    Raises:
        ReportError: the user names an index that does not exist.
    """
    past = history(survey)
    index, known_by = _index(survey, asked)
    return Situation(
        at=_workload(survey, asked, past),
        index=index,
        index_known_by=known_by,
        history=past,
        keys_stay=asked.keys_stay or (index is not None and not index.is_global),
    )


def _index(survey: TableSurvey, asked: Asked) -> tuple[IndexSpec | None, str]:
    known = {name: spec for name, spec in measured_specs().items() if not spec.in_formats}
    if asked.index is not None:
        if asked.index not in known:
            raise ReportError(f"there is no index {asked.index!r} ({', '.join(known)})")
        return known[asked.index], "--index says so"
    if survey.record_index is not None:
        local = survey.record_index.partitioned
        for spec in known.values():
            partition = spec.partition_in(survey.version)
            if partition in survey.metadata_partitions and spec.is_global != local:
                return spec, "the metadata table has it"
    if survey.files.buckets:
        for spec in known.values():
            if spec.owns_layout:
                return spec, "the names of the files carry bucket numbers"
    return None, "a table does not tell it; --index NAME does"


def _workload(survey: TableSurvey, asked: Asked, past: History | None) -> Workload | None:
    batch = asked.batch or (past.batch if past else 0)
    if not survey.rows or not batch:
        return None
    new_share = past.new_share if past else None
    files = survey.files
    index = survey.record_index
    return Workload(
        rows=float(survey.rows),
        batch=float(batch),
        cores=asked.executors * asked.cores,
        partitions=max(files.partitions, 1),
        files=float(max(files.base_files, 1)),
        shards=len(index.shards) if index and not index.partitioned else 0,
        local_shards=float(len(index.shards)) if index and index.partitioned else 0.0,
        buckets=float(max(files.groups, 1)),
        new_share=_NEW_SHARE if new_share is None else new_share,
        key_bytes=survey.keys.mean_bytes or 36.0,
        row_bytes=max((files.base_bytes - files.base_files * _filter(survey)) / survey.rows, 1.0),
        ordered=bool(survey.keys.ordered),
        changed_files=_changed_files(survey, asked, past),
    )


def _changed_files(survey: TableSurvey, asked: Asked, past: History | None) -> float | None:
    """The files that a batch of the table's own changes; of another batch nothing is known.

    In a merge-on-read table these are file groups that get a log file: their names go to the
    metadata table as those of rewritten files do.
    """
    if asked.batch or past is None:
        return None
    return float(min(past.files, survey.files.groups))


def _filter(survey: TableSurvey) -> float:
    return float(min(survey.filters.bytes, FILTER_BYTES)) if survey.filters else 0.0
