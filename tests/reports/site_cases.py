"""A site of runs that have every section, though arithmetic made them."""

from __future__ import annotations

import shutil
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

from synthetic_matrix import matrix
from synthetic_published import RUN_ID, repeated, slower_tag
from synthetic_runs import INFO, beats, quickstart, sample, write_run
from test_engines_part import BOTH
from test_engines_part import run_of as engines_of
from test_formats_part import WRITES
from test_formats_part import run_of as formats_of
from test_model_part import lookups, noisy
from test_publish import HOSTILE

from keymark.reports.model import projection
from keymark.reports.published.check import Checked, Examined
from keymark.reports.published.provenance import FILE, Provenance
from keymark.reports.sections.parts import Parts
from keymark.reports.site import build

STEADY = [0.010, 0.0105, 0.0101] * 20


def unexamined(path: Path, said: Provenance) -> Examined:
    """A run as if it were right."""
    (run,) = projection.load([path])
    checked = Checked(path=path, provenance=said, findings=())
    return Examined(checked=checked, right=(run, Parts.of([run])))


def runs_of_all_kinds(results: Path, original: Path) -> None:
    """Run folders with every section, failed cells and hostile names; one was repeated."""
    shutil.copytree(original, results / RUN_ID)
    again = repeated(results.with_name("repeated"), slower_tag, run_id="again")
    shutil.copytree(again, results / "again")
    label = 'from = "contributed"\nby = "A. Stranger"\nrepeated = "again"\n'
    ours = '[runs.again]\nfrom = "maintainers"\n'
    (results / FILE).write_text(f"[runs.{RUN_ID}]\n{label}{ours}")
    quickstart(results / "first", run_id="first", repetitions=6)
    beats(results / "first", STEADY)
    grown = matrix(results / "m1")
    beats(grown, STEADY)
    model = lookups(wall=noisy, repetitions=2, run_id="model")
    write_run(results / "model", model, {"run_id": "model"})
    engines_of(results / "r1", BOTH)
    formats_of(results / "formats", WRITES, run_id="formats")
    hostile = {"run_id": "hostile", "cell": HOSTILE, "engine": HOSTILE, "index": HOSTILE}
    taken = [sample(**hostile, step=step, round=1) for step in ("lookup", "upsert_1", HOSTILE)]
    scenario = INFO["scenario"] | {"name": HOSTILE}
    write_run(results / "hostile", taken, INFO | {"run_id": "hostile", "scenario": scenario})


def site_of_all_kinds(work: Path, original: Path) -> build.Site:
    """The site of these runs."""
    runs_of_all_kinds(work / "results", original)
    return build.build(work / "results", work / "public", unexamined)


class Page(HTMLParser):
    """The tags of a page, with their attributes."""

    def __init__(self, text):
        super().__init__()
        self.tags = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def of(self, name):
        return [attrs for tag, attrs in self.tags if tag == name]

    @property
    def ids(self):
        return [attrs["id"] for _, attrs in self.tags if "id" in attrs]


class Nesting(HTMLParser):
    """Which elements of a page are in which: pairs of (tag, class)."""

    def __init__(self, text):
        super().__init__()
        self.pairs, self._around = set(), []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        element = tag, dict(attrs).get("class", "")
        self.pairs.add((self._around[-1] if self._around else None, element))
        if tag not in ("br", "col", "hr", "img", "input", "link", "meta", "wbr"):
            self._around.append(element)

    def handle_endtag(self, tag):
        while self._around and self._around.pop()[0] != tag:
            pass


def broken_links(out: Path) -> list[str]:
    """Links of a site's pages that leave it, or lead to no file or no anchor."""
    pages = {path: Page(path.read_text(encoding="utf-8")) for path in out.resolve().rglob("*.html")}
    broken = []
    for path, page in pages.items():
        for link in (attrs["href"] for attrs in page.of("a")):
            target, _, anchor = link.partition("#")
            other = (path.parent / unquote(target)).resolve() if target else path
            is_anchor = not anchor or (other in pages and anchor in pages[other].ids)
            if ":" in target or not other.is_file() or not is_anchor:
                broken.append(f"{path.relative_to(out.resolve())}: {link}")
    return broken
