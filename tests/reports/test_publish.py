from __future__ import annotations

import csv
import json
import os
import re
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from synthetic_runs import INFO, quickstart, sample, write_run

from keymark.reports.errors import ReportError
from keymark.reports.publish import publish

GOLDEN = Path(__file__).parent / "golden"
SCRIPT = '"><script>alert(1)</script>'
HOSTILE = f'=x{SCRIPT} " onload="x" \u202e\x1b[31m$\\alpha$|`'
VOID = {"meta", "link", "br", "img", "input", "hr", "path", "use"}


class Page(HTMLParser):
    """What a browser would make of a page: elements, ids, headings, balance."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict]] = []
        self.open: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert tag in VOID or self.open.pop() == tag

    def of(self, *names):
        return [attrs for tag, attrs in self.tags if tag in names]


def golden(name: str, text: str) -> None:
    if os.environ.get("UPDATE_GOLDEN"):
        (GOLDEN / name).write_text(text, encoding="utf-8")
    assert text == (GOLDEN / name).read_text(encoding="utf-8")


def small_run(path: Path) -> Path:
    """Two cells, two steps, three repetitions in round numbers, and one failed cell."""
    samples = []
    for rep in range(3):
        for index, wall in (("record", 1.0), ("global_simple", 4.0), ("bucket", 0.5)):
            shared = {"cell": f"native/{index}", "index": index, "repetition": rep}
            right = {} if index != "bucket" else {"verified": False, "reason": "1 row is missing"}
            value = wall * (1 + rep / 10)
            samples += [
                sample(**shared, **right, value=value),
                sample(**shared, phase="tag", value=value / 2),
                sample(**shared, metric="shuffle_write_bytes", value=1024.0 * wall),
                sample(**shared, step="lookup", value=wall / 8),
                sample(**shared, metric="index_bytes", value=2048.0 if index == "record" else 0.0),
            ]
    info = {
        "run_id": "r1",
        "scenario": INFO["scenario"],
        "command": INFO["command"],
        "failed": {"native/global_bloom": "load: it fell over"},
        "notes": ["bucket: the rows were re-loaded off the clock"],
    }
    return write_run(path, samples, info)


def test_golden_summaries(tmp_path):
    path = small_run(tmp_path / "run")
    published = publish([path])
    assert published.index == path / "report" / "index.html"
    golden("summary.md", (path / "summary.md").read_text(encoding="utf-8"))
    golden("summary.json", (path / "summary.json").read_text(encoding="utf-8"))


def test_failed_and_missing_cells_are_named_and_on_no_chart(tmp_path):
    path = small_run(tmp_path / "run")
    published = publish([path])
    assert not published.summary["verified"]
    (bucket,) = [c for c in published.summary["cells"] if c["index"] == "bucket"]
    assert bucket["metrics"] == []
    assert published.summary["missing"] == ["native/global_bloom"]
    page = published.index.read_text(encoding="utf-8")
    assert "2 of 4 cells failed" in page
    assert "1 row is missing" in page
    assert "load: it fell over" in page
    for chart in published.report.charts:
        assert "bucket" not in chart.drawing.bare_svg
        assert [row.index for row in chart.grid.rows] == ["record", "global_simple"]


def test_nothing_but_zeros_is_a_sentence_and_on_no_chart(tmp_path):
    made = [
        sample(cell=f"native/{index}", index=index, metric=metric, value=value)
        for index in ("record", "global_simple")
        for metric, value in (("wall_s", 1.0), ("shuffle_write_bytes", 0.0))
    ]
    published = publish([write_run(tmp_path / "run", made)])
    assert [chart.key for chart in published.report.charts] == ["write_latency"]
    said = (tmp_path / "run" / "summary.md").read_text()
    assert "Shuffle per upsert" not in said
    assert "Shuffle of an upsert batch: 0 B for all: there is nothing to compare." in said


def test_a_run_in_which_everything_failed_still_has_a_page(tmp_path):
    path = write_run(tmp_path / "run", [sample(verified=False, reason="wrong")])
    published = publish([path])
    assert published.report.charts == []
    assert "nothing to compare" in published.index.read_text(encoding="utf-8")
    empty_path = write_run(tmp_path / "empty", [])
    both = publish([path, empty_path])
    assert both.index == path / "comparison" / "report" / "index.html"
    empty = publish([empty_path])
    assert not empty.summary["verified"]
    assert "Nothing was measured" in empty.index.read_text(encoding="utf-8")


def test_the_page_stands_alone_and_is_well_formed(published):
    text = published.index.read_text(encoding="utf-8")
    page = Page(text)
    assert text.startswith("<!doctype html>")
    assert page.open == []
    assert page.of("script", "img", "iframe", "object") == []
    links = [attrs.get("href", "") for _, attrs in page.tags if "href" in attrs]
    assert all(link == "data:," or link.startswith("#") for link in links)
    assert "://" not in text.replace('xmlns="http://www.w3.org/2000/svg"', "")
    (policy,) = [m["content"] for m in page.of("meta") if "http-equiv" in m]
    assert policy.startswith("default-src 'none'")
    ids = [attrs["id"] for _, attrs in page.tags if "id" in attrs]
    assert len(ids) == len(set(ids))
    referred = set(re.findall(r"url\(#([^)]+)\)", text)) | {x[1:] for x in links if x[0] == "#"}
    assert referred <= set(ids)


def test_the_page_can_be_read_without_eyes(published):
    page = Page(published.index.read_text(encoding="utf-8"))
    levels = [int(tag[1]) for tag, _ in page.tags if re.fullmatch(r"h[1-6]", tag)]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))
    pictures = page.of("svg")
    assert len(pictures) == 7
    assert all(p["role"] == "img" and "record" in p["aria-label"] for p in pictures)
    assert len(page.of("figure")) == len(pictures)
    assert len(page.of("caption")) == len(page.of("table")) >= len(pictures)
    assert all("scope" in cell for cell in page.of("th"))
    scrollers = [a for _, a in page.tags if a.get("class") == "scroll"]
    assert all(a["tabindex"] == "0" and a["aria-label"] for a in scrollers)


def test_charts_are_files_of_their_own(published):
    charts = published.index.parent / "charts"
    assert sorted(p.name for p in charts.iterdir()) == sorted(
        f"{key}.{ending}"
        for key in (
            *("write_latency", "delete", "lookup", "shuffle", "point_query", "storage"),
            "phases",
        )
        for ending in ("svg", "png")
    )
    texts = [e.text for e in ET.parse(charts / "lookup.svg").iter() if e.tag.endswith("}text")]
    assert "global_bloom" in texts
    assert "median of n = 3, whisker: range" in texts
    assert "milliseconds, lower is better" in texts or "seconds, lower is better" in texts
    png = (charts / "lookup.png").read_bytes()
    assert png.startswith(b"\x89PNG")
    assert int.from_bytes(png[16:20], "big") == 1200


def test_a_chart_says_what_was_measured_on_what_and_where_it_is_from(published):
    svg = (published.index.parent / "charts" / "lookup.svg").read_text(encoding="utf-8")
    texts = " ".join(re.findall(r"<text[^>]*>([^<]*)</text>", svg))
    assert (
        "200,000 rows, batches of 10,000, Keymark's own engine, 2 cores of an example of a CPU, "
        "8 GiB, 3 repetitions" in texts
    )
    assert "Source: Keymark, run 20261121T190300-quickstart, 2026-11-21" in texts


def test_the_same_samples_make_the_same_files_and_none_is_read_back(tmp_path, published):
    first, second = published.index.parents[1], quickstart(tmp_path / "run")
    (second / "report" / "charts").mkdir(parents=True)
    for name in ("report/index.html", "report/charts/phases.svg", "summary.json", "samples.csv"):
        (second / name).write_text("{")
    publish([second])
    for path in first.rglob("*"):
        if path.is_file():
            assert path.read_bytes() == (second / path.relative_to(first)).read_bytes()


def test_hostile_names_stay_text(tmp_path):
    info = INFO | {
        "run_id": HOSTILE,
        "notes": [HOSTILE],
        "machine": {HOSTILE: HOSTILE, "db.password": "hunter2"},
        "scenario": {"name": HOSTILE, "engines": [HOSTILE], "indexes": [HOSTILE, "absent"]},
    }
    hostile = {"run_id": HOSTILE, "cell": HOSTILE, "engine": HOSTILE, "index": HOSTILE}
    samples = [sample(**hostile, step=step, round=1) for step in ("lookup", "upsert_1", HOSTILE)]
    samples.append(sample(**hostile, step="delete", valid=False, reason=HOSTILE))
    samples.append(sample(**hostile | {"cell": "2"}, verified=False, reason=HOSTILE))
    path = write_run(tmp_path / "run", samples, info)
    published = publish([path])
    page = published.index.read_text(encoding="utf-8")
    assert Page(page).of("script") == []
    assert all("onload" not in attrs for _, attrs in Page(page).tags)
    assert "hunter2" not in page
    everything = {p: p.read_bytes().decode() for p in path.rglob("*") if p.suffix in
                  (".html", ".md", ".csv", ".svg")}  # fmt: skip
    for text in everything.values():
        assert "\u202e" not in text
        assert "\x1b" not in text
    for name, text in everything.items():
        shown = [line for line in text.splitlines() if not line.startswith("    make install")]
        assert name.suffix == ".csv" or "<script" not in "".join(shown)
    with (path / "samples.csv").open(newline="") as file:
        assert all(line["index"].startswith("'=x") for line in csv.DictReader(file))
    json.loads((path / "summary.json").read_text())


def test_several_runs_stand_side_by_side(tmp_path):
    first = quickstart(tmp_path / "a", run_id="one")
    second = quickstart(tmp_path / "b", run_id="two", seed=2, repetitions=6)
    out = tmp_path / "out"
    published = publish([first, second], out)
    assert published.index == out / "report" / "index.html"
    assert not (first / "report").exists()
    assert published.summary["run_id"] == "one+two"
    assert [cell["run_id"] for cell in published.summary["cells"]] == ["one"] * 4 + ["two"] * 4
    page = published.index.read_text(encoding="utf-8")
    assert "Run A: one" in page
    assert "not measured side by side" in page
    labels = [row.label for row in published.report.charts[0].grid.rows]
    assert labels[:3] == ["record · A", "record · B", "global_simple · A"]
    unjudged = [published.report.beside, *(chart.grid for chart in published.report.charts)]
    assert all(e.mark == "" == e.ratio for g in unjudged for r in g.rows for e in r.entries)
    tables = [answer.table for run in published.report.runs for answer in run.answers]
    assert [table.rows[3].entries[0].mark for table in tables] == ["best", "best"]


def test_samples_csv_has_every_line(published):
    path = published.index.parents[1]
    with (path / "samples.csv").open(newline="") as file:
        lines = list(csv.DictReader(file))
    assert len(lines) == (path / "samples.jsonl").read_text().count("\n")
    assert {line["warmup"] for line in lines} == {"true", "false"}
    assert all(float(line["value"]) >= 0 for line in lines)


def test_a_place_that_cannot_be_written_is_named(tmp_path):
    path = write_run(tmp_path / "run", [sample(verified=False, reason="wrong")])
    (tmp_path / "file").write_text("")
    with pytest.raises(ReportError, match="file"):
        publish([path], tmp_path / "file")
