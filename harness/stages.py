"""What the stages of a run did: their names, and the lines of `stages.jsonl`.

A stage is named by what it does, so that two revisions of the code have the same name for it: the
call that started its job (Spark's name of the stage, without line number and without the folder
of the code), what Hudi says of the job, and the operators in it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from harness.results import Sample, Stage

if TYPE_CHECKING:
    from harness.event_log import StepCounters

_LINE = re.compile(r":\d+$")
_OURS = re.compile(r"^.*/(?=(?:table|indexes|datasets|harness)/)")
_FOLDERS = re.compile(r"^.*/")
# In nearly every stage, and numbered by Spark.
_PLAIN = ("WholeStageCodegen", "mapPartitionsInternal", "map", "mapPartitions")


def stage_name(info: Mapping[str, Any], said: str = "") -> str:
    """The name of a stage.

    Args:
        info: `Stage Info` of Spark's event log.
        said: what the job says of itself.
    """
    call, at, place = str(info.get("Stage Name") or "").partition(" at ")
    place = _LINE.sub("", place)
    inside = _OURS.sub("", place)
    place = inside if inside != place else _FOLDERS.sub("", place)
    operators = sorted(set(_operators(info)))
    parts = [said, call + at + place, f"({', '.join(operators)})" if operators else ""]
    return " ".join(part for part in parts if part)


def _operators(info: Mapping[str, Any]) -> Iterator[str]:
    for rdd in info.get("RDD Info") or ():
        try:
            name = str(json.loads(rdd["Scope"])["name"]).strip()
        except (KeyError, TypeError, ValueError):
            continue  # made by no operator
        if not name.startswith(_PLAIN):
            yield name


def stage_lines(
    samples: Iterable[Sample],
    logged: Mapping[str, StepCounters],
    label_of: Callable[[Sample], str],
) -> Iterator[Stage]:
    """The stages of every measured step, in the order of the samples.

    Args:
        samples: of the run.
        logged: counters by label.
        label_of: the label of a sample.
    """
    for sample in samples:
        if sample.warmup or (sample.phase, sample.metric) != ("total", "wall_s"):
            continue
        step = logged.get(label_of(sample))
        for (phase, name), sums in step.stages.items() if step else ():
            yield Stage(
                cell=sample.cell,
                step=sample.step,
                repetition=sample.repetition,
                phase=phase,
                name=name,
                stages=sums.stages,
                wall_s=sums.seconds,
                tasks=sums.counters.tasks,
                input_bytes=sums.counters.input_bytes,
                shuffle_write_bytes=sums.counters.shuffle_write_bytes,
                shuffle_write_records=sums.counters.shuffle_write_records,
                shuffle_read_bytes=sums.counters.shuffle_read_bytes,
                shuffle_read_records=sums.counters.shuffle_read_records,
            )
