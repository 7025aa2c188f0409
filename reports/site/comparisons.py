"""Runs that were repeated: whether both agree, for the pages of both."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from keymark.reports.errors import ReportError
from keymark.reports.published.agreement import agreement
from keymark.reports.published.check import Checked
from keymark.reports.render.text import clean


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """A run beside one that repeats it.

    Attributes:
        other: id of the other run.
        agrees: whether both agree; None where they cannot be compared.
        sentence: whether and in what they disagree, or why they cannot be compared.
    """

    other: str
    agrees: bool | None
    sentence: str


def comparisons(right: Sequence[Checked]) -> Mapping[str, Sequence[Comparison]]:
    """What is said about each run that was repeated, and of each that repeats one, by run id.

    Args:
        right: the runs of the site; `repeated` of their provenance names the run that repeats one.
    """
    paths = {each.path.resolve().name: each.path for each in right}
    found: dict[str, list[Comparison]] = {}
    for each in right:
        first, second = each.path.resolve().name, each.provenance.repeated
        if second not in paths:
            continue
        agrees, sentence = _told(each.path, paths[second])
        for run_id, other in ((first, second), (second, first)):
            comparison = Comparison(other=other, agrees=agrees, sentence=sentence)
            found.setdefault(run_id, []).append(comparison)
    return found


def _told(first: Path, second: Path) -> tuple[bool | None, str]:
    """Whether both agree, and the sentence about it."""
    try:
        made = agreement(first, second)
    except ReportError as error:
        return None, f"Both cannot be compared: {clean(error)}."
    return made.agrees, made.finding(f"Run {made.repeated}")
