"""A gate's answer for programs and for people: JSON, JUnit, Markdown for a pull request.

Names come from files that others wrote: each form escapes them in its own way.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from html import escape
from typing import Any
from xml.etree import ElementTree as ET

from keymark.reports.gate.bisect import Found
from keymark.reports.gate.causes import Cause
from keymark.reports.gate.compare import Finding, Gate
from keymark.reports.gate.policy import Kind, Level
from keymark.reports.gate.reasons import Reason, lead, reasons
from keymark.reports.gate.verdicts import ALARM, Judged, Verdict
from keymark.reports.render.format_values import amount, exact
from keymark.reports.render.text import NOTHING, clean, markdown

LONGEST_TABLE = 60
"""Rows of one table of the Markdown: comments of a pull request have an end."""

SEPARATE = "Measured in separate runs: counters decide, times are not compared"

_WORDS = {
    Verdict.PASS: "No regression",
    Verdict.REGRESSION: "Regression",
    Verdict.INCONCLUSIVE: "Inconclusive: a required number cannot be decided",
}


def document(gate: Gate) -> dict[str, Any]:
    """The gate as one JSON document."""
    return {
        "verdict": gate.verdict.value,
        "cause": leading(gate) or None,
        "base": gate.base.name,
        "candidate": gate.candidate.name,
        "interleaved": gate.interleaved,
        "false_alarm_level": ALARM,
        "counts": counts(gate),
        "warnings": list(gate.warnings),
        "findings": [_finding(each) for each in gate.findings],
    }


def search_lines(found: Found, subject: Callable[[str], str]) -> list[str]:
    """What a search for the first bad revision found, for people; `subject` describes revisions."""
    many = f"{found.steps} revision{'s' * (found.steps > 1)} judged"
    if found.first_bad is None:
        return [f"{found.gate.verdict.value}: nothing became worse, {many}"]
    what = "counters" if found.kind is Kind.COUNTER else "times"
    lines = [f"first bad revision: {subject(found.first_bad)}"]
    if len(found.suspects) > 1:
        many_left = f"one of {len(found.suspects)}, the others of which cannot be judged"
        lines = [f"the first bad revision is {many_left}:"]
        lines += [f"  {subject(each)}" for each in found.suspects]
    lines.append(f"found by {what}, {many}")
    return lines + [f"{place(each)}: {sentence(each)}" for each in found.findings]


def search_document(found: Found) -> dict[str, Any]:
    """The same as one JSON document."""
    return {
        "verdict": found.gate.verdict.value,
        "first_bad": found.first_bad,
        "suspects": list(found.suspects),
        "found_by": None if found.first_bad is None else found.kind.value,
        "steps": found.steps,
        "findings": [_finding(each) for each in found.findings],
        "gate": document(found.gate),
    }


def counts(gate: Gate) -> dict[str, int]:
    """How many required comparisons have each verdict, and how many are advisory."""
    found = {verdict.value: len(gate.with_verdict(verdict, decides=True)) for verdict in Verdict}
    return {**found, "advisory": sum(not each.decides for each in gate.findings)}


def headline(gate: Gate) -> str:
    """One line: the verdict and what it rests on."""
    number = counts(gate)
    parts = [f"{number['pass'] + number['improvement']} required comparisons passed"]
    parts += [f"{number['regression']} regressed"] * bool(number["regression"])
    parts += [f"{number['inconclusive']} undecided"] * bool(number["inconclusive"])
    return f"{_WORDS[gate.verdict]}: {', '.join(parts)}, {number['advisory']} advisory"


def place(finding: Finding) -> str:
    """Which number, in words that are safe to show: ``native/record upsert_1 tag wall_s``."""
    return " ".join(clean(part, 80) for part in finding.key if part)


def sentence(finding: Finding) -> str:
    """The result of a comparison, in one line without its place."""
    judged = finding.judged
    parts = [judged.verdict.value]
    if finding.base is not None and finding.candidate is not None:
        before, after = amount(finding.base, finding.unit), amount(finding.candidate, finding.unit)
        if finding.demand.kind is Kind.COUNTER and before == after != "0":
            before, after = exact(finding.base), exact(finding.candidate)
        parts.append(f"{before} to {after}" + (f" ({change(judged)})" if change(judged) else ""))
    elif change(judged):
        parts.append(change(judged))
    if judged.spread is not None:
        parts.append(f"{judged.pairs} pairs, spread {judged.spread:.1%}")
    if judged.needed is not None:
        parts.append(f"needs about {judged.needed} pairs")
    parts += [clean(caveat.detail) for caveat in judged.caveats]
    return "; ".join([", ".join(parts), *map(cause, finding.causes)])


def cause(found: Cause) -> str:
    """What gained, in one line: ``stage `collect at table/files.py` of write: tasks 2 to 3``."""
    if found.kind == "phase":
        what = f"phase {found.phase}"
    else:
        of = "" if found.phase == "total" else f" of {clean(found.phase, 60)}"
        what = f"stage `{clean(found.name, 120).replace('`', chr(39))}`{of}"
    before, after = amount(found.before, found.unit), amount(found.after, found.unit)
    if before == after:
        before, after = exact(found.before), exact(found.after)
    word = "" if found.metric == "wall_s" else f" {found.metric}"
    return f"{what}:{word} {before} to {after}"


def change(judged: Judged) -> str:
    """The ratio as a change: ``+5.1%, between +3.2% and +7.0%``."""
    if judged.ratio is None:
        return ""
    words = _percent(judged.ratio)
    if judged.pairs and judged.low is not None and judged.high is not None:
        words += f", between {_percent(judged.low)} and {_percent(judged.high)}"
    return words


def shown(gate: Gate) -> list[Finding]:
    """The findings that a person wants to see first: bad ones, undecided ones, advisory ones."""
    wanted = (
        (Verdict.REGRESSION, True),
        (Verdict.INCONCLUSIVE, True),
        (Verdict.REGRESSION, False),
        (Verdict.IMPROVEMENT, True),
        (Verdict.IMPROVEMENT, False),
    )
    return [each for verdict, deciding in wanted
            for each in gate.with_verdict(verdict, decides=deciding)]  # fmt: skip


def junit(gate: Gate) -> str:
    """JUnit XML: a suite for each cell, a case for each comparison.

    A required regression is a failure, a required comparison that cannot be decided an error;
    what is advisory passes and says what it found.
    """
    root = ET.Element("testsuites", name="keymark gate")
    suites: dict[str, list[Finding]] = {}
    for each in gate.findings:
        suites.setdefault(each.key.cell, []).append(each)
    for cell, members in suites.items():
        suite = ET.SubElement(root, "testsuite", name=clean(cell), tests=str(len(members)))
        bad = {Verdict.REGRESSION: 0, Verdict.INCONCLUSIVE: 0}
        for each in members:
            _case(suite, each)
            if each.decides and each.judged.verdict in bad:
                bad[each.judged.verdict] += 1
        suite.set("failures", str(bad[Verdict.REGRESSION]))
        suite.set("errors", str(bad[Verdict.INCONCLUSIVE]))
    ET.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ET.tostring(root, encoding="unicode") + "\n"


def comment(gate: Gate) -> str:
    """Markdown for a comment on a pull request: the cause first, the rows folded by their cause.

    The first line is the same for every push, so that a workflow finds the comment that it wrote.
    """
    lines = [marker(gate), f"## Keymark gate: {gate.verdict.value}", ""]
    if cause := leading(gate):
        prose = _prose(cause)
        lines += [f"**{prose[:1].upper()}{prose[1:]}.**", ""]
    lines += [f"{headline(gate)}.", ""]
    base, candidate = (markdown(side.title) for side in (gate.base, gate.candidate))
    lines += [f"Base: {base}. Candidate: {candidate}.", ""]
    if not gate.interleaved:
        lines += [f"{SEPARATE}.", ""]
    lines += [f"- {markdown(warning)}" for warning in gate.warnings]
    lines += [""] * bool(gate.warnings)
    notable = shown(gate)
    for reason in reasons(gate, notable[:LONGEST_TABLE]):
        lines += _folded(reason)
    if len(notable) > LONGEST_TABLE:
        lines += [f"... and {len(notable) - LONGEST_TABLE} more; the JSON has all of them.", ""]
    rest = len(gate.findings) - len(notable)
    lines.append(f"{rest} other comparisons show nothing.")
    return "\n".join(lines) + "\n"


def marker(gate: Gate) -> str:
    """An HTML comment that names the gate, by the scenario that both sides ran."""
    named = gate.candidate.scenario or gate.base.scenario
    name = re.sub(r"[^\w.]+", "-", named, flags=re.ASCII).strip("-")[:80]
    return f"<!-- keymark gate: {name} -->" if name else "<!-- keymark gate -->"


def leading(gate: Gate) -> str:
    """What became worse most, and why, in a sentence without its full stop; empty for nothing."""
    found = gate.with_verdict(Verdict.REGRESSION, decides=True)
    return lead(reasons(gate, found)) if found else ""


def _folded(reason: Reason) -> Iterable[str]:
    """The rows of one reason, folded under it."""
    count = len(reason.findings)
    rows = f"{count} number{'s' * (count > 1)}"
    words = reason.words or "no setting, version or stage tells why"
    yield f"<details><summary>{_html(words)} ({rows})</summary>"
    yield ""
    yield from _table(reason.findings)
    yield "</details>"
    yield ""


def _html(text: str) -> str:
    """Text with code in backticks, in HTML: within a summary, Markdown means nothing."""
    parts = clean(text, 600).split("`")
    return "".join(
        f"<code>{escape(part)}</code>" if place % 2 else escape(part)
        for place, part in enumerate(parts)
    )


def _prose(text: str) -> str:
    """Text with code in backticks, in Markdown."""
    parts = clean(text, 600).split("`")
    return "`".join(part if place % 2 else markdown(part) for place, part in enumerate(parts))


def _finding(finding: Finding) -> dict[str, Any]:
    key, judged = finding.key, finding.judged
    return {
        "cell": clean(key.cell),
        "step": clean(key.step),
        "phase": clean(key.phase),
        "metric": clean(key.metric),
        "unit": clean(finding.unit),
        "kind": finding.demand.kind.value,
        "level": finding.demand.level.value,
        "tolerance": finding.demand.tolerance,
        "baseline": finding.base,
        "candidate": finding.candidate,
        "ratio": judged.ratio,
        "low": judged.low,
        "high": judged.high,
        "verdict": judged.verdict.value,
        "pairs": judged.pairs,
        "pairs_needed": judged.needed,
        "spread": judged.spread,
        "p": judged.p,
        "caveats": [
            {"kind": caveat.kind.value, "detail": caveat.detail} for caveat in judged.caveats
        ],
        "causes": [
            {
                "kind": each.kind,
                "phase": clean(each.phase),
                "name": clean(each.name),
                "metric": each.metric,
                "baseline": each.before,
                "candidate": each.after,
            }
            for each in finding.causes
        ],
    }


def _case(suite: ET.Element, finding: Finding) -> None:
    name = place(finding).removeprefix(clean(finding.key.cell, 80)).strip() or "cell"
    case = ET.SubElement(suite, "testcase", classname=clean(finding.key.cell), name=name)
    words = sentence(finding)
    kinds = {Verdict.REGRESSION: "failure", Verdict.INCONCLUSIVE: "error"}
    if finding.decides and finding.judged.verdict in kinds:
        ET.SubElement(case, kinds[finding.judged.verdict], message=words)
    elif finding.demand.level is Level.ADVISORY:
        ET.SubElement(case, "system-out").text = f"advisory: {words}"


def _table(findings: Sequence[Finding]) -> Iterable[str]:
    if not findings:
        return
    yield "| | cell | step | phase | metric | what |"
    yield "|---|---|---|---|---|---|"
    for each in findings:
        mark = "**required**" if each.decides else "advisory"
        parts = [markdown(part) or NOTHING for part in each.key]
        yield f"| {mark} | {' | '.join(parts)} | {markdown(sentence(each))} |"
    yield ""


def _percent(ratio: float) -> str:
    return f"{ratio - 1.0:+.1%}" if abs(ratio - 1.0) >= 0.001 else f"{ratio - 1.0:+.3%}"
