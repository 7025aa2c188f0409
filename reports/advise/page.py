"""Advice as a self-contained page, in the style of the plan's."""

from __future__ import annotations

from keymark.reports.advise import render
from keymark.reports.advise.advice import Advice
from keymark.reports.advise.findings import Finding, Urgency
from keymark.reports.plan import render as plan_text
from keymark.reports.render.text import clean
from keymark.reports.sections.page import style, template


def html(made: Advice) -> str:
    """Render the page; everything foreign in it is escaped."""
    plan = made.plan
    heads, rows = plan_text.table(plan) if plan else ([], [])
    crossings = [plan_text.crossing(each) for each in plan.crossovers] if plan else []
    return template("advise.html.j2").render(
        css=style(),
        name=clean(made.survey.name or made.survey.path),
        headline=render.headline(made),
        engine=plan_text.about(plan.calibration.engine) if plan else "",
        parts=render.parts(made) if made.parts else [],
        unpredicted=render.unpredicted(made),
        log=render.log_lines(made.log, made.check) if made.log else [],
        plan=plan,
        remarks=plan_text.remarks(plan) if plan else [],
        basis=plan_text.basis(plan) if plan else [],
        heads=heads,
        rows=rows,
        now=_told(made.findings, Urgency.NOW),
        watch=_told(made.findings, Urgency.WATCH),
        changes=[*made.outlook, *crossings],
        facts=render.facts(made),
        problems=[clean(line) for line in made.survey.problems],
    )


def _told(findings: tuple[Finding, ...], urgency: Urgency) -> list[dict[str, str]]:
    return [
        {"kind": each.kind, "what": clean(each.what), "why": clean(each.why), "do": clean(each.do)}
        for each in findings
        if each.urgency == urgency
    ]
