"""A stand-alone SVG into one that can sit inside a page, among others, in light and in dark."""

from __future__ import annotations

import re
from xml.etree import ElementTree as ET

from keymark.reports.render.charts import GRID, INK

_SVG = "http://www.w3.org/2000/svg"
_HREF = "{http://www.w3.org/1999/xlink}href"
_REFERENCE = re.compile(r"url\(#([^)]+)\)")


def inline(text: str, *, prefix: str, label: str) -> str:
    """Make an inline, labelled image of a chart.

    Ids get a prefix (a page holds several charts), those that nothing refers to go, as do
    matplotlib's style sheet, which would leak into the page, and fixed sizes. Ink and grid take
    the page's colours, fonts the page's fonts.

    Args:
        text: SVG as `charts` draws it.
        prefix: unique on the page.
        label: the text for a reader who does not see the chart.
    """
    root = ET.fromstring(text)  # noqa: S314 - our own output, names in it are escaped
    _drop(root, {f"{{{_SVG}}}metadata", f"{{{_SVG}}}style"})
    used = _references(root)
    for element in root.iter():
        _localize(element, prefix, used)
    for size in ("width", "height"):
        root.attrib.pop(size, None)
    root.attrib.update({"role": "img", "aria-label": label, "class": "chart"})
    ET.register_namespace("", _SVG)
    return ET.tostring(root, encoding="unicode")


def _drop(element: ET.Element, tags: set[str]) -> None:
    for child in list(element):
        if child.tag in tags:
            element.remove(child)
        else:
            _drop(child, tags)


def _references(root: ET.Element) -> set[str]:
    used: set[str] = set()
    for element in root.iter():
        for name, value in element.attrib.items():
            used.update(_REFERENCE.findall(value))
            if name == _HREF:
                used.add(value.removeprefix("#"))
    return used


def _localize(element: ET.Element, prefix: str, used: set[str]) -> None:
    for name, value in list(element.attrib.items()):
        if name == "id":
            if value in used:
                element.set("id", f"{prefix}-{value}")
            else:
                del element.attrib["id"]
        elif name == _HREF:
            del element.attrib[_HREF]
            element.set("href", f"#{prefix}-{value.removeprefix('#')}")
        else:
            local = _REFERENCE.sub(rf"url(#{prefix}-\1)", value)
            local = re.sub(r"\s*font-family:[^;]*;?|(?<=px) '[^;]*(?=;|$)", "", local)
            element.set(name, local.replace(INK, "currentColor").replace(GRID, "var(--grid)"))
