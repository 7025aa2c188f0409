from __future__ import annotations

import pytest
from synthetic_runs import sample, write_run

from keymark.reports.model.measures import BY_KEY
from keymark.reports.model.projection import load
from keymark.reports.publish import publish
from keymark.reports.sections.engines_part import Duel, duels, engines_part, verdict
from keymark.reports.stats.statistics import summarize

HUDI = "hudi@0.15.0"
TAG = BY_KEY["tag"]


def run_of(tmp_path, tags, *, step="upsert_1", phase="tag", **info):
    """A run whose cells take `tags[(engine, rest of the id)]` seconds to tag, per repetition."""
    samples = [
        sample(
            cell=f"{engine}/{rest}",
            engine=engine,
            index=rest.split("/")[0],
            step=step,
            phase=phase,
            repetition=at,
            value=value,
        )
        for (engine, rest), values in tags.items()
        for at, value in enumerate(values)
    ]
    return write_run(tmp_path / "run", samples, {"run_id": "r1"} | info)


BOTH = {
    ("native", "record"): [1.0, 10.0, 1.2],
    (HUDI, "record"): [4.0, 40.0, 4.0],
    ("native", "bloom"): [1.0, 1.0, 1.0],
    (HUDI, "bloom"): [0.9, 1.1, 1.0],
    ("native", "bucket"): [2.0, 2.2, 2.4],
    (HUDI, "bucket"): [1.0, 1.0, 1.0],
    ("native", "hbase"): [1.0, 1.0, 1.0],
    (HUDI, "simple"): [1.0, 1.0, 1.0],
}


def test_each_index_of_both_is_paired_within_a_repetition(tmp_path):
    (run,) = load([run_of(tmp_path, BOTH)])
    found = {duel.index: duel for duel in duels(run.cells, TAG, HUDI)}
    assert list(found) == ["record", "bloom", "bucket"]
    record = found["record"]
    assert (record.ours.median, record.theirs.median) == (1.2, 4.0)
    assert (record.ratio.median, record.ratio.low) == (0.25, 0.25)
    assert record.ratio.high == pytest.approx(0.3)
    assert record.label == "record"


def test_building_the_index_is_compared_too(tmp_path):
    (run,) = load([run_of(tmp_path, BOTH, step="build_index", phase="total")])
    (chart,) = engines_part(run).charts
    assert chart[0].title == f"Index built: Keymark beside {HUDI}"


def test_only_the_same_data_is_compared(tmp_path):
    tags = {
        ("native", "record/rows-5"): [1.0, 1.0],
        (HUDI, "record/rows-5"): [2.0, 2.0],
        (HUDI, "record/rows-2"): [9.0, 9.0],
        (HUDI, "record/rows-9"): [9.0, 9.0],
    }
    cells = [{"cell": f"{e}/{rest}", "rows": int(rest[-1])} for e, rest in tags]
    (run,) = load([run_of(tmp_path, tags, cells=cells)])
    (only,) = duels(run.cells, TAG, HUDI)
    assert (only.label, only.ratio.median) == ("record · 5 rows", 0.5)


@pytest.mark.parametrize(
    ("ratios", "words"),
    [
        ([0.25, 0.31, 0.38], "faster: 0.310 (0.250 to 0.380) of the time of hudi@0.15.0"),
        ([0.9, 0.95, 1.0], "no difference shown: 0.950 (0.900 to 1.00) of"),
        ([0.9, 0.95, 1.1], "no difference shown: 0.950 (0.900 to 1.10) of"),
        ([1.1, 1.2, 1.3], "slower: 1.20 (1.10 to 1.30) of"),
        ([0.1, 0.1], "fewer than 3 pairs, nothing shown: 0.100 of"),
    ],
)
def test_a_verdict_says_what_the_interval_shows(ratios, words):
    duel = Duel(
        label="record",
        index="record",
        color="#000000",
        ours=summarize([0.2]),
        theirs=summarize([0.9]),
        ratio=summarize(ratios),
    )
    said = verdict(duel, HUDI, "s")
    assert said.startswith(words)
    assert said.endswith(", 200 ms beside 900 ms")


def test_one_engine_alone_has_no_part(tmp_path):
    ours = {place: values for place, values in BOTH.items() if place[0] == "native"}
    (run,) = load([run_of(tmp_path, ours)])
    assert engines_part(run) is None


def test_several_engines_share_the_chart_of_a_measure(tmp_path):
    newer = {("hudi@1.2.0", rest): values for (e, rest), values in BOTH.items() if e == HUDI}
    (run,) = load([run_of(tmp_path, {**BOTH, **newer})])
    part = engines_part(run)
    ((picture, verdicts),) = part.charts
    assert picture.title == f"Tagging: Keymark beside {HUDI} and hudi@1.2.0"
    names = [
        f"{index} · {e}" for e in (HUDI, "hudi@1.2.0") for index in ("record", "bloom", "bucket")
    ]
    assert [row.label for row in picture.grid.rows] == names
    assert [each.topic for each in verdicts] == names
    assert verdicts[3].words.startswith("faster: 0.250 (0.250 to 0.300) of the time of hudi@1.2.0")
    # The numbers in summary.json are as before there were charts of several engines.
    assert [value["label"] for value in part.values] == ["record", "bloom", "bucket"] * 2


def test_the_page_and_the_summary_say_it(tmp_path):
    published = publish([run_of(tmp_path, BOTH)])
    (part,) = published.report.engines
    ((picture, verdicts),) = part.charts
    assert picture.key == "engines_1_tag"
    assert [each.topic for each in verdicts] == ["record", "bloom", "bucket"]
    assert [each.words.split(":")[0] for each in verdicts] == [
        "faster",
        "no difference shown",
        "slower",
    ]
    page = published.index.read_text()
    assert "Engines side by side" in page
    assert verdicts[0].words in page
    assert verdicts[0].words in (tmp_path / "run/summary.md").read_text()
    assert (published.index.parent / "charts/engines_1_tag.png").exists()
    (record, *_) = published.summary["engines"]["r1"]
    assert (record["index"], record["ratio"], record["n"]) == ("record", 0.25, 3)
