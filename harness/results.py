"""One number of a run, and the names that steps and phases have. A leaf module.

A line of `samples.jsonl` is one `Sample`: the field order below is the order in the file.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, fields

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
        return json.dumps(
            {field.name: getattr(self, field.name) for field in fields(self)},
            ensure_ascii=False,
            allow_nan=False,
            separators=(",", ":"),
        )

    @classmethod
    def from_json(cls, line: bytes | str) -> Sample:
        """A sample from a line of JSON; fields that this version does not know are ignored.

        Raises:
            ValueError: no JSON object, a field missing or of the wrong type, or a newer schema.
        """
        values = json.loads(line)
        if not isinstance(values, dict):
            raise ValueError("not a JSON object")  # noqa: TRY004 - one kind of damage
        wrong = [name for name, kind in _KINDS.items() if not _is(values.get(name), kind)]
        if wrong:
            raise ValueError(f"missing or of the wrong type: {', '.join(wrong)}")
        if values["schema_version"] > SCHEMA_VERSION:
            raise ValueError(
                f"schema version {values['schema_version']} is newer than {SCHEMA_VERSION}"
            )
        if not math.isfinite(values["value"]):
            raise ValueError(f"value is {values['value']}, not a finite number")
        return cls(**{name: values[name] for name in _KINDS})


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
