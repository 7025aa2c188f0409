"""The page as its readers see it: in Chromium, on a phone and a laptop, in light and in dark."""

from __future__ import annotations

from types import SimpleNamespace

import browser
import pytest
from synthetic_matrix import matrix
from synthetic_runs import beats, quickstart, write_run
from synthetic_survey import healthy, record_index, write
from test_engines_part import BOTH
from test_engines_part import run_of as engines_of
from test_model_part import lookups, noisy
from test_publish import HOSTILE, small_run
from test_virtual_part import cells_of
from test_virtual_part import run_of as virtual_of

from keymark import cli as run_bench
from keymark.reports.advise import page as advice_page
from keymark.reports.advise.advice import advise
from keymark.reports.advise.situation import Asked
from keymark.reports.plan import calibration
from keymark.reports.publish import publish

pytestmark = [
    pytest.mark.slow,
    pytest.mark.xdist_group("page"),
    pytest.mark.skipif(browser.chromium() is None, reason="no Chromium on this machine"),
]

PHONE, LAPTOP = 400, 1280
STEADY = [0.010, 0.0105, 0.0101] * 20
LIGHT, DARK = "rgb(255, 255, 255)", "rgb(18, 22, 28)"


@pytest.fixture(scope="module")
def largest(tmp_path_factory):
    """The report of the largest built-in scenario: seven indexes, 126 cells."""
    path = matrix(tmp_path_factory.mktemp("largest") / "run")
    beats(path, STEADY)
    return publish([path])


@pytest.fixture(scope="module")
def everything(tmp_path_factory):
    """Six runs side by side: every section of a page, failed cells and hostile names."""
    work = tmp_path_factory.mktemp("everything")
    engines = {"native": 1.0, "hudi@0.15.0": 8.0}
    paths = [
        quickstart(work / "first"),
        matrix(work / "grown", indexes=("record", "bloom"), engines=engines, shapes=("random",)),
        write_run(work / "model", lookups(wall=noisy, repetitions=2), {"run_id": "r1"}),
        virtual_of(work / "virtual", cells_of()),
        engines_of(work / "engines", BOTH),
        small_run(work / "failed"),
        quickstart(work / "hostile", run_id=HOSTILE),
    ]
    for path in (paths[0], paths[-1]):
        beats(path, [0.010, 0.014] * 20)
    return publish(paths, work / "out")


@pytest.fixture(scope="module")
def planned(tmp_path_factory):
    """The page of `plan`, by the package's own calibration."""
    path = tmp_path_factory.mktemp("planned") / "plan.html"
    words = ("--records", "50000000", "--batch", "20000", "--keys-stay", "--html", str(path))
    assert run_bench.main(["plan", *words]) == 0
    return SimpleNamespace(index=path)


@pytest.fixture(scope="module")
def advised(tmp_path_factory):
    """The page of `advise` of a table with something to change and something to watch."""
    writes = tuple(write(n) for n in range(200))
    survey = healthy(name=HOSTILE, record_index=record_index(2), writes=writes)
    path = tmp_path_factory.mktemp("advised") / "advice.html"
    made = advise(survey, Asked(), calibration.load())
    path.write_text(advice_page.html(made), encoding="utf-8")
    return SimpleNamespace(index=path)


def test_the_largest_scenario_has_126_cells(largest):
    assert largest.report.checked == 126
    assert all((largest.report.growths, largest.report.noises, largest.report.choices))


def test_the_page_of_everything_has_every_section(everything):
    report = everything.report
    parts = (report.engines, report.virtuals, report.shapes, report.growths, report.models)
    assert all((*parts, report.noises, report.charts, report.failed, report.beside))
    assert any(run.warnings for run in report.runs)


@pytest.fixture(scope="module")
def chromium():
    with browser.started() as program:
        yield program


@pytest.mark.parametrize(
    ("page", "looks"),
    [
        ("largest", [(PHONE, False), (LAPTOP, True)]),
        ("everything", [(PHONE, True), (LAPTOP, False)]),
        ("planned", [(PHONE, True), (LAPTOP, False)]),
        ("advised", [(PHONE, False), (LAPTOP, True)]),
    ],
    ids=["largest", "everything", "planned", "advised"],
)
def test_the_page_fits_and_everybody_can_read_it(page, looks, request, chromium):
    with browser.opened(chromium, request.getfixturevalue(page).index) as opened:
        for width, dark in looks:
            seen = opened.see(width=width, dark=dark)
            assert seen.width == width
            assert (seen.content, seen.wide) == (width, [])
            # A phone shows no scrollbar before it is scrolled: tables say that they go on.
            assert (seen.hints > 0) is (width == PHONE and page not in ("planned", "advised"))
            assert seen.violations == []
            assert seen.passes > 20
            assert seen.paper == (DARK if dark else LIGHT)
        assert opened.console == []


def test_what_is_wrong_with_a_page_is_seen(chromium, tmp_path):
    path = tmp_path / "bad.html"
    path.write_text(
        '<!doctype html><html><head><meta http-equiv="Content-Security-Policy" content="">'
        "<style>@media (prefers-color-scheme: dark) {}</style></head><body>"
        '<p style="width: 900px; color: #ccc; background: #fff">pale and wide</p><img src="data:,">'
        "<script>console.error('said'); missing()</script></body></html>"
    )
    with browser.opened(chromium, path) as page:
        seen = page.see(width=PHONE, dark=False)
        said = " ".join(page.console)
    assert "said" in said
    assert "missing is not defined" in said
    assert seen.content >= 900
    assert "pale and wide" in seen.wide[0]
    rules = {rule for rule, *_ in seen.violations}
    assert {"color-contrast", "image-alt", "html-has-lang", "document-title"} <= rules
