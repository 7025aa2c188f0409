"""Spark's counters as samples, once the event log is complete."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from harness.event_log import Counters, StepCounters
from harness.results import Sample
from harness.units import METRICS

_COUNTED = (
    "tasks",
    "input_bytes",
    "shuffle_write_bytes",
    "shuffle_write_records",
    "shuffle_read_bytes",
    "shuffle_read_records",
)


def label_of(sample: Sample) -> str:
    """The label under which the sample's step is in the event log; see `workload.label`."""
    turn = f"{'w' if sample.warmup else 'r'}{sample.repetition}"
    return f"{sample.cell}|{turn}|{sample.step}"


def counter_samples(
    samples: Iterable[Sample], logged: Mapping[str, StepCounters]
) -> Iterator[Sample]:
    """Counters of every step that was timed and has none yet, for each phase that was timed.

    A phase without Spark tasks has zeros. Phases that the engine does not time are timed by the
    log, as far as it tells them. Tasks that failed were run again and are counted twice,
    so such counters are marked not valid.
    """
    known = list(samples)
    counted = {label_of(sample) for sample in known if sample.metric == "tasks"}
    for sample in known:
        if sample.metric != "wall_s" or label_of(sample) in counted or not sample.valid:
            continue
        step = logged.get(label_of(sample), StepCounters())
        yield from _counters(sample, step.phases.get(sample.phase, Counters()))
        if sample.phase == "total":
            for phase in step.spans:
                timed = replace(sample, phase=phase, value=step.seconds(phase))
                yield timed
                yield from _counters(timed, step.phases.get(phase, Counters()))


def _counters(sample: Sample, counters: Counters) -> Iterator[Sample]:
    valid = counters.failed_tasks == 0
    retried = "" if valid else f"{counters.failed_tasks} Spark tasks failed and ran again"
    for name in _COUNTED:
        yield replace(
            sample,
            metric=name,
            unit=METRICS[name].unit,
            value=getattr(counters, name),
            valid=valid,
            reason=sample.reason or retried,
        )
