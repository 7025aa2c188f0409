"""What measuring costs: `native`, as it is measured, beside `native@bare`, which nothing watches.

Both did the same steps in the same session, turn by turn. A pair is one repetition: the times of
all of its steps, added, on either side; the overhead is what the measured side takes longer. Such
an interval is as wide as the machine is noisy. What measuring itself takes, the JVM tells besides:
the processor time of the thread that writes the event log. Nothing else is added within a step.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from keymark.harness.engines import BARE, NATIVE
from keymark.reports.model.projection import CellView, Run
from keymark.reports.render.format_values import amount, interval
from keymark.reports.render.grids import Entry, Grid, Row
from keymark.reports.render.text import clean
from keymark.reports.stats.statistics import Summary, paired_ratio, summarize

_TIMES = {"wall_s": "time", "cpu_s": "processor time"}

LOG = "measuring_s"
"""The log's own processor time, of which the share of the steps' time is shown."""

PROMISED = 0.01
"""Most that measuring may add to the measured time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OverheadPart:
    """The section of one run.

    Attributes:
        run_id: the run's own id.
        name: what the run is called on the page, empty when it is the only one.
        grid: times of both sides and the overhead, of each index.
        verdict: what it shows of the promise.
        values: the same in base units, for summary.json.
    """

    run_id: str
    name: str
    grid: Grid
    verdict: str
    values: list[dict[str, Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Pairs:
    """One kind of time of an index on both sides."""

    cell: CellView
    metric: str
    measured: Summary
    bare: Summary
    ratio: Summary


def overhead_part(run: Run) -> OverheadPart | None:
    """The section of a run; None unless both sides measured the same."""
    right = {cell.cell: cell for cell in run.cells if cell.verified}
    sides = [
        (cell, right.get(f"{BARE}/{cell.cell.removeprefix(f'{NATIVE}/')}"))
        for cell in right.values()
        if cell.engine == NATIVE
    ]
    tried = [_pairs(mine, its, metric) for mine, its in sides if its for metric in _TIMES]
    found = [each for each in tried if each is not None]
    if not found:
        return None
    logs = [(mine, share) for mine, its in sides if its and (share := _log_share(mine))]
    rows = tuple(
        Row(
            label=f"{each.cell.full_label}, {_TIMES[each.metric]}",
            index=each.cell.index,
            entries=_entries(each),
        )
        for each in found
    ) + tuple(
        Row(
            label=f"{mine.full_label}, the event log's own processor time",
            index=mine.index,
            entries=_log_entries(mine, share),
        )
        for mine, share in logs
    )
    heads = ("measured", "bare", "overhead", "pairs")
    return OverheadPart(
        run_id=clean(run.run_id),
        name=run.name if run.label else "",
        grid=Grid(caption="What measuring costs", heads=heads, rows=rows),
        verdict=_verdicts(found, [share for _, share in logs]),
        values=[
            {
                "index": clean(each.cell.index),
                "metric": each.metric,
                "overhead": each.ratio.median - 1,
                "low": each.ratio.low - 1,
                "high": each.ratio.high - 1,
                "n": each.ratio.n,
            }
            for each in found
        ]
        + [
            {
                "index": clean(mine.index),
                "metric": LOG,
                "overhead": share.median,
                "low": share.low,
                "high": share.high,
                "n": share.n,
            }
            for mine, share in logs
        ],
    )


def _pairs(mine: CellView, its: CellView, metric: str) -> _Pairs | None:
    measured, bare = repetitions(mine, metric), repetitions(its, metric)
    ratio = paired_ratio(bare, measured)[0]
    if ratio is None:
        return None
    sides = summarize([*measured.values()]), summarize([*bare.values()])
    return _Pairs(cell=mine, metric=metric, measured=sides[0], bare=sides[1], ratio=ratio)


def _log_share(cell: CellView) -> Summary | None:
    """What the event log takes of the time of each repetition's steps."""
    whole, log = repetitions(cell, "wall_s"), repetitions(cell, LOG)
    shares = [log[number] / whole[number] for number in whole if log and number in log]
    return summarize(shares) if shares else None


def _verdicts(found: list[_Pairs], shares: list[Summary]) -> str:
    sentences = [
        verdict([each.ratio for each in found if each.metric == metric], words)
        for metric, words in _TIMES.items()
        if any(each.metric == metric for each in found)
    ]
    if shares:
        most = max(share.high for share in shares)
        sentences.append(
            f"The thread that writes the event log takes {most:.2%} of the time at most, "
            f"{'less' if most <= PROMISED else 'more'} than the promised {PROMISED:.0%}."
        )
    return " ".join(sentences)


def repetitions(cell: CellView, metric: str) -> Mapping[int, float]:
    """Seconds of all steps of each repetition that has all of them; loads are not repeated."""
    series = [
        {repetition: value for (repetition, _), value in each.values.items()}
        for each in cell.series.values()
        if (each.phase, each.metric) == ("total", metric) and each.step != "bulk_insert"
    ]
    complete = set.intersection(*map(set, series)) if series else set()
    return {repetition: sum(each[repetition] for each in series) for repetition in sorted(complete)}


def verdict(ratios: list[Summary], what: str) -> str:
    """Say whether the intervals keep the promise, break it, or are too wide to tell."""
    most, least = max(each.high for each in ratios) - 1, max(each.low for each in ratios) - 1
    if most <= PROMISED:
        return f"Measuring adds less than {PROMISED:.0%} to the {what}."
    if least > PROMISED:
        return f"Measuring adds more than {PROMISED:.0%} to the {what}."
    return (
        f"The interval of the overhead of {what} reaches beyond {PROMISED:.0%}: a quieter machine "
        "or more repetitions would tell more."
    )


def _log_entries(cell: CellView, share: Summary) -> tuple[Entry, ...]:
    log = summarize([*repetitions(cell, LOG).values()])
    return (
        Entry(value=amount(log.median, "s"), spread=interval(log.low, log.high, "s")),
        Entry(value="—"),
        Entry(value=f"{share.median:.2%}", spread=f"{share.low:.2%} to {share.high:.2%}"),
        Entry(value=str(share.n)),
    )


def _entries(pairs: _Pairs) -> tuple[Entry, ...]:
    mine, its, ratio = pairs.measured, pairs.bare, pairs.ratio
    spread = f"{ratio.low - 1:+.2%} to {ratio.high - 1:+.2%}"
    return (
        Entry(value=amount(mine.median, "s"), spread=interval(mine.low, mine.high, "s")),
        Entry(value=amount(its.median, "s"), spread=interval(its.low, its.high, "s")),
        Entry(value=f"{ratio.median - 1:+.2%}", spread=spread),
        Entry(value=str(ratio.n)),
    )
