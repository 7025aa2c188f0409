"""A page in a real browser: what its console said, how wide it is, what axe-core found.

Playwright drives the Chromium of the machine. A script that a page is asked by is not bound by the
page's own policy, which allows none.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, Page, sync_playwright

_NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
_LIMIT_MS = 240_000
_HEIGHT = 2_000
_POLICY = 'meta[http-equiv="Content-Security-Policy"]'
_DARK = "@media (prefers-color-scheme: dark)"
_LEVELS = ("wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "best-practice")

_UNFOLD = """() => {
  for (const part of document.querySelectorAll("details")) part.open = true;
}"""
_ASK = """async (levels) => {
  const root = document.documentElement;
  const wide = [...document.querySelectorAll("body *")]
    .filter((e) => !e.closest(".scroll") && !e.closest("svg"))
    .filter((e) => e.getBoundingClientRect().right > root.clientWidth + 1)
    .map((e) => e.outerHTML.slice(0, 120));
  const seen = (e) => getComputedStyle(e).display !== "none";
  const hints = [...document.querySelectorAll(".hint")].filter(seen).length;
  const found = levels.length
    ? await axe.run(document, {runOnly: levels, resultTypes: ["violations"]})
    : {violations: [], passes: []};
  const violations = found.violations.map(
    (v) => [v.id, v.nodes.length, v.nodes.slice(0, 3).map((n) => n.html.slice(0, 160))]);
  return {width: root.clientWidth, hints, content: root.scrollWidth, wide: wide.slice(0, 5),
    paper: getComputedStyle(document.body).backgroundColor, passes: found.passes.length,
    violations};
}"""


@dataclass(frozen=True, slots=True)
class Seen:
    """What a browser made of a page.

    Attributes:
        width: of the window, in CSS pixels.
        content: of what is in it; more than the window means scrolling sideways.
        hints: how many tables say that they go on to the right.
        wide: the first elements that stand out to the right.
        paper: the background as a CSS colour.
        passes: rules of axe-core that hold.
        violations: those that do not, with how often and where.
    """

    width: int
    content: int
    hints: int
    wide: Sequence[str]
    paper: str
    passes: int
    violations: Sequence[Any]


def chromium() -> str | None:
    """The browser's program; None where there is none."""
    return next((found for name in _NAMES if (found := shutil.which(name))), None)


@contextmanager
def started() -> Iterator[Browser]:
    """Chromium, without a window."""
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=chromium(), args=["--hide-scrollbars"])
        yield browser
        browser.close()


@dataclass(frozen=True, slots=True)
class Opened:
    """A page that is open, with all its details unfolded.

    Attributes:
        page: the open page.
        console: what it said on the browser's console.
    """

    page: Page
    console: list[str]

    def see(self, *, width: int, dark: bool, rules: bool = True) -> Seen:
        """Lay it out, and let axe-core look at it.

        Args:
            width: of the window, in CSS pixels.
            dark: the scheme.
            rules: whether axe-core looks at it, which takes most of the time.
        """
        self.page.set_viewport_size({"width": width, "height": _HEIGHT})
        self.page.emulate_media(color_scheme="dark" if dark else "light")
        return Seen(**self.page.evaluate(_ASK, list(_LEVELS) if rules else []))


@contextmanager
def opened(browser: Browser, path: Path) -> Iterator[Opened]:
    """The page of a file, which has a policy and a dark scheme."""
    page = browser.new_page()
    page.set_default_timeout(_LIMIT_MS)
    console: list[str] = []
    page.on("console", lambda message: console.append(message.text))
    page.on("pageerror", lambda error: console.append(str(error)))
    page.goto(path.as_uri())
    assert page.locator(_POLICY).count() == 1
    assert _DARK in path.read_text(encoding="utf-8")
    page.evaluate(_UNFOLD)
    page.evaluate(_axe())
    yield Opened(page, console)
    page.close()


@cache
def _axe() -> str:
    return (files("axe_core_python") / "axe.min.js").read_text(encoding="utf-8")
