"""The first revision that made a number worse, found by halving what lies in between.

Every revision is judged against the base. Counters come first: they take one repetition each, and
tell even on a busy machine. Times are asked only where no counter became worse and the policy
requires times, with all their repetitions. A revision that cannot be measured is passed over. Runs
are kept, by revision, and not made again: a search that was cut off resumes where it was.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import Enum

from keymark.harness.errors import HarnessError
from keymark.harness.git import CLONE, git
from keymark.reports.errors import ReportError
from keymark.reports.gate.compare import Finding, Gate
from keymark.reports.gate.policy import Kind
from keymark.reports.gate.run_numbers import Key
from keymark.reports.gate.verdicts import Verdict
from keymark.reports.render.text import clean

Judge = Callable[[str, Kind], Gate | None]
"""(revision, what is asked of it) -> the gate of base and revision; None: cannot be measured"""


class RevisionState(Enum):
    """What a revision is found to be."""

    GOOD = "good"
    BAD = "bad"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What a search found.

    Attributes:
        first_bad: the revision; None where nothing became worse.
        suspects: revisions any of which may be the first bad one, `first_bad` the last of them.
        kind: whether counters or times led to it.
        findings: what became worse there, against the base.
        steps: revisions that were judged, the candidate among them.
        gate: the gate of base and candidate.
    """

    first_bad: str | None
    suspects: tuple[str, ...]
    kind: Kind
    findings: tuple[Finding, ...]
    steps: int
    gate: Gate


def search(revisions: Sequence[str], judge: Judge) -> Found:
    """Find the first bad one.

    Args:
        revisions: those after the base, the oldest first; the last is the candidate.
        judge: compares one with the base.

    Raises:
        ReportError: base and candidate cannot be measured.
    """
    by_counters = _candidate(revisions, judge, Kind.COUNTER)
    if _worse(by_counters, Kind.COUNTER):
        return _halve(revisions, judge, Kind.COUNTER, by_counters)
    if not any(each.decides and each.demand.kind is Kind.TIME for each in by_counters.findings):
        return _nothing(by_counters, Kind.COUNTER, steps=1)
    by_times = _candidate(revisions, judge, Kind.TIME)
    if _worse(by_times, Kind.TIME):
        found = _halve(revisions, judge, Kind.TIME, by_times)
        return replace(found, steps=found.steps + 1)
    return _nothing(by_times, Kind.TIME, steps=2)


def steps_at_most(revisions: Sequence[str], kind: Kind) -> int:
    """How many are judged where each can be: the candidate, and halving; times come second."""
    return (len(revisions) - 1).bit_length() + (1 if kind is Kind.COUNTER else 2)


def _nothing(gate: Gate, kind: Kind, *, steps: int) -> Found:
    """Nothing became worse."""
    return Found(first_bad=None, suspects=(), kind=kind, findings=(), steps=steps, gate=gate)


def _candidate(revisions: Sequence[str], judge: Judge, kind: Kind) -> Gate:
    found = judge(revisions[-1], kind)
    if found is None:
        raise ReportError("base and candidate cannot be measured: there is nothing to search for")
    return found


def _halve(revisions: Sequence[str], judge: Judge, kind: Kind, last: Gate) -> Found:
    steps = 1
    wanted = frozenset(each.key for each in _worse(last, kind))
    gates = {len(revisions) - 1: last}
    passed_over: set[int] = set()
    good, bad = -1, len(revisions) - 1
    while True:
        left = [at for at in range(good + 1, bad) if at not in passed_over]
        if not left:
            break
        middle = min(left, key=lambda at: abs(2 * at - good - bad))
        found = judge(revisions[middle], kind)
        steps += 1
        state = _state(found, kind, wanted)
        if found is None or state is RevisionState.UNKNOWN:
            passed_over.add(middle)
        elif state is RevisionState.BAD:
            bad, gates[middle] = middle, found
        else:
            good = middle
    return Found(
        first_bad=revisions[bad],
        suspects=tuple(revisions[good + 1 : bad + 1]),
        kind=kind,
        findings=tuple(each for each in _worse(gates[bad], kind) if each.key in wanted),
        steps=steps,
        gate=last,
    )


def _worse(gate: Gate, kind: Kind) -> list[Finding]:
    found = gate.with_verdict(Verdict.REGRESSION, decides=True)
    return [each for each in found if each.demand.kind is kind]


def _state(gate: Gate | None, kind: Kind, wanted: frozenset[Key]) -> RevisionState:
    """Bad: one of the numbers that are worse in the candidate is worse here."""
    if gate is None:
        return RevisionState.UNKNOWN
    if any(each.key in wanted for each in _worse(gate, kind)):
        return RevisionState.BAD
    undecided = gate.with_verdict(Verdict.INCONCLUSIVE, decides=True)
    if kind is Kind.TIME and any(each.key in wanted for each in undecided):
        return RevisionState.UNKNOWN
    return RevisionState.GOOD


def between(base: str, candidate: str) -> list[str]:
    """The commits after base up to candidate along first parents, the oldest first.

    Raises:
        ReportError: git does not know them, or the base is not among the candidate's ancestors.
    """
    ends = commit(base), commit(candidate)
    line = _git("rev-list", "--first-parent", ends[1]).split()
    if ends[0] not in line:
        raise ReportError(
            f"{clean(base)} is not on the first-parent line of {clean(candidate)}: "
            "a search needs one"
        )
    found = line[: line.index(ends[0])]
    if not found:
        raise ReportError(f"{clean(base)} and {clean(candidate)} are one commit")
    return found[::-1]


def commit(revision: str) -> str:
    """The full commit of a revision.

    Raises:
        ReportError: git knows none.
    """
    asked = "rev-parse", "--verify", "--end-of-options", f"{revision}^{{commit}}"
    return _git(*asked)


def subject(revision: str) -> str:
    """A commit's short name and what it says it does, safe to show."""
    return clean(_git("log", "-1", "--format=%h %s", revision))


def _git(*words: str) -> str:
    """What git answers about the clone that this package is in."""
    try:
        return git(CLONE, *words).decode(errors="replace").strip()
    except HarnessError as error:
        raise ReportError(clean(error)) from error
