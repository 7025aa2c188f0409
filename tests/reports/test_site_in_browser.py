"""The site as its readers see it: in Chromium, on a phone and a laptop, in light and in dark."""

from __future__ import annotations

import browser
import pytest
from synthetic_published import RUN_ID

pytestmark = [
    pytest.mark.slow,
    pytest.mark.xdist_group("site"),
    pytest.mark.skipif(browser.chromium() is None, reason="no Chromium on this machine"),
]

PHONE, LAPTOP = 400, 1280
PAGES = (
    *("index.html", "write.html", "growth.html", "published.html", "method.html"),
    *(f"runs/{name}/index.html" for name in (RUN_ID, "m1", "hostile")),
)


@pytest.fixture
def out(site):
    return site.index.parent


@pytest.mark.parametrize("page", PAGES)
def test_the_console_stays_silent(out, page, tmp_path):
    assert browser.console(out / page, tmp_path) == []


@pytest.mark.parametrize("page", PAGES)
@pytest.mark.parametrize(("width", "dark"), [(PHONE, True), (LAPTOP, False)])
def test_the_page_fits_and_everybody_can_read_it(out, page, width, dark, tmp_path):
    seen = browser.see(out / page, tmp_path, width=width, dark=dark)
    assert seen.width == width
    assert (seen.content, seen.wide) == (width, [])
    assert seen.violations == []
    assert seen.passes > 15
