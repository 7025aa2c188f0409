"""The site of published runs: its pages, links, files and labels."""

from __future__ import annotations

import csv
import json
import re
import shutil
from dataclasses import replace
from types import SimpleNamespace
from urllib.parse import unquote

import pyarrow.parquet as pq
import pytest
from site_cases import Page, broken_links
from synthetic_published import RUN_ID, Copy
from synthetic_runs import quickstart, sample, write_run

from keymark import cli
from keymark.harness.store.store import RunFolder
from keymark.reports.errors import ReportError
from keymark.reports.model import projection
from keymark.reports.published import provenance
from keymark.reports.site.build import build
from keymark.reports.site.claims import claims_of
from keymark.reports.site.model import MOST_BYTES, PAGES, QUESTIONS, Spot
from keymark.reports.site.overview import index_maps

# One worker makes the site once.
pytestmark = pytest.mark.xdist_group("site")


@pytest.fixture(scope="module")
def pages(site):
    return {
        path: Page(path.read_text(encoding="utf-8")) for path in site.index.parent.rglob("*.html")
    }


def test_there_is_a_page_a_question_and_a_page_a_run(site, pages):
    out = site.index.parent
    names = {str(path.relative_to(out)) for path in pages}
    assert names == {each.href for each in PAGES} | {f"runs/{n}/index.html" for n in site.runs}
    assert len(site.runs) == 8
    assert site.left_out == ()
    assert {f"{each.key}.html" for each in QUESTIONS} <= names


def test_every_link_and_anchor_leads_somewhere(site, pages):
    assert broken_links(site.index.parent) == []
    assert all(len(page.of("a")) > len(PAGES) for page in pages.values())


def test_nothing_is_loaded_and_nothing_runs(pages):
    for path, page in pages.items():
        assert [tag for tag, _ in page.tags if tag in ("script", "img", "iframe")] == [], path
        assert [each["href"] for each in page.of("link")] == ["data:,"], path
        assert len(page.ids) == len(set(page.ids)), path
        text = path.read_text(encoding="utf-8")
        referred = set(re.findall(r"url\(#([^)]+)\)", text))
        assert referred <= set(page.ids), path
        assert "onload" not in {name for _, attrs in page.tags for name in attrs}, path
        assert "\u202e" not in text


def test_no_page_is_larger_than_a_megabyte(pages):
    sizes = {path: path.stat().st_size for path in pages}
    assert {path: size for path, size in sizes.items() if size > MOST_BYTES} == {}


def test_samples_stand_on_the_page_or_beside_it(site):
    out = site.index.parent
    small = (out / "runs" / RUN_ID / "index.html").read_text(encoding="utf-8")
    assert "<pre>schema_version,run_id,cell" in small
    assert "they are too many" not in small
    large = (out / "runs" / "m1" / "index.html").read_text(encoding="utf-8")
    assert "they are too many for this page" in large
    for run_id in site.runs:
        with (out / "runs" / run_id / "samples.csv").open(newline="") as file:
            lines = list(csv.DictReader(file))
        assert {line["run_id"] for line in lines} == {run_id}


def test_the_feeds_have_every_sample_once(site, original):
    out = site.index.parent
    with (out / "samples.csv").open(newline="") as file:
        lines = list(csv.DictReader(file))
    table = pq.read_table(out / "samples.parquet")
    assert table.num_rows == len(lines)
    assert set(table.column("run_id").to_pylist()) == set(site.runs)
    kept = RunFolder.open(original).samples()
    ours = [row for row in table.to_pylist() if row["run_id"] == RUN_ID]
    assert [row["value"] for row in ours] == [float(each.value) for each in kept]
    assert [row["verified"] for row in ours] == [each.verified for each in kept]
    assert [line["unit"] for line in lines if line["run_id"] == RUN_ID] == [s.unit for s in kept]


def test_charts_name_their_source_and_whose_the_run_is(site):
    out = site.index.parent
    for path in (out / "runs" / RUN_ID / "charts").glob("*.svg"):
        texts = " ".join(re.findall(r"<text[^>]*>([^<]*)</text>", path.read_text("utf-8")))
        assert f"run {RUN_ID}, 2026-11-26; contributed" in texts
        assert (path.with_suffix(".png")).read_bytes().startswith(b"\x89PNG")
    (drawn,) = (out / "charts").glob("map_write_latency.svg")
    assert "Source: Keymark, runs " in " ".join(
        re.findall(r"<text[^>]*>([^<]*)</text>", drawn.read_text("utf-8"))
    )


def test_the_first_page_says_which_index_and_whose_the_runs_are(site):
    text = site.index.read_text(encoding="utf-8")
    # Three shapes, three sizes and two batches of one run, and the only ones of another.
    assert "Of 19 combinations measured, " in text
    assert "contributed by A. Stranger, repeated by the maintainers" in text
    assert "contributed, not repeated by the maintainers" in text
    for run_id in site.runs:
        assert f'href="runs/{run_id}/index.html"' in text


