"""One number of a run, and the names that steps and phases have. A leaf module.

A line of `samples.jsonl` is one `Sample`, a line of `canary.jsonl` one `Beat`, of
`stages.jsonl` one `Stage`: the field order below is the order in the file.
"""

from __future__ import annotations

import functools
import json
import re
import sys
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from typing import Annotated, Any, Self

from pydantic import PlainValidator, StrictBool, StrictInt, StrictStr, TypeAdapter, ValidationError
from pydantic_core import PydanticCustomError

from keymark.harness.engines import is_native

SCHEMA_VERSION = 3
"""The version of samples, run.json and summaries.

Since 2 an engine's name tells the version of Hudi's tables where it is not the release's own.
Since 3 the step `point_query` of Keymark's engines is a scan without Spark; the read by Spark,
which it was before, is the step `point_query_spark`.
"""

# URLs and absolute paths, one or a list of them: they differ with each run and each instant.
_PATHS = re.compile(r"(?:^|\s)(?:[a-z][a-z0-9+.-]*:)?/\S*")
_HUDI_1 = re.compile(r"\bhudi@1\.\d+\.\d+\b(?!-v)")
_POINT_QUERY = re.compile(r"point_query(_\d+)?")

PHASES = ("open", "prepare", "tag", "place", "write", "index", "commit", "services", "total")
"""Phases of a step, the same in every engine; `total` is the whole step.

Of engines and revisions that do not tell a phase, its time is in the total only.
"""


LOAD_STEPS = frozenset({"bulk_insert", "build", "build_index"})
"""Steps that load or build a table, unless they are steps of a repetition."""


def _finite(value: object) -> float:
    """A number as it is: whole ones stay whole, and what overflows a float is none."""
    if (
        isinstance(value, bool)
        or not isinstance(value, int | float)
        or not abs(value) <= sys.float_info.max
    ):
        raise PydanticCustomError("finite_number", "not a finite number")
    return value


