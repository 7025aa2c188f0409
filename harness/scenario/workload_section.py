"""The parts of a scenario that say what is done, how often and where."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, field_validator

from keymark.harness.engines import engine_mistake
from keymark.harness.scenario.fields import (
    Master,
    Names,
    Natural,
    Numbers,
    Positive,
    Section,
    Texts,
    refuse,
)


class WorkloadSection(Section):
    """What each repetition does to its table.

    Attributes:
        build_index: whether the record index is built anew from the loaded rows first.
        rounds: change batches, the steps `upsert_1` to `upsert_<rounds>`.
        null_columns: columns that the step `null_columns` nulls in the rows which the step
            `delete` takes, or would take.
        delete: whether the step `delete` follows them; "once": in the first repetition of each
            cell only, after what it reads.
        delete_latest: whether it deletes rows that the last batch updated, which are where batches
            go, instead of rows from all over the table.
        purge: whether the deleted keys are then erased from all that the table keeps.
        lookup_present: keys of the lookup step that are in the table.
        lookup_absent: keys of the lookup step that are not; half of them were deleted.
        lookup_again: whether the same keys are looked up a second time, by the same handle.
        lookup_few: how many of the lookup's keys the step `lookup_few` asks for; 0: there is none.
        point_query: whether a single key is read at the end, by Keymark's engines once by
            `Table.scan` and once by Spark, the step `point_query_spark`.
        column_query: column whose rows with one value are read at the end; empty: none.
        range_query: numeric column of which a range is read at the end: the rows whose value is at
            least that of the point query's row, and less than `range_width` above it; empty: none.
        range_width: how wide that range is.
        cold: whether these two queries are taken once more at the end, of files that are out of
            the system's cache, as the steps `point_query_cold` (by `Table.scan`) and
            `range_query_cold`; tables on a disk of this machine, under Linux.
        read_every: after every so many rounds, except the last, these two queries are taken as
            well: `point_query_<round>` (by `Table.scan`) and `range_query_<round>`; 0: never.
        upkeep: variants whose tables are compacted between rounds, after such queries, as the steps
            `compact_rows_<round>`.
        upkeep_every: after every so many rounds, except the last, they are compacted; 0: never.
        spread_batch: engines whose cells end their first repetition with the step `spread`: a
            batch as large as another one, all updates, of rows drawn evenly from the whole table.
        merge_on_read: variants whose tables have log files of rows (the option
            `hoodie.datasource.write.table.type`): they are read without these as well, in the step
            `point_query_optimized`, and end with their merging, `compact_rows`.
        model_keys: numbers of keys to look up for the lookup model, with log blocks and after a
            compaction, cold and warm; record index only. See `harness/run/lookup_model.py`.
    """

    build_index: bool = False
    rounds: Natural = 2
    null_columns: Names = ()
    delete: bool | Literal["once"] = True
    delete_latest: bool = False
    purge: bool = False
    lookup_present: Natural = 8_000
    lookup_absent: Natural = 2_000
    lookup_again: bool = False
    lookup_few: Natural = 0
    point_query: bool = True
    column_query: str = ""
    range_query: str = ""
    range_width: Annotated[float, Field(gt=0.0, allow_inf_nan=False)] = 1.0
    cold: bool = False
    read_every: Natural = 0
    upkeep: Names = ()
    upkeep_every: Natural = 0
    spread_batch: Names = ()
    merge_on_read: Names = ()
    model_keys: Numbers = ()

    @field_validator("spread_batch")
    @classmethod
    def _engines(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        refuse(engine_mistake(name) for name in value)
        return value


class ScheduleSection(Section):
    """How often and in what order.

    Attributes:
        repetitions: measured repetitions of every cell.
        warmups: repetitions before them that no statistic uses.
        warm: who takes them: every `cell`, or of each engine and `index` the first cell only. With
            `small` each cell takes the steps once on a small table instead, before the loads.
        loads: measured bulk loads of every table; all repetitions start from the first one's.
        trial_minutes: minutes that a load, or a repetition, takes at most: then its step is ended,
            the rest of its steps left out, and what was measured is kept; 0 for no limit. The
            process of another engine than Keymark's, and of `native@without-spark`, is ended when
            it is silent for longer than this and for longer than an hour.
        memory_gb: gigabytes that the process of an engine without Spark may hold: then it is ended,
            with its cell, whose row says so; 0 for three quarters of the machine's memory.
    """

    repetitions: Positive = 3
    warmups: Natural = 1
    warm: Literal["cell", "index", "small"] = "cell"
    loads: Positive = 1
    trial_minutes: Natural = 0
    memory_gb: Annotated[float, Field(ge=0.0, allow_inf_nan=False)] = 0.0


class SparkSection(Section):
    """Where the run takes place.

    Attributes:
        master: Spark master URL.
        conf: Spark options laid over the harness's own.
    """

    master: Master = "local[2]"
    conf: Texts = Field(default_factory=dict)
