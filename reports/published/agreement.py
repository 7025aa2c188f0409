"""Whether a run that was repeated says the same as the first one: ratios and counters.

Times of two machines are not compared, ratios are: those of `cell_pairs`, within an engine and
across engines. Two ratios agree where their intervals overlap, or where their medians differ by
less than the noise of both machines together. Counters are compared as the gate compares them:
counts must be equal, and bytes may differ by what unchanged code shows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from keymark.harness.store.beats import noise_share
from keymark.harness.store.units import Unit
from keymark.reports.errors import ReportError
from keymark.reports.gate import render, run_numbers
from keymark.reports.gate.compare import Finding, compare
from keymark.reports.gate.policy import Kind, Policy
from keymark.reports.gate.run_numbers import RunNumbers
from keymark.reports.gate.verdicts import Verdict
from keymark.reports.model import facts, projection, tables
from keymark.reports.model.cell_pairs import cell_pairs
from keymark.reports.model.data_points import words_of
from keymark.reports.model.projection import Run
from keymark.reports.model.report_warnings import warnings_of_rounds
from keymark.reports.render.format_values import digits, times
from keymark.reports.render.text import clean
from keymark.reports.stats.statistics import REPETITIONS_MIN, Summary, paired_ratio

_NAMED = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class RatioPair:
    """A ratio of two cells, in both runs.

    Attributes:
        what: the measure, and the data where there are several.
        of: the cell whose times are divided.
        to: the cell by whose they are.
        published: in the published run.
        repeated: in the one that was repeated.
        noise: of both machines together, as a share.
    """

    what: str
    of: str
    to: str
    published: Summary
    repeated: Summary
    noise: float

    @property
    def is_decided(self) -> bool:
        """Whether both have enough repetitions to say anything."""
        return min(self.published.n, self.repeated.n) >= REPETITIONS_MIN

    @property
    def factor(self) -> float:
        """By how much the ratios differ; at least 1, infinite where one of them is 0."""
        low, high = sorted((self.published.median, self.repeated.median))
        return high / low if low > 0 else float("inf")

    @property
    def agrees(self) -> bool:
        """Whether the machines' noise allows the difference."""
        return self.published.overlaps(self.repeated) or self.factor < 1 + self.noise

    def sentence(self) -> str:
        """What disagrees, and by how much."""
        there, here = (
            f"{times(each.median)} ({times(each.low)} to {times(each.high)})"
            for each in (self.published, self.repeated)
        )
        return (
            f"{self.what} of {self.of} to {self.to}: {there} in the published run, {here} in this "
            f"one; they differ by a factor of {digits(self.factor)}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Agreement:
    """How two runs compare.

    Attributes:
        published: id of the published run.
        repeated: of the other one.
        noises: of both machines, as shares.
        ratios: those that both have with enough repetitions.
        undecided: number of ratios with too few.
        counters: those that disagree, and cells that only the published run has.
        compared: number of counters that were compared.
        settings: versions and the machine where they are not the same, with both values.
        warnings: what a reader must know.
    """

    published: str
    repeated: str
    noises: tuple[float, float]
    ratios: tuple[RatioPair, ...]
    undecided: int
    counters: tuple[Finding, ...]
    compared: int
    settings: tuple[str, ...]
    warnings: tuple[str, ...]

    @property
    def differing(self) -> list[RatioPair]:
        """The ratios that disagree, the largest difference first."""
        found = [each for each in self.ratios if not each.agrees]
        return sorted(found, key=lambda each: -each.factor)

    @property
    def agrees(self) -> bool:
        """Whether nothing disagrees."""
        return not self.differing and not self.counters

    def sentences(self) -> list[str]:
        """What disagrees, a line each."""
        counted = [f"{render.place(each)}: {_counted(each)}" for each in self.counters]
        return [*(each.sentence() for each in self.differing), *counted]

    def finding(self, subject: str = "The run") -> str:
        """The answer in a sentence.

        Args:
            subject: what the run that repeats is called.
        """
        noise = " and ".join(f"{digits(100 * share)} %" for share in self.noises)
        on = f"machines with a noise of {noise}"
        if self.agrees:
            few = f"; {self.undecided} more ratios have too few repetitions" * bool(self.undecided)
            counted = f"{len(self.ratios)} ratios and {self.compared} counters"
            return f"{subject} agrees with {self.published} in all of {counted}, on {on}{few}."
        of = f"{len(self.differing)} of {len(self.ratios)} ratios"
        counted = f"{len(self.counters)} of {self.compared} counters"
        first = "; ".join(self.sentences()[:_NAMED])
        sentence = (
            f"{subject} disagrees with {self.published} in {of} and {counted}, on {on}: {first}."
        )
        if not self.settings:
            return f"{sentence} Versions and machine are the same."
        return f"{sentence} What else differs: {'; '.join(self.settings)}."


def agreement(published: Path, repeated: Path) -> Agreement:
    """Compare a run with the published one that it repeats.

    Raises:
        ReportError: one of them is no run folder or did other work, or both have no number in
            common.
    """
    (first,), (second,) = projection.load([published]), projection.load([repeated])
    noises = noise_share(first.beats), noise_share(second.beats)
    ratios = list(_ratios(first, second, (1 + noises[0]) * (1 + noises[1]) - 1))
    base, candidate = run_numbers.load(published), run_numbers.load(repeated)
    # What failed in the published run has no numbers there.
    gate = compare(replace(base, wrong={}), candidate, Policy())
    counted = [each for each in gate.findings if each.decides and each.demand.kind is Kind.COUNTER]
    if not ratios and not counted:
        raise ReportError(f"{_name(base)} and {_name(candidate)} have no number in common")
    return Agreement(
        published=clean(first.run_id),
        repeated=clean(second.run_id),
        noises=noises,
        ratios=tuple(each for each in ratios if each.is_decided),
        undecided=sum(not each.is_decided for each in ratios),
        counters=tuple(each for each in counted if each.judged.verdict is not Verdict.PASS),
        compared=len(counted),
        settings=tuple(_settings(first, second)),
        warnings=(
            *gate.warnings,
            *(
                f"{clean(run.run_id)}: {each.detail}"
                for run in (first, second)
                for each in warnings_of_rounds(run)
            ),
        ),
    )


def document(found: Agreement) -> dict[str, Any]:
    """An agreement as one JSON document."""
    return {
        "agrees": found.agrees,
        "finding": found.finding(),
        "published": found.published,
        "rerun": found.repeated,
        "noise": {"published": found.noises[0], "rerun": found.noises[1]},
        "ratios": [_ratio(each) for each in found.ratios],
        "ratios_undecided": found.undecided,
        "counters_compared": found.compared,
        "counters": [
            {
                **dict(zip(("cell", "step", "phase", "metric"), map(clean, each.key), strict=True)),
                "published": each.base,
                "rerun": each.candidate,
            }
            for each in found.counters
        ],
        "settings": list(found.settings),
        "warnings": list(found.warnings),
    }


def _ratios(first: Run, second: Run, noise: float) -> Iterator[RatioPair]:
    there = {cell.cell: cell for cell in second.cells if cell.verified}
    both = [cell for cell in first.cells if cell.verified and cell.cell in there]
    for base, other in cell_pairs(both):
        data = f" on {words_of(base.data)}" if words_of(base.data) else ""
        for measure in tables.headline_measures([base, other]):
            if measure.unit != Unit.SECONDS:
                continue
            published = paired_ratio(measure.values(base), measure.values(other))[0]
            again = [measure.values(there[cell.cell]) for cell in (base, other)]
            repeated = paired_ratio(*again)[0]
            if published is not None and repeated is not None:
                yield RatioPair(
                    what=f"{measure.what}{data}",
                    of=clean(other.cell, 80),
                    to=clean(base.cell, 80),
                    published=published,
                    repeated=repeated,
                    noise=noise,
                )


def _settings(first: Run, second: Run) -> Iterator[str]:
    """Versions and the machine where two runs differ in them: `revision 0123 and 4567`."""
    ours, theirs = facts.versions(first), facts.versions(second)
    pairs = {name: (ours.get(name, ""), theirs.get(name, "")) for name in {**ours, **theirs}}
    pairs["machine"] = (
        facts.machine_words(first.record.machine),
        facts.machine_words(second.record.machine),
    )
    for name, (there, here) in pairs.items():
        if there != here:
            yield f"{name} {there or 'not told'} and {here or 'not told'}"


def _ratio(pair: RatioPair) -> dict[str, Any]:
    values: Mapping[str, Summary] = {"published": pair.published, "rerun": pair.repeated}
    return {
        "what": pair.what,
        "of": pair.of,
        "to": pair.to,
        "agrees": pair.agrees,
        **{
            name: {"ratio": each.median, "low": each.low, "high": each.high, "n": each.n}
            for name, each in values.items()
        },
    }


def _counted(finding: Finding) -> str:
    """What became of a counter, without a verdict on it: a repetition is no regression."""
    sentence = render.sentence(replace(finding, causes=()))
    verdict = finding.judged.verdict.value
    return sentence.removeprefix(verdict).lstrip(",; ") or "it is not there"


def _name(side: RunNumbers) -> str:
    return side.run_id or side.name
