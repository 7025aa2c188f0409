"""Where the time of an upsert goes: phases, and what is in none of them."""

from __future__ import annotations

import pytest
from synthetic_runs import quickstart, sample, write_run

from keymark.harness.store import results
from keymark.reports.model import projection, tables
from keymark.reports.publish import publish

OLD = {"tag": 1.0, "write": 2.0, "index": 0.5, "commit": 0.25}
NEW = {"open": 0.5, "prepare": 1.0, "place": 0.1, "services": 0.2} | OLD


def cell(engine, phases, total):
    return [
        sample(cell=f"{engine}/record", engine=engine, repetition=rep, phase=phase, value=value)
        for rep in range(3)
        for phase, value in (phases | {"total": total}).items()
    ]


def split(path, *cells):
    """Heads of the table of phases, its last row, and the sentences below it."""
    run = write_run(path, [each for made in cells for each in made])
    publish([run])
    (found,) = projection.load([run])
    shown = tables.phases(found.cells)
    medians = [round(c.summaries[0].median, 6) if c.summaries[0] else None for c in shown.columns]
    heads = [column.measure.title for column in shown.columns]
    return heads, dict(zip(heads, medians, strict=True)), tables.rest_words(found.cells)


def test_the_phases_of_reports_are_those_of_the_harness():
    assert (*tables.PHASES, "total") == results.PHASES


def test_what_is_in_no_phase_is_named_for_what_it_is(tmp_path):
    heads, medians, words = split(tmp_path / "run", cell("native", NEW, sum(NEW.values()) + 0.3))
    assert heads == [*tables.PHASES, "between phases", "total"]
    assert medians["between phases"] == 0.3
    (sentence,) = words
    assert sentence.startswith("Between phases, Keymark ")
    for name in ("report/index.html", "summary.md"):
        assert sentence in (tmp_path / "run" / name).read_text(encoding="utf-8")


def test_runs_of_revisions_with_four_phases_are_read_and_say_so(tmp_path):
    heads, medians, words = split(tmp_path / "run", cell("native", OLD, 6.0))
    assert heads == [*OLD, "not told apart", "total"]
    assert medians["not told apart"] == 2.25
    assert words[0].startswith("Not told apart, of a revision that timed four phases only")


def test_hudi_says_that_its_time_cannot_be_split(tmp_path):
    hudi = cell("hudi@1.1.1", {"tag": 2.0, "write": 2.0}, 9.0)
    heads, _, words = split(tmp_path / "run", cell("native", NEW, 6.0), hudi)
    assert "not told apart" in heads
    assert [sentence.split()[0] for sentence in words] == ["Between", "Hudi"]


def test_a_hundredth_of_the_whole_is_no_column_of_its_own(tmp_path):
    heads, _, _ = split(tmp_path / "run", cell("native", NEW, 1.005 * sum(NEW.values())))
    assert heads == [*tables.PHASES, "total"]


@pytest.mark.parametrize("phases", [{}, {"tag": 1.0}])
def test_cells_without_a_whole_or_without_phases_have_no_rest(tmp_path, phases):
    made = [each for each in cell("native", phases, 3.0) if phases == {} or each.phase != "total"]
    heads, _, words = split(tmp_path / "run", made)
    assert (heads, words) == (["total"] if phases == {} else ["tag"], [])


def test_a_quickstart_of_old_has_its_chart(tmp_path):
    chart = publish([quickstart(tmp_path / "run")]).report.charts[-1]
    assert chart.grid.heads == ("tag", "write", "index", "commit", "not told apart", "total")
    assert "not told apart" in chart.drawing.bare_svg