def test_a_question_has_its_chart_first_and_one_sentence(site):
    text = (site.index.parent / "write.html").read_text(encoding="utf-8")
    parts = text.split("<section")[1:]
    assert len(parts) >= 3
    for part in parts:
        assert part.index("<svg") < part.index("</figure>") < part.index("<details>")
    assert re.search("<strong>.* (is best|joint best|no difference shown)", text)
    assert "No published run answers it yet" in (site.index.parent / "releases.html").read_text()


@pytest.mark.parametrize("page", [f"{each.key}.html" for each in QUESTIONS])
def test_every_answer_has_a_chart_with_files(site, page):
    out = site.index.parent
    text = (out / page).read_text(encoding="utf-8")
    parts = text.split("<section")[1:]
    assert text.count("The chart as <a") == len(parts)
    for link in re.findall(r'href="(runs/[^"]*/charts/[^"]*)"', text):
        assert (out / unquote(link)).is_file()


def test_both_pages_say_that_a_repetition_disagrees(site):
    runs = site.index.parent / "runs"
    said = f"Run again disagrees with {RUN_ID} in 2 of "
    for name, other in ((RUN_ID, "again"), ("again", RUN_ID)):
        text = (runs / name / "index.html").read_text(encoding="utf-8")
        assert said in text
        assert f'href="../../runs/{other}/index.html"' in text
    assert site.index.read_text(encoding="utf-8").count("; the two disagree") == 2


def test_the_history_has_a_chart_of_each_headline_of_runs_that_were_repeated(site):
    text = (site.index.parent / "history.html").read_text(encoding="utf-8")
    assert "small, 2 runs" in text
    assert text.count("<figure>") == text.count("<svg") > 3
    assert "Upsert batch" in text
    assert "No number was measured twice" in text
    for run_id in site.runs:
        assert f'href="runs/{run_id}/index.html"' in text


def entry_of(spots, run_id="r"):
    return SimpleNamespace(spots=spots, run_id=run_id)


def spot(**changes):
    fields = {
        "measure": "tag", "is_anywhere": True, "shape": "", "rows": 1000, "batch": 10,
        "first": "record", "color": "#123456", "words": "bloom takes 2.00x (1.90 to 2.10)",
    }  # fmt: skip
    return Spot(**(fields | changes))


def test_a_map_counts_who_is_fastest_where():
    ours = [spot(), spot(batch=100, color="", words="not told apart from bloom")]
    theirs = [spot(first="bloom"), spot(rows=2000, first="bucket")]
    theirs.append(spot(is_anywhere=False, first="bloom"))
    found, every = index_maps([entry_of(ours, "ours"), entry_of(theirs, "theirs")])
    assert every.chart.title == "Fastest to find the rows of a batch: all indexes"
    assert every.sentence == "Of 1 combination measured, bloom is fastest in 1."
    assert found.sentence == (
        "Of 3 combinations measured, record is fastest in 1, bucket is fastest in 1 and 1 has no "
        "clear winner."
    )
    assert found.runs == ("ours", "theirs")
    grid = found.chart.grid
    assert grid.heads == ("10", "100")
    assert [[e.value for e in row.entries] for row in grid.rows] == [
        ["record", "no clear winner"],
        ["bucket", "—"],
    ]
    assert "<svg" in found.chart.inline()


def test_a_map_needs_a_choice():
    assert index_maps([entry_of([])]) == []


def test_published_figures_stand_beside_ours(tmp_path):
    folder = RunFolder.open(quickstart(tmp_path / "run"))
    queries = [each for each in folder.samples() if each.step == "point_query"]
    folder.append(replace(each, step="point_query_spark") for each in queries)
    (run,) = projection.load([folder.path])
    shown = claims_of(run)
    blog = "https://hudi.apache.org/blog/2023/11/01/record-level-index"
    assert shown.sentence == (
        "Of 4 published figures, native reaches 1. What differs: theirs are of Hudi 0.14.0 and "
        "Spark 3.2.1 on ten m5.4xlarge of EMR and a table of 1 TB, without spread or raw data; "
        f"the cluster of their query by key is not described ({blog})."
    )
    assert shown.grid.heads == ("published", "native")
    assert shown.grid.rows[1].entries[0].value == "0.280x"
    ours = [float(row.entries[1].value.removesuffix("x")) for row in shown.grid.rows]
    assert ours == pytest.approx([0.48, 0.09, 0.062, 0.025], rel=0.15)
    (alone,) = projection.load([write_run(tmp_path / "alone", [sample()])])
    assert claims_of(alone) is None


