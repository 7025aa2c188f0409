"""The site as its readers see it: in Chromium, on a phone and a laptop, in light and in dark.

Some pages of a site that arithmetic made, with every section and hostile names, and each page of
the site of the runs that are published.
"""

from __future__ import annotations

import os
import resource
from dataclasses import dataclass
from pathlib import Path

import browser
import pytest
from site_cases import Nesting, broken_links
from synthetic_published import RUN_ID

from keymark.reports.site import model
from keymark.reports.site.build import build

pytestmark = [
    pytest.mark.slow,
    pytest.mark.xdist_group("site"),
    pytest.mark.skipif(browser.chromium() is None, reason="no Chromium on this machine"),
]

RESULTS = Path(__file__).parents[2] / "results"
PHONE, LAPTOP = 400, 1280
LOOKS = [(width, dark) for width in (PHONE, LAPTOP) for dark in (False, True)]
PAGES = (
    *("index.html", "write.html", "growth.html", "published.html", "formats.html", "planner.html"),
    *("history.html", "method.html"),
    *(f"runs/{name}/index.html" for name in (RUN_ID, "m1", "hostile", "formats")),
)
OURS = (
    *(each.href for each in model.PAGES),
    *(f"runs/{path.parent.name}/index.html" for path in sorted(RESULTS.glob("*/run.json"))),
)


@pytest.fixture(scope="module")
def chromium():
    with browser.started() as program:
        yield program


@pytest.fixture
def out(site):
    return site.index.parent


@dataclass(frozen=True)
class Ours:
    """The site of the runs that are published, and the processor seconds that it took."""

    out: Path
    spent: float


def built(out):
    before = processor_seconds()
    site = build(RESULTS, out)
    assert site.left_out == ()
    return Ours(out=site.index.parent, spent=processor_seconds() - before)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    return built(tmp_path_factory.mktemp("ours") / "public")


@pytest.fixture
def ours(made):
    return made.out


@pytest.fixture(scope="module")
def unlike(made):
    """Pages on which some element has a parent that it has on no smaller page."""
    paths, known, found = made.out.rglob("*.html"), set(), set()
    for path in sorted(paths, key=lambda path: (path.stat().st_size, path)):
        if not (pairs := Nesting(path.read_text(encoding="utf-8")).pairs) <= known:
            known |= pairs
            found.add(str(path.relative_to(made.out)))
    return found


def processor_seconds():
    """Of this process and of its workers that have ended."""
    kinds = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    return sum(used.ru_utime + used.ru_stime for used in map(resource.getrusage, kinds))


def assert_fits(page, width, dark, *, rules=False):
    seen = page.see(width=width, dark=dark, rules=rules)
    assert seen.width == width
    assert (seen.content, seen.wide) == (width, [])
    return seen


def assert_readable(page, width, dark):
    seen = assert_fits(page, width, dark, rules=True)
    assert seen.violations == []
    assert seen.passes > 15


@pytest.mark.parametrize("name", PAGES)
def test_a_page_fits_and_everybody_can_read_it(out, chromium, name):
    with browser.opened(chromium, out / name) as page:
        for width, dark in LOOKS:
            assert_readable(page, width, dark)
        assert page.console == []


@pytest.mark.parametrize("name", OURS)
def test_our_site_can_be_read(ours, unlike, chromium, name):
    assert (ours / name).stat().st_size < model.MOST_BYTES
    with browser.opened(chromium, ours / name) as page:
        for width, dark in LOOKS:
            # axe-core takes most of the time: it checks one page with each kind of element, once at
            # each width and in each scheme. `make test-engines` has it check all pages.
            if name in unlike and (width == LAPTOP) == dark:
                assert_readable(page, width, dark)
            else:
                assert_fits(page, width, dark)
        assert page.console == []


@pytest.mark.parametrize("name", OURS)
def test_axe_core_finds_nothing_on_any_page(ours, chromium, name):
    with browser.opened(chromium, ours / name) as page:
        for width, dark in LOOKS:
            assert_readable(page, width, dark)


def test_our_site_is_built_in_a_minute(made, tmp_path):
    # Of processor time, spread over the cores. Other processes share caches with the build, and
    # only add to its time: where one build takes longer, a second one decides.
    most = 60 * (os.cpu_count() or 1)
    assert made.spent < most or built(tmp_path / "public").spent < most


def test_no_link_of_our_site_is_broken(ours):
    assert broken_links(ours) == []
    pages = {str(path.relative_to(ours)) for path in ours.rglob("*.html")}
    assert pages == set(OURS)