Number = Annotated[float, PlainValidator(_finite)]
"""A finite number of a JSON document."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _JsonLine:
    """A record that is a line of JSON."""

    def to_json(self) -> str:
        """The line, without the newline; fields stand in their order."""
        return json.dumps(
            {field.name: getattr(self, field.name) for field in fields(self)},
            ensure_ascii=False,
            allow_nan=False,
            separators=(",", ":"),
        )

    @classmethod
    def from_json(cls, line: bytes | str) -> Self:
        """The record of a line.

        Raises:
            ValueError: no JSON object, a field missing, of the wrong type or not finite.
        """
        # mypy takes the class for one of its instances.
        validator = _adapter(cls).validator  # type: ignore[arg-type]
        with suppress(ValidationError):
            read: Self = validator.validate_json(line)
            return read
        # What is wrong in words; or only names that are no Unicode, which the reader refuses.
        try:
            record: Self = validator.validate_python(_json(line))
        except ValidationError as error:
            raise ValueError(wrong_keys(error)) from error
        return record


def _json(line: bytes | str) -> object:
    """Read with the standard library, which takes the lone surrogates of names.

    Raises:
        ValueError: no JSON, or nested too deeply.
    """
    try:
        return json.loads(line)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error


@functools.cache
def _adapter(kind: type[_JsonLine]) -> TypeAdapter[Any]:
    return TypeAdapter(kind)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample(_JsonLine):
    """One number, with everything needed to know what it is.

    Attributes:
        run_id: the run it was taken in.
        cell: stable id of the cell, `<engine>/<index>`.
        engine: engine name, such as `native` or `hudi@VERSION`.
        index: index name (`record`, `global_simple`, ...).
        step: `bulk_insert`, `upsert_<n>`, `delete`, `lookup`, `point_query`, `point_query_spark`,
            ...; of mappings `build`.
        round: number of change batches that the table has seen when the step ends; 0 after load.
        repetition: 0, 1, ...; warm-up repetitions are counted apart, from 0.
        warmup: taken to warm up; never part of a statistic.
        phase: one of PHASES.
        metric: a name of `units.METRICS`.
        unit: base unit of the value.
        value: the number, in the base unit; finite.
        verified: the step's result was checked and is right.
        valid: may be used; False for a step that failed or whose Spark tasks were retried.
        reason: why it is not verified or not valid; empty otherwise.
    """

    schema_version: StrictInt = SCHEMA_VERSION
    run_id: StrictStr
    cell: StrictStr
    engine: StrictStr
    index: StrictStr
    step: StrictStr
    round: StrictInt
    repetition: StrictInt
    warmup: StrictBool
    phase: StrictStr
    metric: StrictStr
    unit: StrictStr
    value: Number
    verified: StrictBool
    valid: StrictBool
    reason: StrictStr

    @classmethod
    def from_json(cls, line: bytes | str) -> Self:
        """A sample from a line of JSON; fields that this version does not know are ignored.

        Raises:
            ValueError: no JSON object, a field missing or of the wrong type, or a newer schema.
        """
        found = super(Sample, cls).from_json(line)
        if found.schema_version > SCHEMA_VERSION:
            raise ValueError(
                f"schema version {found.schema_version} is newer than {SCHEMA_VERSION}"
            )
        if found.schema_version == SCHEMA_VERSION:
            return found
        version = found.schema_version
        return replace(
            found,
            schema_version=SCHEMA_VERSION,
            cell=with_table_versions(found.cell, version),
            engine=with_table_versions(found.engine, version),
            step=step_now(found.step, found.engine, version),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Beat(_JsonLine):
    """What one beat of the canary, a small fixed load between the repetitions, has seen.

    Attributes:
        at: when, in seconds since 1970.
        before: the trial that came next, `<cell>|<trial>`.
        cpu_s: seconds of its processor work, with a thread for each core of the run.
        disk_s: seconds until its small file was on the disk.
        memory_s: seconds until every page of its fresh memory was there.
        load_1m: the machine's load average, of the run itself too.
        mhz: mean clock rate of the cores; 0 where the machine does not say.
        steal_s: core seconds that the host gave to others since the last beat.
    """

    at: Number
    before: StrictStr
    cpu_s: Number
    disk_s: Number
    memory_s: Number
    load_1m: Number
    mhz: Number
    steal_s: Number


def without_paths(name: str) -> str:
    """The name of a stage, or what Hudi says about a job, without the files in it."""
    return _PATHS.sub("", name)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage(_JsonLine):
    """What the Spark stages of one kind did in one step of one repetition; warm-ups have none.

    Attributes:
        cell: of the step.
        step: as in samples.
        repetition: as in samples.
        phase: one of PHASES; `total` where the stage belongs to none that is known.
        name: what it does, the same in other revisions of the code.
        stages: how many of that name ran.
        wall_s: for how long, added up.
        tasks: over all of them, as are bytes and records.
        task_records_max: records that the largest task read; 0 in earlier run folders.
        output_bytes: that Spark's own writers wrote; 0 in earlier run folders.
        spill_bytes: that did not fit into memory and went to disk; 0 in earlier run folders.
    """

    cell: StrictStr
    step: StrictStr
    repetition: StrictInt
    phase: StrictStr
    name: StrictStr
    stages: StrictInt
    wall_s: Number
    tasks: StrictInt
    input_bytes: StrictInt
    shuffle_write_bytes: StrictInt
    shuffle_write_records: StrictInt
    shuffle_read_bytes: StrictInt
    shuffle_read_records: StrictInt
    task_records_max: StrictInt = 0
    output_bytes: StrictInt = 0
    spill_bytes: StrictInt = 0

    @classmethod
    def of_run(cls, line: str, schema_version: object) -> Self:
        """A stage from a line of JSON of a run whose `run.json` has that schema version.

        Raises:
            ValueError: no JSON object, or a field missing or of the wrong type.
        """
        found = cls.from_json(with_table_versions(line, schema_version))
        step = step_now(found.step, found.cell.partition("/")[0], schema_version)
        return replace(found, step=step)


def with_table_versions(text: str, schema_version: object) -> str:
    """A text of a document of some schema version, with engines named as they are now.

    Before schema 2 every release made tables of version 6, and its name did not say so.
    """
    is_old = isinstance(schema_version, int) and schema_version < 2
    return _HUDI_1.sub(r"\g<0>-v6", text) if is_old else text


def step_now(step: str, engine: str, schema_version: object) -> str:
    """The name that a step of an engine has now, in a document of some schema version.

    Before schema 3 Keymark's engines took the point query by Spark.
    """
    is_old = isinstance(schema_version, int) and schema_version < 3
    if is_old and is_native(engine) and _POINT_QUERY.fullmatch(step):
        return step.replace("point_query", "point_query_spark")
    return step


def wrong_keys(error: ValidationError) -> str:
    """What is wrong with a document, on one line that names at most eight of its keys."""
    absent, rules = [], []
    for each in error.errors():
        key = ".".join(map(str, each["loc"]))
        if each["type"] == "value_error":
            rules.append(f"{key}: {each['msg'].removeprefix('Value error, ')}".removeprefix(": "))
        else:
            absent.append(key)
    if "" in absent:
        return "not a JSON object"
    named = [f"missing or of the wrong type: {', '.join(absent[:8])}"] if absent else []
    return "; ".join([*named, *rules[: 8 - len(absent[:8])]])
