"""Why numbers became worse: what two runs say about themselves that differs.

Settings of a cell's table come first, then versions. Where neither differs it is the code, and the
phase or stage that gained most says where. Nothing here proves a cause; it is what changed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import inf, log

from keymark.harness.engines import NATIVE
from keymark.harness.store.units import METRICS, Better
from keymark.reports.gate.causes import Cause
from keymark.reports.gate.compare import SET_UP, Finding, Gate
from keymark.reports.gate.run_numbers import RunNumbers
from keymark.reports.gate.verdicts import Judged, Verdict
from keymark.reports.render.format_values import amount, digits
from keymark.reports.render.text import clean, listed

_OF_INDEX, _OF_ENGINE = "table.index_options.", "table.engine_options."
_NOT_SET = "—"
_SUBJECTS = {"index_bytes": "the index", "wall_s": "the time"}
# What a reader asks about first, where several numbers grew for one reason.
_FOREMOST = ("index_bytes", "wall_s", "bytes_written", "shuffle_write_bytes", "tasks")
_NAMED = 3
_SHORT = 3


@dataclass(frozen=True, slots=True)
class Change:
    """A setting or version that differs.

    Attributes:
        name: safe to show; of an option the last parts of its name.
        before: of the base, as `after` is of the candidate; safe to show.
    """

    name: str
    before: str
    after: str

    def words(self) -> str:
        """What happened: ``min.filegroup.count` went from 2 to 6``."""
        return f"`{self.name.replace('`', chr(39))}` went from {self.before} to {self.after}"


@dataclass(frozen=True, slots=True)
class Reason:
    """Findings that are put down to the same.

    Attributes:
        words: what it is; empty where nothing is known to differ.
        findings: worst first.
    """

    words: str
    findings: tuple[Finding, ...]


def reasons(gate: Gate, found: Sequence[Finding]) -> list[Reason]:
    """Findings by their reason, in the order of the first of each.

    Those of a reason stay in the order of their verdicts, and of one verdict the worst is first.
    """
    kinds = list(dict.fromkeys(map(_kind, found)))
    grouped: dict[str, list[Finding]] = {}
    for each in found:
        grouped.setdefault(_reason(gate, each), []).append(each)

    def worst_first(each: Finding) -> tuple[int, float]:
        return kinds.index(_kind(each)), -_growth(each)

    return [Reason(words, tuple(sorted(of, key=worst_first))) for words, of in grouped.items()]


def lead(found: Sequence[Reason]) -> str:
    """The answer in a sentence: ``the index grew 53 %: `min.filegroup.count` went ...``.

    Args:
        found: at least one, with findings that became worse; the most important one is told.
    """
    firsts = [(min(each.findings, key=_importance), each) for each in found]
    first, reason = min(firsts, key=lambda pair: _importance(pair[0]))
    if first.candidate is None and first.judged.ratio is None:
        return _left_out(first)
    return f"{grown(first)}: {reason.words}" if reason.words else grown(first)


def grown(finding: Finding) -> str:
    """How a number became worse, in words without its cell: ``the index grew 53 %``."""
    metric = METRICS[finding.key.metric]
    subject = _SUBJECTS.get(metric.name, metric.title)
    step = clean(finding.key.step, 40)
    of = f" of {step}" if metric.name != "index_bytes" else ""
    ratio = finding.judged.ratio
    if ratio is None:
        values = [amount(each or 0.0, finding.unit) for each in (finding.base, finding.candidate)]
        return f"{subject}{of} went from {values[0]} to {values[1]}"
    worst = _worst(finding.judged, finding.demand.better)
    if worst is None:
        return f"{subject}{of} {_grew(ratio)}"
    return f"{subject}{of} {_grew(worst, 'up to ')} in some repetitions"


def _worst(judged: Judged, better: Better) -> float | None:
    """The ratio of the worst repetition, if the median is no worse; None if it is."""
    if judged.ratio is None or judged.low is None or judged.high is None:
        return None
    if better is Better.NEITHER:
        far = judged.high if judged.high - 1 >= 1 - judged.low else judged.low
        return far if judged.ratio == 1 != far else None
    if better is Better.HIGHER:
        return judged.low if judged.ratio >= 1 > judged.low else None
    return judged.high if judged.ratio <= 1 < judged.high else None


def _grew(ratio: float, up_to: str = "") -> str:
    return f"{'grew' if ratio > 1 else 'shrank'} {up_to}{_percent(abs(ratio - 1))}"


def _left_out(finding: Finding) -> str:
    """Why the candidate has nothing to compare: its cell is wrong or gone, or a number is."""
    key, why = finding.key, "; ".join(clean(each.detail, 200) for each in finding.judged.caveats)
    cell = f"the cell {clean(key.cell, 80)}"
    if not key.metric:
        return f"{cell} is not right: {why}"
    return f"{clean(key.metric)} of {clean(key.step, 80)} in {cell}: {why}"


def _reason(gate: Gate, finding: Finding) -> str:
    """What a finding is put down to, in words."""
    base, candidate = gate.base, gate.candidate
    changed = list(_options(base, candidate, finding.key.cell)) or list(_versions(base, candidate))
    if changed:
        shown = [each.words() for each in changed[:_NAMED]]
        more = len(changed) - len(shown)
        return listed([*shown, *([f"{more} more"] if more else [])])
    if not finding.causes:
        return ""
    return _cause(finding.causes[0])


def _cause(cause: Cause) -> str:
    """The part of a step that gained most, without its numbers: those of cells differ."""
    if cause.kind == "phase":
        return f"the phase {clean(cause.phase, 60)} grew"
    name = clean(cause.name, 120).replace("`", "'")
    of = "" if cause.phase == "total" else f" of the phase {clean(cause.phase, 60)}"
    return f"the stage `{name}`{of} grew"


