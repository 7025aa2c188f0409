"""Where the axes of a chart stand, so that there is room for what is written around them.

matplotlib's own layouts measure everything at least twice, which takes as long as to draw a chart.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure, SubFigure
from matplotlib.text import Text
from matplotlib.transforms import Bbox, ScaledTranslation, Transform

LABEL_BELOW = 18
"""Of the label of a horizontal axis, in points below it: its ticks' numbers stand between."""

WORDS = "words"
"""Id of a text that stands below an axis in place of its label."""

# Between what is written, in inches.
_PAD = 0.04


def lay_out(figure: Figure) -> None:
    """Place the axes of a chart one below the other, within what is written around them.

    Places are rounded: their last digits differ between runs.
    """
    body: Figure | SubFigure = figure.subfigs[1] if figure.subfigs else figure
    for axes in body.axes:
        # Without a place of its own, a label has its ticks measured anew in each drawing.
        axes.xaxis.set_label_coords(0.5, 0, moved(axes, axes.transAxes, 0, -LABEL_BELOW))
        axes.yaxis.set_label_coords(0, 0.5, axes.transAxes)
        axes.set_position((0.3, 0.3, 0.6, 0.6))
    _place(figure, body)
    if any(axes.axison for axes in body.axes):
        # Names at the ends of lines have moved with the axes.
        _place(figure, body)
    for axes in body.axes:
        for words in _words_below(axes):
            beyond = words.get_window_extent().x1 - body.bbox.width + _PAD * figure.dpi
            if beyond > 0:
                left = moved(axes, words.get_transform(), -beyond * 72 / figure.dpi, 0)
                words.set_transform(left)


def _place(figure: Figure, body: Figure | SubFigure) -> None:
    """Place axes as what is written around them where they are now leaves room for them."""
    around = [_margins(axes) for axes in body.axes]
    width, height = body.bbox.size
    pad = _PAD * figure.dpi
    left = max(each.left for each in around) + pad
    right = width - max(each.right for each in around) - pad
    written = sum(legend.get_window_extent().height + pad for legend in body.legends)
    written += sum(each.above + each.below + 2 * pad for each in around)
    each_height, top = (height - written) / len(around), height
    for axes, margins in zip(body.axes, around, strict=True):
        top -= pad + margins.above
        inside = np.array([[left, top - each_height], [right, top]]) / (width, height)
        axes.set_position(Bbox(inside.round(5)))
        top -= each_height + margins.below + pad


@dataclass(frozen=True, slots=True, kw_only=True)
class _Margins:
    """How far what is written around axes reaches beyond them, in pixels."""

    left: float
    right: float
    above: float
    below: float


def _margins(axes: Axes) -> _Margins:
    inside = axes.bbox
    whole = axes.get_tightbbox(for_layout_only=True) or inside
    lowest = min([whole.y0, *(words.get_window_extent().y0 for words in _words_below(axes))])
    return _Margins(
        left=inside.x0 - whole.x0,
        right=whole.x1 - inside.x1,
        above=whole.y1 - inside.y1,
        below=inside.y0 - lowest,
    )


def _words_below(axes: Axes) -> list[Text]:
    return [text for text in axes.texts if text.get_gid() == WORDS]


def moved(axes: Axes, place: Transform, right: float, up: float) -> Transform:
    """A place, moved by points."""
    return place + ScaledTranslation(right / 72, up / 72, axes.figure.dpi_scale_trans)
