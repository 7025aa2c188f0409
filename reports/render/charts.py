"""Tables into figures: one bar per cell with its interval, value and unit. No statistics here.

Every index has one colour on every chart (Okabe and Ito's palette, distinct with any colour
vision); phases differ by shade and hatching instead, so that no hue means two things.
Bars start at zero.
"""

from __future__ import annotations

import io
import textwrap
import warnings
import zlib
from collections.abc import Callable, Container, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from xml.etree import ElementTree as ET

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.backend_bases import RendererBase
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure, FigureBase
from matplotlib.patches import PathPatch
from matplotlib.path import Path
from matplotlib.text import Text
from matplotlib.ticker import FuncFormatter, Locator, LogLocator, MaxNLocator
from matplotlib.transforms import Bbox, BboxTransformTo, TransformedBbox
from PIL import Image

from keymark.harness.store.units import Unit
from keymark.indexes.spec import UNKNOWN_COLOR
from keymark.reports.model.projection import CellView
from keymark.reports.model.tables import Column, SummaryTable
from keymark.reports.render.format_values import axis_scale, digits
from keymark.reports.render.layout import LABEL_BELOW, WORDS, lay_out, moved
from keymark.reports.stats.statistics import CONFIDENCE, Summary

INK = "#1b1f24"
"""Text, frames and whiskers; `svg.inline` turns it into the page's own text colour."""
GRID = "#d5dae0"
"""Grid lines; `svg.inline` turns it into the page's own."""

HATCHES = ("", "///", "xxx", "\\\\\\", "|||")
"""Tell runs and engines apart where one index has several bars."""

# What finding a record costs is violet, what writing it costs is grey.
PHASE_LOOKS = {
    "open": ("#8fb3cf", "....", "#111111"),
    "prepare": ("#bcd7ea", "", "#111111"),
    "tag": ("#6f3fa0", "", "#ffffff"),
    "place": ("#e9e1f2", "xxxx", "#111111"),
    "index": ("#b79bd3", "////", "#111111"),
    "write": ("#c3cad2", "", "#111111"),
    "commit": ("#7d8794", "", "#ffffff"),
    "services": ("#565f69", "\\\\\\\\", "#ffffff"),
    "rest": ("#eef1f4", "", "#111111"),
}

_WIDTH = 4.5
_PIXELS = 1200
# Between a number or a label and its axis, in points.
_BESIDE = 4
# Height of a bar, in rows.
_BAR = 0.62
# The most of a bar's width that a text on it takes.
_INSIDE = 0.94
# Letters in a line of that width.
_TITLE, _SUBTITLE, _SOURCE = 46, 74, 86
_STYLE = {
    "axes.edgecolor": INK,
    "axes.facecolor": "none",
    "axes.labelcolor": INK,
    # A title has its place; without one its ticks are measured anew for each layout and drawing.
    "axes.titley": 1.0,
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],
    "font.size": 10,
    "hatch.linewidth": 0.6,
    "svg.fonttype": "none",
    "svg.hashsalt": "keymark",
    "text.color": INK,
    # Hinting cannot be seen at this size, and it takes a tenth of the time.
    "text.hinting": "none",
    "text.parse_math": False,
    "xtick.color": INK,
    "ytick.color": INK,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Lettering:
    """What is written around a chart that stands alone, beside its title.

    Attributes:
        subtitle: what was measured, on what machine and how often.
        source: where the numbers are from.
    """

    subtitle: str = ""
    source: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pictures:
    """A chart in all its forms.

    Attributes:
        svg: for publication, with title and source; its text is text.
        png: the same, 1,600 pixels wide.
        bare_svg: without title and background, for a page that has its own.
    """

    svg: str
    png: bytes
    bare_svg: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawing:
    """One chart, drawn when it is asked for.

    Attributes:
        draw: fills a figure.
        rows: the height, in bars.
        title: of the chart where it stands alone.
    """

    draw: Callable[[FigureBase], None]
    rows: float
    title: str

    @property
    def bare_svg(self) -> str:
        """Without title and background, for a page that has its own."""
        with _quiet_style():
            figure = Figure(figsize=(_WIDTH, self._height), dpi=_PIXELS / _WIDTH)
            self.draw(figure)
            lay_out(figure)
            figure.patch.set_visible(False)
            return _saved_svg(figure)

    def pictures(self, lettering: Lettering) -> Pictures:
        """All its pictures, from one layout: to lay a chart out takes as long as to draw it."""
        title = textwrap.wrap(self.title, _TITLE)
        subtitle = textwrap.wrap(lettering.subtitle, _SUBTITLE)
        source = textwrap.wrap(lettering.source, _SOURCE)
        above = 0.14 + 0.2 * len(title) + 0.14 * len(subtitle)
        below = 0.06 + 0.12 * len(source)
        with _quiet_style():
            height = above + self._height + below
            figure = Figure(figsize=(_WIDTH, height), dpi=_PIXELS / _WIDTH)
            canvas = FigureCanvasAgg(figure)
            head, body, foot = figure.subfigures(
                3, 1, height_ratios=(above, self._height, below), hspace=0, squeeze=False
            )[:, 0]
            top = 1 - 0.06 / above
            head.text(0.02, top, "\n".join(title), va="top", fontsize=11, fontweight="bold")
            top -= 0.2 * len(title) / above
            head.text(0.02, top, "\n".join(subtitle), va="top", fontsize=7.5)
            self.draw(body)
            foot.text(0.02, 0.04 / below, "\n".join(source), va="bottom", fontsize=6.5)
            lay_out(figure)
            around = {"paper": figure.patch, "head": head, "foot": foot}
            for name, part in around.items():
                part.set_gid(name)
            # The layout measured the texts on this canvas, which remembers them.
            png = _saved_png(canvas)
            svg = _saved_svg(figure)
        bare = _without(svg, set(around), top=above / height, rest=self._height / height)
        return Pictures(svg=svg, png=png, bare_svg=bare)

    @property
    def _height(self) -> float:
        return 0.95 + 0.4 * self.rows


