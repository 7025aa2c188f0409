"""One number of a run, and the names that steps and phases have. A leaf module.

A line of `samples.jsonl` is one `Sample`, a line of `canary.jsonl` one `Beat`, of
`stages.jsonl` one `Stage`: the field order below is the order in the file.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

SCHEMA_VERSION = 1

PHASES = ("tag", "write", "index", "commit", "total")
"""Phases of a step, the same in every engine; `total` is the whole step."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One number, with everything needed to know what it is.

    Attributes:
        run_id: the run it was taken in.
        cell: stable id of the cell, `<engine>/<index>`.
        engine: engine name, `native` or `hudi@VERSION`.
        index: index name (`record`, `global_simple`, ...).
        step: `bulk_insert`, `upsert_<n>`, `delete`, `lookup`, `point_query`; of mappings `build`.
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

    schema_version: int = SCHEMA_VERSION
    run_id: str
    cell: str
    engine: str
    index: str
    step: str
    round: int
    repetition: int
    warmup: bool
    phase: str
    metric: str
    unit: str
    value: float
    verified: bool
    valid: bool
    reason: str

    def to_json(self) -> str:
        """The sample as one line of JSON, without the newline."""
        return _line(self)

    @classmethod
    def from_json(cls, line: bytes | str) -> Sample:
        """A sample from a line of JSON; fields that this version does not know are ignored.

        Raises:
            ValueError: no JSON object, a field missing or of the wrong type, or a newer schema.
        """
        values = _checked(line, _KINDS)
        if values["schema_version"] > SCHEMA_VERSION:
            raise ValueError(
                f"schema version {values['schema_version']} is newer than {SCHEMA_VERSION}"
            )
        if not math.isfinite(values["value"]):
            raise ValueError(f"value is {values['value']}, not a finite number")
        return cls(**values)


@dataclass(frozen=True, slots=True, kw_only=True)
class Beat:
    """What one beat of the canary, a small fixed load between the repetitions, has seen.

    Attributes:
        at: when, in seconds since 1970.
        before: the trial that came next, `<cell>|<turn>`.
        cpu_s: seconds of its processor work, with a thread for each core of the run.
        disk_s: seconds until its small file was on the disk.
        memory_s: seconds until every page of its fresh memory was there.
        load_1m: the machine's load average, of the run itself too.
        mhz: mean clock rate of the cores; 0 where the machine does not say.
        steal_s: core seconds that the host gave to others since the last beat.
    """

    at: float
    before: str
    cpu_s: float
    disk_s: float
    memory_s: float
    load_1m: float
    mhz: float
    steal_s: float

    def to_json(self) -> str:
        """The beat as one line of JSON, without the newline."""
        return _line(self)

    @classmethod
    def from_json(cls, line: bytes | str) -> Beat:
        """A beat from a line of JSON.

        Raises:
            ValueError: no JSON object, a field missing, of the wrong type or not finite.
        """
        return cls(**_finite(line, _kinds(cls, ("before",))))


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
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
    """

    cell: str
    step: str
    repetition: int
    phase: str
    name: str
    stages: int
    wall_s: float
    tasks: int
    input_bytes: int
    shuffle_write_bytes: int
    shuffle_write_records: int
    shuffle_read_bytes: int
    shuffle_read_records: int

    def to_json(self) -> str:
        """The stage as one line of JSON, without the newline."""
        return _line(self)

    @classmethod
    def from_json(cls, line: bytes | str) -> Stage:
        """A stage from a line of JSON.

        Raises:
            ValueError: no JSON object, a field missing, of the wrong type or not finite.
        """
        return cls(**_finite(line, _kinds(cls, ("cell", "step", "phase", "name"))))


def _line(record: Sample | Beat | Stage) -> str:
    return json.dumps(
        {field.name: getattr(record, field.name) for field in fields(record)},
        ensure_ascii=False,
        allow_nan=False,
        separators=(",", ":"),
    )


_KINDS: dict[str, type] = {
    "schema_version": int,
    "run_id": str,
    "cell": str,
    "engine": str,
    "index": str,
    "step": str,
    "round": int,
    "repetition": int,
    "warmup": bool,
    "phase": str,
    "metric": str,
    "unit": str,
    "value": float,
    "verified": bool,
    "valid": bool,
    "reason": str,
}


def _is(value: object, kind: type) -> bool:
    if kind is bool:
        return isinstance(value, bool)
    if kind is float:
        return isinstance(value, int | float) and not isinstance(value, bool)
    return isinstance(value, kind) and not (kind is int and isinstance(value, bool))


def _kinds(cls: type, texts: Sequence[str]) -> dict[str, type]:
    """What each field of a record is: a text, or else a number."""
    return {field.name: str if field.name in texts else float for field in fields(cls)}


def _checked(line: bytes | str, kinds: Mapping[str, type]) -> dict[str, Any]:
    """The known fields of a line of JSON; ValueError where one is missing or of another type."""
    try:
        values = json.loads(line)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error
    if not isinstance(values, dict):
        raise ValueError("not a JSON object")  # noqa: TRY004 - one kind of damage
    wrong = [name for name, kind in kinds.items() if not _is(values.get(name), kind)]
    if wrong:
        raise ValueError(f"missing or of the wrong type: {', '.join(wrong)}")
    return {name: values[name] for name in kinds}


def _finite(line: bytes | str, kinds: Mapping[str, type]) -> dict[str, Any]:
    """The same, with every number finite."""
    values = _checked(line, kinds)
    if not all(math.isfinite(values[name]) for name, kind in kinds.items() if kind is float):
        raise ValueError("not a finite number")
    return values
