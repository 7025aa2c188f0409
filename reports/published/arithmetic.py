"""Numbers of a published run that contradict each other.

A run says some things twice: a total and its parts, a rate and what it is made of, counters and the
stages that they were counted from, times and the processors that they were spent on. A number that
was altered alone no longer agrees with the others, and is found by that.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from keymark.harness.engines import is_native
from keymark.harness.store.results import PHASES, Stage
from keymark.reports.published.record import at
from keymark.reports.published.run import (
    CANARY,
    INFO,
    SAMPLES,
    STAGES,
    Finding,
    PublishedRun,
    in_file,
    in_line,
)
from keymark.reports.published.samples import Numbered, Taken
from keymark.reports.render.format_values import digits

_COUNTED = (
    *("tasks", "input_bytes", "shuffle_write_bytes", "shuffle_write_records"),
    *("shuffle_read_bytes", "shuffle_read_records"),
)
"""Counters of a step that are sums over its stages."""

# Clocks are read one after the other, and processor times come in ticks of 10 ms of each process.
_SLACK_S, _SLACK = 0.5, 1.05
_ROUNDING = 1e-6
_WHOLE = ("total", "wall_s")

Values = Mapping[tuple[str, str], Numbered]
"""The samples of one taking of a step by phase and metric."""


def contradictions(
    run: PublishedRun, samples: Mapping[Taken, Sequence[Numbered]]
) -> Iterator[Finding]:
    """What cannot all be true.

    Args:
        run: the run.
        samples: its samples, as `by_step` has them.
    """
    cores, memory = run.record.machine.cores, run.record.machine.memory_bytes
    steps = {
        taken: {(sample.phase, sample.metric): (number, sample) for number, sample in lines}
        for taken, lines in samples.items()
    }
    for taken, values in steps.items():
        yield from _of_parts(taken, values)
        yield from _of_rates(taken, values)
        yield from _of_machine(taken, values, cores, memory)
    yield from _of_stages(run.stages, steps)
    yield from _of_duration(run, steps)
    yield from _of_beats(run, steps)


def _of_parts(taken: Taken, values: Values) -> Iterator[Finding]:
    """Phases of ours are one after the other within the step; bytes are of three kinds."""
    whole = values.get(_WHOLE)
    if whole is None:
        return
    number, sample = whole
    if is_native(sample.engine):
        timed = (values.get((phase, "wall_s")) for phase in PHASES[:-1])
        spent = sum(each[1].value for each in timed if each is not None)
        if spent > sample.value * (1 + _ROUNDING) + _ROUNDING:
            mistake = f"{taken} took {sample.value:.6g} s, and its phases {spent:.6g} s"
            yield in_line(SAMPLES, number, "value", mistake)
    kinds = [values.get((phase, "bytes_written")) for phase in ("write", "index", "commit")]
    total = values.get(("total", "bytes_written"))
    if total is not None and None not in kinds:
        parts = sum(each[1].value for each in kinds if each is not None)
        if parts != total[1].value:
            mistake = f"{taken} wrote {total[1].value:,} bytes, and its phases {parts:,}"
            yield in_line(SAMPLES, total[0], "value", mistake)


def _of_rates(taken: Taken, values: Values) -> Iterator[Finding]:
    """Keys a second and bytes a key are quotients of other numbers of the step."""
    for rate, over, under in (
        ("keys_per_s", "keys", "wall_s"),
        ("bytes_per_key", "index_bytes", "keys"),
    ):
        found = [values.get(("total", name)) for name in (rate, over, under)]
        known = [each for each in found if each is not None]
        if len(known) < len(found):
            continue
        (number, rated), (_, above), (_, below) = known
        if abs(rated.value * below.value - above.value) > _ROUNDING * abs(above.value):
            what = f"{taken}: {rate} is {rated.value:.6g}, but {over} are {above.value:.6g}"
            yield in_line(SAMPLES, number, "value", f"{what} and {under} {below.value:.6g}")


def _of_machine(taken: Taken, values: Values, cores: int, memory: int) -> Iterator[Finding]:
    """No step spends more processor time than there is, or holds more memory."""
    whole, spent = values.get(_WHOLE), values.get(("total", "cpu_s"))
    if whole is not None and spent is not None:
        most = cores * (whole[1].value * _SLACK + _SLACK_S)
        if spent[1].value > most:
            mistake = (
                f"{taken} spent {digits(spent[1].value)} s of processor time within "
                f"{digits(whole[1].value)} s on {cores} cores"
            )
            yield in_line(SAMPLES, spent[0], "value", mistake)
    held = values.get(("total", "peak_memory_bytes"))
    if held is not None and held[1].value > memory:
        mistake = f"{taken} held {held[1].value:,} bytes, and the machine has {memory:,}"
        yield in_line(SAMPLES, held[0], "value", mistake)


def _of_stages(
    stages: Sequence[tuple[int, Stage]], steps: Mapping[Taken, Values]
) -> Iterator[Finding]:
    """Counters are sums over the stages of a step, and of each phase of it."""
    sums: dict[tuple[Taken, str], Counter[str]] = {}
    for number, stage in stages:
        taken = Taken(stage.cell, stage.step, warmup=False, repetition=stage.repetition)
        if taken not in steps:
            yield in_line(STAGES, number, "", f"there are no samples of {taken}")
            continue
        for phase in dict.fromkeys(("total", stage.phase)):
            counted = sums.setdefault((taken, phase), Counter())
            counted.update({name: getattr(stage, name) for name in _COUNTED})
    for (taken, phase), counted in sums.items():
        yield from _of_counters(taken, phase, counted, steps[taken])
    if stages:
        yield from _without_stages(steps, {taken for taken, _ in sums})


def _of_counters(
    taken: Taken, phase: str, counted: Mapping[str, int], values: Values
) -> Iterator[Finding]:
    """The counters of a phase beside what its stages counted."""
    whole = values.get(_WHOLE)
    if whole is None or not whole[1].valid:
        return  # what failed was not counted
    for name, total in counted.items():
        found = values.get((phase, name))
        if found is not None and found[1].value != total:
            mistake = f"{taken}: {name} of {phase} is {found[1].value:,}"
            yield in_line(SAMPLES, found[0], "value", f"{mistake}; its stages have {total:,}")
        elif found is None and phase == "total":
            yield in_file(SAMPLES, "", f"{taken} has stages, and no {name}")


def _without_stages(steps: Mapping[Taken, Values], with_stages: set[Taken]) -> Iterator[Finding]:
    """Steps whose tasks were counted are in stages.jsonl."""
    for taken, values in steps.items():
        tasks = values.get(("total", "tasks"))
        if taken not in with_stages and not taken.warmup and tasks is not None and tasks[1].value:
            mistake = f"{taken} has {tasks[1].value:,} tasks, and no stage in {STAGES}"
            yield in_line(SAMPLES, tasks[0], "value", mistake)


def _of_duration(run: PublishedRun, steps: Mapping[Taken, Values]) -> Iterator[Finding]:
    """Steps of one process are taken one after the other between its begin and its end."""
    began, ended = at(run.record.started), at(run.record.finished)
    if run.record.sessions != 1 or began is None or ended is None:
        return
    # Begin and end are in whole seconds.
    lasted = (ended - began).total_seconds() + 1
    spent = sum(values[_WHOLE][1].value for values in steps.values() if _WHOLE in values)
    if spent > lasted:
        mistake = f"the run lasted {lasted:,.0f} s, and its steps took {spent:,.0f} s"
        yield in_file(INFO, "started, finished", mistake)


def _of_beats(run: PublishedRun, steps: Mapping[Taken, Values]) -> Iterator[Finding]:
    """Beats of the canary are in order, within the run, each before something that was taken."""
    began, ended = at(run.record.started), at(run.record.finished)
    trials = {f"{t.cell}|{'w' if t.warmup else 'r'}{t.repetition}" for t in steps}
    before = 0.0
    for number, beat in run.beats:
        if min(beat.cpu_s, beat.disk_s, beat.memory_s) <= 0 or min(beat.mhz, beat.steal_s) < 0:
            yield in_line(CANARY, number, "", "has a time that cannot be")
        if began and ended and not began.timestamp() <= beat.at <= ended.timestamp() + 1:
            yield in_line(CANARY, number, "at", "is not between begin and end of the run")
        if beat.at < before:
            yield in_line(CANARY, number, "at", "is before the line above it")
        before = beat.at
        cell, _, trial = beat.before.partition("|")
        # Not every load is measured; of a cell that failed or ended, or a run cut off, not every
        # trial.
        left_out = {*run.record.failed, *run.record.ended}
        known = beat.before in trials or "|" in trial or cell in left_out
        if run.record.sessions == 1 and not known:
            yield in_line(CANARY, number, "before", f"{beat.before} was taken, and has no samples")