def bars(column: Column, cells: Sequence[CellView], title: str) -> Drawing:
    """Draw one measure as horizontal bars with intervals; cells without a value get no bar."""
    shown = [
        (cell, summary)
        for cell, summary in zip(cells, column.summaries, strict=True)
        if summary is not None
    ]
    scale, unit = axis_scale(column.unit, max(summary.high for _, summary in shown))

    def draw(figure: FigureBase) -> None:
        axes = figure.add_subplot()
        kinds = list(dict.fromkeys((cell.run_label, cell.engine) for cell in cells))
        medians = [summary.median / scale for _, summary in shown]
        axes.barh(
            range(len(shown)),
            medians,
            height=_BAR,
            color=[cell.spec.color for cell, _ in shown],
            hatch=[_hatch(kinds.index((cell.run_label, cell.engine))) for cell, _ in shown],
            edgecolor=INK,
            linewidth=0.6,
        )
        around = [
            [(summary.median - summary.low) / scale for _, summary in shown],
            [(summary.high - summary.median) / scale for _, summary in shown],
        ]
        axes.errorbar(
            medians, range(len(shown)), xerr=around, fmt="none", ecolor=INK, elinewidth=1.2,
            capsize=3,
        )  # fmt: skip
        for row, (_, summary) in enumerate(shown):
            _value_label(axes, row, summary.high / scale, digits(summary.median / scale))
        top = max(summary.high for _, summary in shown) / scale
        spread = interval_words([s for _, s in shown]) + ", by round" * column.by_rounds
        words = f"{unit}, lower is better\n{spread}"
        _frame_bars(axes, [cell for cell, _ in shown], top * 1.27, words)

    return Drawing(draw=draw, rows=len(shown), title=title)


