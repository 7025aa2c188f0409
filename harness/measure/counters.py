"""Spark's counters as samples, and its stages as lines of `stages.jsonl`: the log is complete."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from keymark.harness.engines import BARE, is_native, is_without_spark
from keymark.harness.measure.event_log import Counters, StepCounters, read_all
from keymark.harness.store.results import Sample, Stage
from keymark.harness.store.store import RunFolder
from keymark.harness.store.units import METRICS

_LAST = "tasks"
_COUNTED = (
    "input_bytes",
    "shuffle_write_bytes",
    "shuffle_write_records",
    "shuffle_read_bytes",
    "shuffle_read_records",
    "task_records_max",
    "largest_tasks_records",
    "jobs",
    _LAST,
)
"""A step's counters of `total` are written last, with `tasks` at the end (see `unfinished`)."""

OF_A_JOB = ("output_bytes", "output_records", "spill_bytes", *_COUNTED)
"""Counters of a job of the user's own."""


def label_of(sample: Sample) -> str:
    """The label under which the sample's step is in the event log; see `step.label`."""
    name = f"{'w' if sample.warmup else 'r'}{sample.repetition}"
    return f"{sample.cell}|{name}|{sample.step}"


def counter_samples(
    samples: Iterable[Sample],
    logged: Mapping[str, StepCounters],
    names: Sequence[str] = _COUNTED,
) -> Iterator[Sample]:
    """Counters of every step that was timed and has none yet, for each phase that was timed.

    Args:
        samples: of the run.
        logged: counters by label.
        names: which counters.

    A phase without Spark tasks has zeros. Phases that the engine does not time are timed by the
    log, as far as it tells them. Tasks that failed were run again and are counted twice,
    so such counters are marked not valid.
    """
    known = list(samples)
    counted = _counted(known)
    timed_by_engine = {(label_of(s), s.phase) for s in known if s.metric == "wall_s"}
    for sample in known:
        if sample.metric != "wall_s" or label_of(sample) in counted or not sample.valid:
            continue
        if sample.engine == BARE or is_without_spark(sample.engine):
            continue  # it is not in the log
        step = logged.get(label_of(sample), StepCounters())
        if sample.phase == "total":
            for phase in step.spans:
                if (label_of(sample), phase) in timed_by_engine:
                    continue
                timed = replace(sample, phase=phase, value=step.seconds(phase))
                yield timed
                yield from _counters(timed, step.counters(phase), names)
        yield from _counters(sample, step.counters(sample.phase), names)


def unfinished(samples: Iterable[Sample]) -> Callable[[Sample], bool]:
    """Which samples are counters of a step whose counters a kill cut off; they are counted anew.

    Times of phases that the engine told stay.
    """
    known = list(samples)
    counted, told = _counted(known), _told(known)

    def of_the_log(sample: Sample) -> bool:
        is_time_of_phase = sample.metric == "wall_s" and sample.phase != "total"
        tells_itself = is_native(sample.engine) or is_without_spark(sample.engine)
        tells_itself = tells_itself or (label_of(sample), sample.phase) in told
        return sample.metric in _COUNTED or (is_time_of_phase and not tells_itself)

    return lambda sample: of_the_log(sample) and label_of(sample) not in counted


def _told(samples: Iterable[Sample]) -> set[tuple[str, str]]:
    """Label and phase of the times that engines told, as Delta does.

    They are written with the step, whose whole time comes last; those of the log come behind it.
    """
    before: dict[str, set[str]] = {}
    found: set[tuple[str, str]] = set()
    for sample in samples:
        if sample.metric == "wall_s" and sample.phase != "total":
            before.setdefault(label_of(sample), set()).add(sample.phase)
        elif sample.metric == "wall_s":
            label = label_of(sample)
            found |= {(label, phase) for phase in before.pop(label, ())}
    return found


def _counted(samples: Iterable[Sample]) -> set[str]:
    """Labels of the steps that have all of their counters."""
    return {label_of(s) for s in samples if s.metric == _LAST and s.phase == "total"}


def _counters(sample: Sample, counters: Counters, names: Sequence[str]) -> Iterator[Sample]:
    valid = counters.failed_tasks == 0
    retried = "" if valid else f"{counters.failed_tasks} Spark tasks failed and ran again"
    for name in names:
        yield replace(
            sample,
            metric=name,
            unit=METRICS[name].unit,
            value=getattr(counters, name),
            valid=valid,
            reason=sample.reason or retried,
        )


def stage_lines(samples: Iterable[Sample], logged: Mapping[str, StepCounters]) -> Iterator[Stage]:
    """The stages of every measured step, in the order of the samples.

    Args:
        samples: of the run.
        logged: counters by label.
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
                task_records_max=sums.counters.task_records_max,
                output_bytes=sums.counters.output_bytes,
                spill_bytes=sums.counters.spill_bytes,
            )


def write_counters(folder: RunFolder) -> None:
    """Add Spark's counters and stages to a run folder whose event logs are complete.

    Stages that were written before stay of steps that have their counters: a table may have been
    loaded again since, off the record. So do those of steps that the event logs do not tell: a run
    that is resumed elsewhere need not bring its logs.
    """
    logged, samples = read_all(folder.events), folder.samples()
    settled = _counted(samples) | ({label_of(sample) for sample in samples} - logged.keys())
    kept = [stage for stage in folder.stages() if _label_of_stage(stage) in settled]
    folder.append(counter_samples(samples, logged))
    for label in {_label_of_stage(stage) for stage in kept}:
        logged.pop(label, None)
    folder.write_stages([*kept, *stage_lines(folder.samples(), logged)])


def _label_of_stage(stage: Stage) -> str:
    """The label of the step that a stage is of, which no warm-up is."""
    return f"{stage.cell}|r{stage.repetition}|{stage.step}"
