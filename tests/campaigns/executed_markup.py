"""Which pages run a script that somebody put into a name: asked of a real browser.

Each page is opened without its policy against scripts, which would hide what the page itself lets
through. The function that hostile markup calls is there, and is watched. One page more does call
it, so that silence means something.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "reports"))

from browser import chromium, started


def executed(pages: Mapping[str, str], canary: str, folder: Path) -> list[str] | None:
    """Names of the pages that called a function; None without a browser.

    Args:
        pages: name, ending in .html or .svg -> text.
        canary: name of the function.
        folder: an empty one, for copies.
    """
    if chromium() is None:
        return None
    folder.mkdir(exist_ok=True)
    control = "control.html"
    found = []
    with started() as browser:
        page = browser.new_context(bypass_csp=True).new_page()
        page.add_init_script(f"window.{canary} = () => {{ window.executed = true; }}")
        shown = {**pages, control: f"<!doctype html><script>{canary}()</script>"}
        for number, (name, text) in enumerate(shown.items()):
            copy = folder / f"{number}{Path(name).suffix}"
            copy.write_text(text, "utf-8", errors="replace")
            page.goto(copy.as_uri())
            if page.evaluate("window.executed === true"):
                found.append(name)
    assert found[-1:] == [control], "the browser ran no script at all"
    return found[:-1]
