"""A page in a real browser: what its console said, how wide it is, what axe-core found.

Chromium runs without a driver: a script is put into a copy of the page, and its answer is read
from the document that Chromium prints. The copy stands in a frame of the wanted width, because no
window is narrower than 500 pixels. The page's own policy allows no script, so the console is read
from the page as it is.
"""

from __future__ import annotations

import html
import json
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

_FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-extensions",
    "--disable-sync",
    "--hide-scrollbars",
    "--no-first-run",
)
_NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
_LIMIT_S = 240
_CONSOLE = re.compile(r"CONSOLE[:(]\S*\s*(.*)")
POLICY = re.compile(r'<meta http-equiv="Content-Security-Policy"[^>]*>')
_DARK = "@media (prefers-color-scheme: dark)"
_LEVELS = ("wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "best-practice")

_ASK = """
const say = (found) => parent.postMessage(JSON.stringify(found), "*");
const wide = [...document.querySelectorAll("body *")]
  .filter((e) => !e.closest(".scroll") && !e.closest("svg"))
  .filter((e) => e.getBoundingClientRect().right > document.documentElement.clientWidth + 1)
  .map((e) => e.outerHTML.slice(0, 120));
const root = document.documentElement;
const seen = (e) => getComputedStyle(e).display !== "none";
const hints = [...document.querySelectorAll(".hint")].filter(seen).length;
const page = {width: root.clientWidth, hints, content: root.scrollWidth, wide: wide.slice(0, 5),
  paper: getComputedStyle(document.body).backgroundColor};
const rules = {"color-contrast": {enabled: CONTRAST}};
axe.run(document, {runOnly: LEVELS, rules, resultTypes: ["violations"]}).then(
  (found) => say({...page, passes: found.passes.length, violations: found.violations.map(
    (v) => [v.id, v.nodes.length, v.nodes.slice(0, 3).map((n) => n.html.slice(0, 160))])}),
  (error) => say({...page, error: String(error)}));
"""


_FRAME = """<!doctype html>
<title>frame</title>
<pre id="told"></pre>
<script>
addEventListener("message", (e) => { document.getElementById("told").textContent = e.data; });
</script>
<iframe title="page" src="SOURCE" style="border: 0; width: WIDTHpx; height: 2000px"></iframe>
"""


@dataclass(frozen=True, slots=True)
class Seen:
    """What a browser made of a page.

    Attributes:
        width: of the frame, in CSS pixels.
        content: of what is in it; more than the frame means scrolling sideways.
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


def console(page: Path, work: Path) -> list[str]:
    """What the page as it is says on the browser's console."""
    done = run(page, work, "--dump-dom", "--enable-logging=stderr", "--v=0", width=1280)
    return [match.group(1) for match in map(_CONSOLE.search, done.stderr.splitlines()) if match]


def see(page: Path, work: Path, *, width: int, dark: bool, contrast: bool = True) -> Seen:
    """Open a copy of the page with all its details unfolded, and let axe-core look at it.

    Args:
        page: the page.
        work: folder for the copy.
        width: of the frame, in CSS pixels.
        dark: the scheme.
        contrast: whether to look at the contrast of each text, which takes most of the time.
    """
    copy = work / f"seen-{width}-{'dark' if dark else 'light'}.html"
    opened = _with_script(page.read_text(encoding="utf-8"), dark=dark, contrast=contrast)
    copy.write_text(opened, encoding="utf-8")
    frame = work / f"frame-{copy.name}"
    text = _FRAME.replace("SOURCE", copy.name).replace("WIDTH", str(width))
    frame.write_text(text, encoding="utf-8")
    done = run(frame, work, "--dump-dom", width=max(width + 40, 600))
    told = re.search(r'<pre id="told">(.+?)</pre>', done.stdout, re.DOTALL)
    assert told, f"the browser gave no answer: {done.stderr[-2000:]}"
    answer: Mapping[str, Any] = json.loads(html.unescape(told.group(1)))
    assert "error" not in answer, answer["error"]
    return Seen(**answer)


def _with_script(text: str, *, dark: bool, contrast: bool) -> str:
    opened, policies = POLICY.subn("", text)
    assert policies == 1
    assert _DARK in opened
    # Neither flags nor settings of headless Chromium choose the scheme in all of its versions.
    opened = opened.replace(_DARK, "@media all" if dark else "@media not all")
    opened = opened.replace(
        "color-scheme: light dark", f"color-scheme: {'dark' if dark else 'light'}"
    )
    opened = opened.replace("<details", "<details open")
    ask = _ASK.replace("LEVELS", json.dumps(list(_LEVELS)))
    ask = ask.replace("CONTRAST", json.dumps(contrast))
    return opened.replace("</body>", f"<script>{_axe()}</script><script>{ask}</script></body>")


@cache
def _axe() -> str:
    code = (files("axe_core_python") / "axe.min.js").read_text(encoding="utf-8")
    return code.replace("</script", "<\\/script")


def run(page: Path, work: Path, *flags: str, width: int) -> subprocess.CompletedProcess[str]:
    """Run Chromium once, on a profile of its own."""
    program = chromium()
    assert program
    return subprocess.run(
        [
            program,
            *_FLAGS,
            *flags,
            f"--user-data-dir={work / 'profile'}",
            f"--window-size={width},2000",
            "--virtual-time-budget=60000",
            page.as_uri(),
        ],
        capture_output=True,
        text=True,
        timeout=_LIMIT_S,
        check=False,
    )