def test_published_figures_of_two_formats_stand_in_the_column_of_their_engine(tmp_path):
    upserts = {"native/record": 1.0, "hudi@1.2.0/record": 2.0, "delta@3.3.2/merge": 8.0}
    samples = [
        sample(
            cell=cell,
            engine=cell.split("/")[0],
            index=cell.split("/")[1],
            repetition=repetition,
            value=value,
        )
        for cell, value in upserts.items()
        for repetition in range(3)
    ]
    (run,) = projection.load([write_run(tmp_path / "run", samples)])
    shown = claims_of(run)
    (row,) = shown.grid.rows
    assert row.label == (
        "An upsert takes a sixth of what Delta 3.3 takes (record, beside merge · delta@3.3.2)"
    )
    cells = dict(zip(shown.grid.heads, row.entries, strict=True))
    assert (cells["published"].value, cells["hudi@1.2.0"].value) == ("0.167x", "0.250x")
    assert (cells["native"].value, cells["delta@3.3.2"].value) == ("—", "—")
    assert shown.sentence.startswith(
        "An upsert takes a sixth of what Delta 3.3 takes, as was published; here it is 0.250x of "
        "merge · delta@3.3.2. What differs: theirs is lake-loader on S3"
    )
    assert shown.sentence.endswith(
        " (https://hudi.apache.org/blog/2026/08/04/migrating-from-delta-lake-to-hudi)."
    )


def test_published_rates_and_bytes_are_compared_as_they_are(tmp_path):
    cell = {"cell": "native/record", "engine": "native", "index": "record", "step": "lookup"}
    samples = [
        sample(**cell, metric=metric, unit=unit, value=value, repetition=repetition)
        for metric, unit, value in (
            ("keys_per_s", "1/s", 250_000.0),
            ("bytes_per_key", "B", 51.0),
        )
        for repetition in range(3)
    ]
    (run,) = projection.load([write_run(tmp_path / "run", samples)])
    shown = claims_of(run)
    assert {row.label: [each.value for each in row.entries] for row in shown.grid.rows} == {
        "48 bytes a key (record)": ["48 B", "51 B"],
        "50 to 55 bytes a key (record)": ["50 B", "51 B"],
        "A key is looked up in 1 to 2 ms (record)": ["500 /s", "250,000 /s"],
        "100,000 keys are looked up in 600 ms (record)": ["166,667 /s", "250,000 /s"],
    }
    # Of a rate more is better, of bytes less.
    assert shown.sentence.startswith("Of 4 published figures, native reaches 2. ")
    assert "https://github.com/apache/hudi/blob/master/rfc/rfc-8/rfc-8.md" in shown.sentence


def test_the_command_leaves_out_what_is_not_right(tmp_path, original, capsys):
    results = tmp_path / "results"
    shutil.copytree(original, results / RUN_ID)
    shutil.copytree(original, results / "running")
    path = results / "running" / "run.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"status": "running"}))
    (results / provenance.FILE).write_text(f'[runs.{RUN_ID}]\nfrom = "maintainers"\n')
    out = tmp_path / "public"
    assert cli.main(["site", str(results), "--out", str(out)]) == 0
    said = capsys.readouterr()
    assert "site of 1 run: " in said.out
    assert "left out: " in said.err
    assert "not ended" in said.err
    assert not (out / "runs" / "running").exists()
    assert "the maintainers&#39; run" in (out / "index.html").read_text()


def test_a_label_that_the_other_run_does_not_bear_out_leaves_the_run_out(copy, tmp_path):
    results, out = copy.path.parent, tmp_path / "public"
    again = Copy(shutil.copytree(copy.path, results / "again"))
    again.lines("samples.jsonl", lambda found: [each.update(run_id="again") for each in found])

    def of_other_work(document):
        document["run_id"] = "again"
        document["scenario"]["dataset"]["seed"] = 2

    again.info(of_other_work)
    again.seal()
    (results / provenance.FILE).write_text(
        f'[runs.{RUN_ID}]\nrepeated = "again"\n[runs.again]\nfrom = "maintainers"\n'
    )
    site = build(results, out)
    ((path, reason),) = site.left_out
    assert path.name == RUN_ID
    assert "again did other work: dataset.seed is 2 there" in reason
    assert site.runs == ("again",)
    assert [each.name for each in (out / "runs").iterdir()] == ["again"]
    assert RUN_ID not in (out / "runs" / "again" / "index.html").read_text()


def test_a_run_that_is_there_twice_is_refused_before_the_old_site_goes(tmp_path, original):
    out = tmp_path / "public"
    build(original.parent, out)
    for folder in ("one", "two"):
        shutil.copytree(original, tmp_path / "results" / folder / RUN_ID)
    with pytest.raises(ReportError, match=f"holds {RUN_ID} twice"):
        build(tmp_path / "results", out)
    assert (out / "runs" / RUN_ID / "index.html").exists()


def test_a_site_is_replaced_and_nothing_else(tmp_path, original):
    results, out = original.parent, tmp_path / "public"
    build(results, out)
    (out / "runs" / "old").mkdir()
    (out / "runs" / "old" / "index.html").write_text("old")
    before = {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}
    build(results, out)
    after = {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}
    assert not (out / "runs" / "old").exists()
    assert {path: before[path] for path in after if path.suffix != ".parquet"} == {
        path: data for path, data in after.items() if path.suffix != ".parquet"
    }
    other = tmp_path / "mine"
    other.mkdir()
    (other / "kept").write_text("kept")
    with pytest.raises(ReportError, match="holds other files than a site"):
        build(results, other)
    assert (other / "kept").read_text() == "kept"


def test_there_must_be_runs(tmp_path):
    with pytest.raises(ReportError, match="is no run folder, and none is below it"):
        build(tmp_path, tmp_path / "public")