def stack(whole: SummaryTable, title: str) -> Drawing:
    """Draw the phases of a table, whose last column is the total, as stacked horizontal bars."""
    parts, totals = stacked_medians(whole)
    words = {column.measure.phase: column.measure.title for column in whole.columns}
    scale, unit = axis_scale(Unit.SECONDS.value, max(totals))

    def draw(figure: FigureBase) -> None:
        axes = figure.add_subplot()
        left = [0.0] * len(totals)
        for phase, lengths in parts.items():
            color, hatch, ink = PHASE_LOOKS.get(phase, (UNKNOWN_COLOR, "", "#111111"))
            boxes = {
                row: Bbox.from_bounds(left[row], row - _BAR / 2, length / scale, _BAR)
                for row, length in enumerate(lengths)
                if length
            }
            # One path for all rows: matplotlib draws a hatch anew for each one.
            path = Path.make_compound_path(
                *(
                    BboxTransformTo(box).transform_path(Path.unit_rectangle())
                    for box in boxes.values()
                )
            )
            axes.add_patch(
                PathPatch(
                    path, facecolor=color, hatch=hatch, edgecolor=INK, linewidth=0.6,
                    label=words[phase],
                )
            )  # fmt: skip
            for row, box in ({} if hatch else boxes).items():
                axes.add_artist(_TextInside(axes, box, digits(lengths[row] / scale), ink))
            left = [start + length / scale for start, length in zip(left, lengths, strict=True)]
        for row, end in enumerate(left):
            _value_label(axes, row, end, digits(totals[row] / scale))
        below = f"{unit}, medians\nat the end of a bar: the total"
        _frame_bars(axes, whole.cells, max(left) * 1.22, below)
        figure.legend(loc="outside lower left", ncols=4, frameon=False, handlelength=1.2,
                      columnspacing=1.1, fontsize=9)  # fmt: skip

    return Drawing(draw=draw, rows=len(totals) + 1, title=title)


def style_panel(axes: Axes, name: str) -> None:
    """The look of a panel of points and lines over the rows or keys, `name` above it."""
    axes.set_title(name, fontsize=9, loc="left")
    number_ticks(axes.xaxis)
    axes.xaxis.label.set_fontsize(9)
    axes.grid(color=GRID, linewidth=0.8)
    axes.set_axisbelow(True)
    axes.tick_params(length=0, which="both", left=False, bottom=False, labelsize=8.5)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)


def number_ticks(axis: Axis) -> None:
    """Write ticks as plain numbers; a new scale of an axis needs this anew."""
    axis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:,.10g}"))


def log_ticks(low: float, high: float) -> list[float]:
    """Ticks of a logarithmic axis from `low` to `high` that leave room for their numbers."""
    span = high / low
    steps = (1, 2, 5) if span < 100 else (1, 3) if span < 1000 else (1,)
    return ticks_within(LogLocator(subs=steps), low, high)


def ticks_within(locator: Locator, low: float, high: float) -> list[float]:
    """The ticks of a locator from `low` to `high`."""
    return [float(tick) for tick in locator.tick_values(low, high) if low <= tick <= high]


def frame_rows(
    axes: Axes, labels: Sequence[str], ticks: Sequence[float], words: str, *, size: float = 10
) -> None:
    """Draw what is around rows: their labels, and values with their lines.

    The axes that matplotlib draws itself take several times as long.

    Args:
        axes: whose horizontal limits are set.
        labels: of the rows at 0, 1, ..., from the top down.
        ticks: values on the axis.
        words: below them.
        size: of the labels' font, in points.
    """
    axes.set_axis_off()
    axes.set_ylim(len(labels) - 0.5, -0.5)
    along, down = axes.get_xaxis_transform(), axes.get_yaxis_transform()
    axes.vlines(ticks, 0, 1, transform=along, colors=GRID, linewidth=0.8, zorder=0.5)
    axes.plot([0, 0], [0, 1], transform=axes.transAxes, color=INK, linewidth=0.8, clip_on=False)
    for row, label in enumerate(labels):
        beside = moved(axes, down, -_BESIDE, 0)
        axes.text(0, row, label, transform=beside, ha="right", va="center", fontsize=size)
    for tick in ticks:
        below = moved(axes, along, 0, -_BESIDE)
        axes.text(tick, 0, f"{tick:,.10g}", transform=below, ha="center", va="top")
    below = moved(axes, axes.transAxes, 0, -LABEL_BELOW)
    drawn = axes.text(0.5, 0, words, transform=below, ha="center", va="top", fontsize=9)
    drawn.set(gid=WORDS, in_layout=False)


def stacked_medians(whole: SummaryTable) -> tuple[dict[str, list[float]], list[float]]:
    """Split a phases table into lengths per phase and the totals, in seconds.

    A phase without a value has length 0. Medians of parts need not add up to that of the whole.
    """
    totals = [summary.median if summary else 0.0 for summary in whole.columns[-1].summaries]
    parts = {
        column.measure.phase: [s.median if s else 0.0 for s in column.summaries]
        for column in whole.columns[:-1]
    }
    return parts, totals


