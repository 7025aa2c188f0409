"""Sensitivity: what each index adds to a write as the table, the batch or the cluster grows.

A picture has two logarithmic axes, a line and a band for each index. The range of sizes that was
calibrated is shaded, so that one sees what is extrapolated.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from matplotlib.figure import FigureBase
from matplotlib.ticker import EngFormatter, FuncFormatter

from keymark.harness.store.units import Unit
from keymark.indexes.installed import specs
from keymark.reports.plan.answer import Plan
from keymark.reports.plan.decide import sweep
from keymark.reports.plan.predict import Estimate, added
from keymark.reports.render.charts import INK, Drawing, style_panel
from keymark.reports.render.format_values import amount
from keymark.reports.render.svg import inline

AXES = {
    "rows": "rows of the table",
    "batch": "keys of a batch",
    "executors": "cores of all executors",
}

_ROWS = 7
_FLOOR = 1e-4
_NAME_SPACE = ' xmlns="http://www.w3.org/2000/svg"'


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """One picture.

    Attributes:
        along: a name of AXES.
        title: what stands above it.
        sizes: ascending, positive.
        lines: by index, an estimate for each size.
        calibrated: ends of the calibrated range.
        here: the size that was asked about.
    """

    along: str
    title: str
    sizes: tuple[float, ...]
    lines: Mapping[str, tuple[Estimate, ...]]
    calibrated: tuple[float, float]
    here: float

    @property
    def label(self) -> str:
        """The text for a reader who does not see the picture."""
        ends = [
            f"{index} from {_seconds(line[0].value)} to {_seconds(line[-1].value)}"
            for index, line in self.lines.items()
        ]
        span = f"{self.sizes[0]:,.0f} to {self.sizes[-1]:,.0f}"
        return f"{self.title}, {span} {AXES[self.along]}: {'; '.join(ends)}"


def curves(made: Plan) -> list[Curve]:
    """The pictures of an answer."""
    found = []
    for along, words in AXES.items():
        attribute = "cores" if along == "executors" else along
        places = {float(getattr(place, attribute)): place for place in sweep(made.wish.at, along)}
        found.append(
            Curve(
                along=along,
                title=f"What an index adds to a write, by {words}",
                sizes=tuple(places),
                lines={
                    index: tuple(added(made.calibration, index, p) for p in places.values())
                    for index in made.candidates
                },
                calibrated=made.calibration.ranges[attribute],
                here=float(getattr(made.wish.at, attribute)),
            )
        )
    return found


def svg(curve: Curve) -> str:
    """The picture as markup to put into a page."""

    def draw(figure: FigureBase) -> None:
        axes = figure.subplots()
        style_panel(axes, "seconds")
        axes.set(xscale="log", yscale="log", xlabel=AXES[curve.along])
        axes.set_xlim(curve.sizes[0], curve.sizes[-1])
        axes.axvspan(*curve.calibrated, color=INK, alpha=0.06, linewidth=0)
        axes.axvline(curve.here, color=INK, linestyle="--", linewidth=1)
        for index, line in curve.lines.items():
            low, middle, high = (
                [max(getattr(each, end), _FLOOR) for each in line]
                for end in ("low", "value", "high")
            )
            color = specs()[index].color
            axes.fill_between(curve.sizes, low, high, color=color, alpha=0.12, linewidth=0)
            axes.plot(curve.sizes, middle, color=color, linewidth=2, label=index)
        axes.xaxis.set_major_formatter(EngFormatter(sep=""))
        axes.yaxis.set_major_formatter(FuncFormatter(lambda y, _: _seconds(y)))
        axes.minorticks_off()
        figure.legend(loc="outside lower left", ncols=3, frameon=False, fontsize=9)

    picture = Drawing(draw=draw, rows=_ROWS, title=curve.title).bare_svg
    # Within HTML an SVG needs no name space, and the page names no address.
    return inline(picture, prefix=curve.along, label=curve.label).replace(_NAME_SPACE, "")


def _seconds(value: float) -> str:
    return amount(value, Unit.SECONDS.value)
