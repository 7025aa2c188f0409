"""An answer as a self-contained page, in the style of the reports."""

from __future__ import annotations

from markupsafe import Markup

from keymark.reports.plan import render
from keymark.reports.plan.answer import COPY_ON_WRITE_ONLY, Plan
from keymark.reports.plan.curves import Curve, curves, svg
from keymark.reports.sections.page import style, template


def html(made: Plan, also: Plan | None = None) -> str:
    """Render the page; everything foreign in it is escaped.

    Args:
        made: the answer.
        also: that of another engine, shown where it recommends something else.
    """
    heads, rows = render.table(made)
    left_out = [COPY_ON_WRITE_ONLY] if made.wish.merge_on_read else []
    return template("plan.html.j2").render(
        made=made,
        engine=render.about(made.calibration.engine),
        beside=render.beside(made, also) if also else [],
        tie=render.tied(made.choice),
        remarks=[*render.tie_lines(made), *render.remarks(made), *left_out],
        over=render.over_ranges(made.regrets) if made.regrets else [],
        apart=render.not_compared(made),
        css=style(),
        costs=render.costs(made),
        heads=heads,
        rows=rows,
        constants=render.constants_table(made.calibration),
        crossing=render.crossing,
        curves=curves(made),
        picture=_picture,
        numbers=_numbers,
    )


def _picture(curve: Curve) -> Markup:
    return Markup(svg(curve))  # noqa: S704 - built by `curves.svg`, names in it are escaped


def _numbers(curve: Curve) -> list[tuple[str, list[str]]]:
    """Every third size of a picture with the estimates there, as rows of a table."""
    chosen = range(0, len(curve.sizes), 3)
    return [
        (
            f"{curve.sizes[place]:,.0f}",
            [render.worded(line[place], "s") for line in curve.lines.values()],
        )
        for place in chosen
    ]