def interval_words(summaries: Sequence[Summary]) -> str:
    """Say what a bar and its whisker are: ``median of n = 3, whisker: range``."""
    counts = sorted({summary.n for summary in summaries})
    if counts == [1]:
        return "n = 1, spread unknown"
    n = str(counts[0]) if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    reached = {summary.coverage >= CONFIDENCE for summary in summaries}
    if reached == {True}:
        return f"median of n = {n}, whisker: 95% interval"
    if reached == {False}:
        return f"median of n = {n}, whisker: range"
    return f"median of n = {n}\nwhisker: 95% interval, of fewer than 6 the range"


class _TextInside(Text):
    """A text in the middle of a bar, drawn where the bar is wider than the text."""

    def __init__(self, axes: Axes, bar: Bbox, text: str, color: str) -> None:
        x, y = (bar.x0 + bar.x1) / 2, (bar.y0 + bar.y1) / 2
        super().__init__(x, y, text, color=color, fontsize=8.5, ha="center", va="center")
        self.set_in_layout(False)
        self._bar = TransformedBbox(bar, axes.transData)

    def draw(self, renderer: RendererBase) -> None:
        """Draw it, or nothing."""
        if self.get_window_extent(renderer).width <= _INSIDE * self._bar.width:
            super().draw(renderer)


def _value_label(axes: Axes, row: int, end: float, text: str) -> None:
    axes.annotate(text, (end, row), (5, 0), textcoords="offset points", va="center")


def _frame_bars(axes: Axes, cells: Sequence[CellView], right: float, words: str) -> None:
    """Frame bars that begin at zero, up to `right`."""
    right = right if right > 0 else 1
    axes.set_xlim(0, right)
    ticks = ticks_within(MaxNLocator(5, steps=[1, 2, 5, 10]), 0, right)
    frame_rows(axes, [_two_lines(cell.label) for cell in cells], ticks, words)


def _two_lines(label: str) -> str:
    return "\n".join(textwrap.fill(part, 26) for part in label.split(" · ", 1))


def _hatch(kind: int) -> str:
    return HATCHES[kind % len(HATCHES)]


def _saved_svg(figure: Figure) -> str:
    target = io.StringIO()
    figure.savefig(target, format="svg", metadata={"Date": None})
    return target.getvalue()


def _saved_png(canvas: FigureCanvasAgg) -> bytes:
    """In 256 colours: half the bytes in a third of the time, without a visible difference."""
    canvas.draw()
    size = canvas.get_width_height()
    picture = Image.frombytes("RGB", size, canvas.buffer_rgba(), "raw", "RGBX")
    # Colours are chosen from every fourth pixel: choosing them takes most of the time.
    sample = picture.resize((size[0] // 4, size[1] // 4), Image.Resampling.NEAREST)
    colours = sample.quantize(256, method=Image.Quantize.FASTOCTREE, dither=Image.Dither.NONE)
    few = picture.quantize(palette=colours, dither=Image.Dither.NONE)
    target = io.BytesIO()
    # Runs of one colour are found in less time, and packed smaller, than repeated patterns.
    few.save(target, format="png", compress_level=1, compress_type=zlib.Z_RLE)
    return target.getvalue()


def _without(text: str, ids: Container[str], *, top: float, rest: float) -> str:
    """Cut a horizontal strip out of an SVG, which is cheaper than to draw the strip.

    Args:
        text: SVG as matplotlib writes it.
        ids: of groups that are left out, with what they hold.
        top: where the strip begins, as a share of the height.
        rest: how high it is, as a share of the height.
    """
    root = ET.fromstring(text)  # noqa: S314 - our own output, names in it are escaped
    for parent in list(root.iter()):
        for child in list(parent):
            if child.get("id") in ids:
                parent.remove(child)
    _, _, width, height = map(float, root.attrib["viewBox"].split())
    root.set("viewBox", f"0 {top * height:.5g} {width:g} {rest * height:.5g}")
    root.set("height", f"{rest * height:.5g}pt")
    ET.register_namespace("", "http://www.w3.org/2000/svg")
    return ET.tostring(root, encoding="unicode")


@contextmanager
def _quiet_style() -> Iterator[None]:
    """House style; a letter that the font lacks is drawn as a box, without a word on stderr."""
    with mpl.rc_context(_STYLE), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        yield