def _options(base: RunNumbers, candidate: RunNumbers, cell: str) -> Iterable[Change]:
    """How the tables of a cell were set up differently."""
    if not (base.work and candidate.work):
        return  # an older summary tells nothing about them
    for key in sorted(base.work.keys() | candidate.work.keys()):
        before, after = base.work.get(key, _NOT_SET), candidate.work.get(key, _NOT_SET)
        if key.startswith(SET_UP) and before != after and _is_about(key, cell):
            name = ".".join(key.split(".")[-_SHORT:])
            yield Change(clean(name, 80), clean(before, 80), clean(after, 80))


def _is_about(key: str, cell: str) -> bool:
    """Whether a setting is one of a cell's table: some are of one index or engine only."""
    parts = cell.split("/")
    if key.startswith(_OF_INDEX):
        return key.removeprefix(_OF_INDEX).split(".")[0] in parts
    if key.startswith(_OF_ENGINE):
        # With --base-engine, names of cells have no engine.
        has_engine = parts[0] == NATIVE or "@" in parts[0]
        return not has_engine or key.startswith(f"{_OF_ENGINE}{parts[0]}.")
    return True


def _versions(base: RunNumbers, candidate: RunNumbers) -> Iterable[Change]:
    """Packages, Spark and Java that both tell and that differ; the commits are named elsewhere."""
    for name in sorted(base.versions.keys() & candidate.versions.keys()):
        before, after = base.versions[name], candidate.versions[name]
        if name != "revision" and before != after:
            yield Change(clean(name, 60), clean(before, 60), clean(after, 60))


def _kind(finding: Finding) -> tuple[Verdict, bool]:
    return finding.judged.verdict, finding.decides


def _importance(finding: Finding) -> tuple[bool, int, float]:
    """Where a finding stands among others, the most important first; a whole cell before all."""
    metric = finding.key.metric
    place = _FOREMOST.index(metric) if metric in _FOREMOST else len(_FOREMOST)
    return not finding.decides, place if metric else -1, -_growth(finding)


def _growth(finding: Finding) -> float:
    """By how much a number is worse, as a logarithm; infinite where it has no ratio."""
    judged = finding.judged
    ratio = _worst(judged, finding.demand.better) or judged.ratio
    return abs(log(ratio)) if ratio else inf


def _percent(share: float) -> str:
    return f"{share:.0%}".replace("%", " %") if share >= 0.1 else f"{digits(100 * share)} %"
