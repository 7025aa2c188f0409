"""Warnings as data: what a reader must know before trusting the numbers of a run.

Each has a kind that programs can test for and a sentence. They are about the run as a whole; what
holds for a single statistic travels with it (`stats.Caveat`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from keymark.harness.store.beats import NOISY, spreads
from keymark.harness.store.results import Beat
from keymark.harness.store.run_record import MachineRecord
from keymark.reports.model.projection import UPSERT, CellView, Run
from keymark.reports.render.text import clean
from keymark.reports.stats.statistics import Caveat, CaveatKind, shape_caveats

_DRIFT = 0.10
_STOLEN = 0.01
_RATES = 0.05
_BUSY = 0.5
_ODD = 0.1
_GOOD_GOVERNOR = "performance"


def run_warnings(run: Run) -> list[Caveat]:
    """All warnings of a run, in the order in which they should be read."""
    machine = run.record.machine
    return [
        *_of_noise(run.beats),
        *_of_load(machine),
        *_of_clock(run.beats, machine),
        *_of_host(run.beats, machine),
        *_of_caches(run),
        *warnings_of_rounds(run),
        *_of_samples(run.cells),
    ]


def _of_noise(beats: Sequence[Beat]) -> Iterable[Caveat]:
    for each in spreads(beats):
        if each.load == "processor" and each.share > NOISY:
            yield Caveat(
                kind=CaveatKind.NOISY_MACHINE,
                detail=f"the machine was noisy: the canary's processor work varied by "
                f"{each.share:.0%} (middle four fifths), so smaller differences of times may be "
                "the machine's; paired ratios and counters suffer less",
            )
        if each.load == "processor" and abs(each.drift - 1) > _DRIFT:
            slower = "slower" if each.drift > 1 else "faster"
            yield Caveat(
                kind=CaveatKind.DRIFT,
                detail=f"the machine became {slower} during the run: the last third of the "
                f"canary's beats took {each.drift:.2f} times as long as the first",
            )


def _of_load(machine: MachineRecord) -> Iterable[Caveat]:
    load, count = machine.load_1m, machine.cores
    if count > 0 and load > _BUSY * count:
        yield Caveat(
            kind=CaveatKind.LOADED,
            detail=f"the machine had other work when the run began: a load of {load:.1f} on "
            f"{count} cores",
        )


def _of_clock(beats: Sequence[Beat], machine: MachineRecord) -> Iterable[Caveat]:
    rates = [beat.mhz for beat in beats if beat.mhz > 0]
    if rates and max(rates) > (1 + _RATES) * min(rates):
        yield Caveat(
            kind=CaveatKind.CLOCK_RATE,
            detail="the processor's clock rate changed during the run, between "
            f"{min(rates):,.0f} and {max(rates):,.0f} MHz",
        )
    if machine.governor not in ("", _GOOD_GOVERNOR):
        yield Caveat(
            kind=CaveatKind.CLOCK_RATE,
            detail="the processor's clock rate follows its load "
            f"(governor {clean(machine.governor, 40)})",
        )


def _of_host(beats: Sequence[Beat], machine: MachineRecord) -> Iterable[Caveat]:
    spent = beats[-1].at - beats[0].at if beats else 0.0
    if spent <= 0 or machine.cores <= 0:
        return
    # Seconds of the first beat are those before it.
    share = sum(beat.steal_s for beat in beats[1:]) / (spent * machine.cores)
    if share > _STOLEN:
        yield Caveat(
            kind=CaveatKind.STOLEN,
            detail=f"the host of this virtual machine gave {share:.1%} of its time to others",
        )


def _of_caches(run: Run) -> Iterable[Caveat]:
    if run.record.scenario.schedule.warmups == 0:
        yield Caveat(
            kind=CaveatKind.COLD,
            detail="no warm-up was taken: the first repetitions pay for cold caches and a cold JVM",
        )


def warnings_of_rounds(run: Run) -> Iterable[Caveat]:
    """What a reader must know of a run of one repetition, whose rounds are its values."""
    if any(
        each.by_rounds and len(each.rounds(UPSERT, "total", "wall_s")) > 1 for each in run.cells
    ):
        yield Caveat(
            kind=CaveatKind.BY_ROUNDS,
            detail="there is one repetition, so each round of batches is a value of its own: "
            "intervals tell how the rounds of one trial differ, and nothing of how another trial "
            "would",
        )


def _of_samples(cells: Iterable[CellView]) -> Iterable[Caveat]:
    """What the shapes of the whole times' samples say, gathered over all verified cells."""
    times = [
        (cell, series)
        for cell in cells
        if cell.verified
        for series in cell.series.values()
        if (series.phase, series.metric) == ("total", "wall_s")
    ]
    found: Counter[CaveatKind] = Counter()
    named: dict[CaveatKind, str] = {}
    for cell, series in times:
        for caveat in shape_caveats(series.values):
            found[caveat.kind] += 1
            step = clean(series.step, 40)
            named.setdefault(caveat.kind, f"{step} of {cell.full_label}: {caveat.detail}")
    for kind, count in found.items():
        if count > _ODD * len(times):
            yield Caveat(
                kind=kind,
                detail=f"{count} of {len(times)} series of times look odd; "
                f"the first is {named[kind]}",
            )
