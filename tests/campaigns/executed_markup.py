"""Which pages run a script that somebody put into a name: asked of a real browser.

Each page is shown in a frame, without its policy against scripts, which would hide what the page
itself lets through. The function that hostile markup calls is there, and tells. One frame more does
call it, so that silence means something.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "reports"))

from browser import POLICY, chromium, run

_TOLD = re.compile(r'<pre id="told">([^<]*)</pre>')
_WRAPPER = """<!doctype html>
<pre id="told"></pre>
<script>
addEventListener("message", (e) => { document.getElementById("told").append(e.data + " "); });
</script>
"""


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
    control = f"<!doctype html><script>{canary}()</script>"
    frames = []
    for number, (name, text) in enumerate([*pages.items(), ("control.html", control)]):
        hook = f'<script>window.{canary} = () => parent.postMessage("{number}", "*")</script>'
        copy = folder / f"{number}{Path(name).suffix}"
        if copy.suffix == ".svg":
            hooked = re.sub(r"(<svg\b[^>]*>)", rf"\g<1>{hook}", text, count=1)
        else:
            hooked = hook + POLICY.sub("", text)
        copy.write_text(hooked, "utf-8", errors="replace")
        frames.append(f'<iframe src="{copy.name}"></iframe>')
    wrapper = folder / "wrapper.html"
    wrapper.write_text(_WRAPPER + "\n".join(frames), "utf-8")
    shown = run(wrapper, folder, "--dump-dom", width=1280).stdout
    told = _TOLD.search(shown)
    assert told is not None, shown[:2000]
    numbers = {int(number) for number in told[1].split()}
    assert len(pages) in numbers, "the browser ran no script at all"
    return [name for number, name in enumerate(pages) if number in numbers]
