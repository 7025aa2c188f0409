"""Which pages run a script that somebody put into a name: asked of a real browser.

Each page is shown in a frame, without its policy against scripts, which would hide what the page
itself lets through. The function that hostile markup calls is there, and tells. One frame more does
call it, so that silence means something.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "reports"))

from browser import chromium

_POLICY = re.compile(r'<meta http-equiv="Content-Security-Policy"[^>]*>')
_FLAGS = ("--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage")
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
    program = chromium()
    if program is None:
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
            hooked = hook + _POLICY.sub("", text)
        copy.write_text(hooked, "utf-8", errors="replace")
        frames.append(f'<iframe src="{copy.name}"></iframe>')
    wrapper = folder / "wrapper.html"
    wrapper.write_text(_WRAPPER + "\n".join(frames), "utf-8")
    asked = [program, *_FLAGS, f"--user-data-dir={folder}/profile", "--virtual-time-budget=2000"]
    shown = subprocess.run(
        [*asked, "--dump-dom", wrapper.as_uri()], capture_output=True, check=True, timeout=120
    ).stdout.decode("utf-8", errors="replace")
    told = _TOLD.search(shown)
    assert told is not None, shown[:2000]
    numbers = {int(number) for number in told[1].split()}
    assert len(pages) in numbers, "the browser ran no script at all"
    return [name for number, name in enumerate(pages) if number in numbers]
