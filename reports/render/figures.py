"""A chart as a page holds it: picture, words and numbers."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from keymark.reports.render import svg
from keymark.reports.render.charts import Drawing, Lettering
from keymark.reports.render.files import write
from keymark.reports.render.grids import Grid


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """One chart with its table.

    Attributes:
        key: name of its files and anchor.
        title: heading.
        label: what it shows, for those who do not see it.
        drawing: the picture in all forms.
        grid: the numbers behind it.
    """

    key: str
    title: str
    label: str
    drawing: Drawing
    grid: Grid

    def inline(self, prefix: str = "", bare_svg: str = "") -> str:
        """The picture as it stands in a page.

        Args:
            prefix: unique on the page; that of the key where it is not given.
            bare_svg: the picture without title; drawn anew where it is not given.
        """
        bare = bare_svg or self.drawing.bare_svg
        return svg.inline(bare, prefix=prefix or self.key, label=self.label)


def chart(key: str, title: str, label: str, drawing: Drawing, numbers: Grid) -> Chart:
    """Make a chart fit for a page; `key` must be unique on it."""
    return Chart(key=key, title=title, label=label, drawing=drawing, grid=numbers)


def write_charts(folder: Path, charts: Iterable[Chart], lettering: Lettering) -> dict[str, str]:
    """Write charts as SVG and PNG into a folder that `make_folder` made.

    Returns:
        What `Chart.inline` takes, by the key of a chart: the picture without title, as SVG.
    """
    bare = {}
    for chart in charts:
        pictures = chart.drawing.pictures(lettering)
        write(folder / f"{chart.key}.svg", pictures.svg)
        write(folder / f"{chart.key}.png", pictures.png)
        bare[chart.key] = pictures.bare_svg
    return bare
