"""Which format answers which question best: the candidates, the gaps, and what differs."""

from __future__ import annotations

import json

import pytest
from synthetic_formats import DELTA, ICEBERG, MIB, NATIVE, WRITES, rounds_of, run_of, said_of
from synthetic_runs import beats, sample

from keymark.harness.store.store import RunFolder
from keymark.harness.store.units import METRICS
from keymark.reports.model import tables
from keymark.reports.model.format_answers import QUESTIONS, answers
from keymark.reports.model.projection import load
from keymark.reports.publish import publish
from keymark.reports.sections.formats_part import formats_part


def answers_of(path, told, **changes):
    """The answers on the only kind of data, by the key of the question."""
    (run,) = load([run_of(path / "run", told, **changes)])
    return {each.question.key: each for each in answers(run.cells)}


def test_the_best_is_named_with_the_gap_to_the_next_and_what_differs(tmp_path):
    found = answers_of(tmp_path, WRITES)["write"]
    assert (found.best.engine, found.following.engine) == ("native", "delta@3.3.2")
    assert found.rivals == ()
    assert (found.summary.median, found.gap.median) == (1.1, pytest.approx(3.0))
    phase, counter = found.differences
    assert (phase.name, phase.best, phase.other) == ("tag", 0.2, 2.0)
    assert phase.share == pytest.approx(1.8 / 2.2)
    # Delta writes fewer rows: what it has more of is tasks.
    assert (counter.name, counter.best, counter.other, counter.share) == (
        METRICS["tasks"].title,
        3,
        30,
        None,
    )


def test_the_answer_is_a_sentence(tmp_path):
    words = said_of(tmp_path, WRITES)["Writing a batch"]
    assert words == (
        "record · native is best with 1.10 s; merge_dv · delta@3.3.2 needs 3.00x as much; what "
        "differs: tag (2.00 s beside 200 ms, 82% of the difference) and Spark tasks (30 beside 3)."
    )


def test_time_that_both_do_not_tell_alike_is_a_part_of_its_own(tmp_path):
    told = {NATIVE: WRITES[NATIVE], ICEBERG: WRITES[ICEBERG]}
    (part,) = answers_of(tmp_path, told)["write"].differences
    assert part.name == "time in none of the phases that both tell"
    assert (part.best, part.other) == (pytest.approx(0.6), pytest.approx(3.4))


def test_what_the_intervals_do_not_tell_apart_is_no_difference(tmp_path):
    told = {
        NATIVE: {"upsert_1 total wall_s": [1.0, 1.2, 1.1]},
        DELTA: {"upsert_1 total wall_s": [1.1, 1.15, 1.2]},
        ICEBERG: {"upsert_1 total wall_s": [3.0, 3.6, 3.3]},
    }
    found = answers_of(tmp_path, told)["write"]
    assert [each.engine for each in found.rivals] == ["delta@3.3.2"]
    assert found.following.engine == "iceberg@1.10.0"
    (run,) = load([tmp_path / "run"])
    ((grid, said),) = formats_part(run).tables
    assert grid.rows[0].entries[0].value == "no difference shown"
    assert grid.rows[0].entries[0].spread == "record · native and merge_dv · delta@3.3.2"
    assert said[0].words == (
        "no difference shown between record · native and merge_dv · delta@3.3.2; the lowest median "
        "is 1.10 s; merge_mor · iceberg@1.10.0 needs 3.00x as much; no phase and no counter that "
        "was measured tells why."
    )


@pytest.mark.parametrize("changes", [{"repetitions": 2}, {"repetitions": 1}])
def test_of_few_repetitions_nothing_is_shown(tmp_path, changes):
    told = {NATIVE: {"upsert_1 total wall_s": 1.0}, DELTA: {"upsert_1 total wall_s": 9.0}}
    words = said_of(tmp_path, told, **changes)["Writing a batch"]
    assert words == (
        "no difference shown between record · native and merge_dv · delta@3.3.2, fewer than 3 "
        "values; the lowest median is 1.00 s."
    )


def test_of_one_trial_the_rounds_are_the_values_and_the_pairs(tmp_path):
    told = {NATIVE: rounds_of(1.0, 2.0, 3.0, 4.0), DELTA: rounds_of(3.0, 6.0, 9.0, 12.0)}
    found = answers_of(tmp_path, told, repetitions=1)["write"]
    assert (found.best.engine, found.following.engine) == ("native", "delta@3.3.2")
    assert (found.summary.median, found.summary.n) == (2.5, 4)
    # Each round takes three times as long, however the rounds differ.
    assert (found.gap.low, found.gap.high, found.gap.n) == (3.0, 3.0, 4)
    (run,) = load([tmp_path / "run"])
    ((grid, said),) = formats_part(run).tables
    assert grid.rows[0].entries[1].n == "4"
    assert said[0].words == (
        "record · native is best with 2.50 s by rounds of one trial; merge_dv · delta@3.3.2 needs "
        "3.00x as much; no phase and no counter that was measured tells why."
    )


def test_rounds_of_one_trial_that_cross_show_no_difference(tmp_path):
    told = {NATIVE: rounds_of(1.0, 5.0, 1.0), DELTA: rounds_of(3.0, 3.0, 3.0)}
    words = said_of(tmp_path, told, repetitions=1)["Writing a batch"]
    assert words == (
        "no difference shown by rounds of one trial between record · native and merge_dv · "
        "delta@3.3.2; the lowest median is 1.00 s."
    )


def test_a_round_that_one_side_lacks_has_no_pair(tmp_path):
    told = {NATIVE: rounds_of(1.0, 1.0, 1.0, 1.0), DELTA: rounds_of(2.0, 2.0, 2.0)}
    found = answers_of(tmp_path, told, repetitions=1)["write"]
    assert (found.summary.n, found.gap.n, found.gap.median) == (4, 3, 2.0)


def test_rounds_of_one_trial_share_the_compaction_between_them(tmp_path):
    kept = rounds_of(1.0, 1.0, 1.0, 1.0, compact_rows_2__total__wall_s=8.0)
    told = {NATIVE: rounds_of(2.0, 2.0, 2.0, 2.0), f"{DELTA}/kept": kept}
    found = answers_of(tmp_path, told, repetitions=1)["write_compacted"]
    assert (found.best.engine, found.summary.n, found.gap.n) == ("native", 4, 4)
    # 8 s over four batches are 2 s for each.
    assert found.gap.median == 1.5
    (part,) = found.differences
    assert (part.name, part.best, part.other) == ("compaction", 0.0, 2.0)


def test_phases_and_reads_of_one_trial_are_by_round_too(tmp_path):
    def told(whole, tag):
        phases = {f"upsert_{n} tag wall_s": tag * n for n in (1, 2, 3)}
        reads = rounds_of(whole, whole, whole, step="point_query")
        return rounds_of(whole, whole, whole) | phases | reads

    cells = {NATIVE: told(10.0, 1.0), DELTA: told(16.0, 3.0)}
    found = answers_of(tmp_path, cells, repetitions=1)
    (part,) = found["write"].differences
    assert (part.name, part.best, part.other) == ("tag", 2.0, 6.0)
    assert found["key_read"].gap.n == 3
    # Of what is read once there is one value.
    assert found["key_read_after"].best is None
    assert found["storage"].best is None


def test_of_one_trial_bytes_on_storage_are_told(tmp_path):
    stored = "delete total table_bytes"
    told = {NATIVE: {stored: 1000}, DELTA: {stored: 1000.5}, ICEBERG: {stored: 3000}}
    words = said_of(tmp_path, told, repetitions=1)["Bytes on storage after all batches and deletes"]
    assert words == (
        "no difference shown between record · native and merge_dv · delta@3.3.2; the lowest "
        "median is 1000 B; merge_mor · iceberg@1.10.0 needs 3.00x as much; no phase and no "
        "counter that was measured tells why."
    )


def test_the_machines_noise_hides_a_difference_of_times_but_not_of_bytes(tmp_path):
    told = {
        NATIVE: {"upsert_1 total wall_s": 1.0, "upsert_1 total table_bytes": 1000},
        DELTA: {"upsert_1 total wall_s": 1.2, "upsert_1 total table_bytes": 1200},
    }
    path = run_of(tmp_path / "run", told)
    beats(path, [0.01, 0.02] * 30)
    (run,) = load([path])
    found = {each.question.key: each for each in answers(run.cells)}
    assert found["write"].following is None
    assert found["storage"].gap.median == pytest.approx(1.2)


def test_the_variant_with_the_lowest_median_stands_for_a_mode(tmp_path):
    told = {
        NATIVE: {"upsert_1 total wall_s": [5.0, 5.5, 6.0]},
        f"{DELTA}/defaults": {"upsert_1 total wall_s": [2.0, 2.2, 2.4]},
        f"{DELTA}/kept": {"upsert_1 total wall_s": [1.0, 1.1, 1.2]},
    }
    found = answers_of(tmp_path, told)["write"]
    assert found.best.label == "merge_dv · delta@3.3.2 · kept"
    assert found.following.engine == "native"
    assert found.gap.median == pytest.approx(5.0)


def test_compaction_is_shared_by_the_batches_in_the_variants_that_have_it(tmp_path):
    plain = {"upsert_1 total wall_s": 1.0, "upsert_2 total wall_s": 1.0}
    told = {
        NATIVE: {"upsert_1 total wall_s": 2.0, "upsert_2 total wall_s": 2.0},
        f"{DELTA}/defaults": plain,
        f"{DELTA}/kept": {**plain, "compact_rows_1 total wall_s": 8.0},
    }
    found = answers_of(tmp_path, told)
    assert found["write"].best.engine == "delta@3.3.2"
    kept = found["write_compacted"]
    assert (kept.best.engine, kept.summary.median) == ("native", 2.0)
    assert kept.following.label == "merge_dv · delta@3.3.2 · kept"
    assert kept.gap.median == 2.5
    (part,) = kept.differences
    assert (part.name, part.best, part.other, part.share) == ("compaction", 0.0, 4.0, 1.0)


def test_where_nothing_is_compacted_nobody_bears_a_share(tmp_path):
    assert answers_of(tmp_path, WRITES)["write_compacted"].best is None


def test_reads_between_batches_are_pooled_and_the_last_ones_stand_apart(tmp_path):
    told = {
        NATIVE: {
            "point_query_5 total wall_s": 1.0,
            "point_query_10 total wall_s": 3.0,
            "point_query total wall_s": 4.0,
            "point_query total files_read": 1,
        },
        DELTA: {
            "point_query_5 total wall_s": 5.0,
            "point_query_10 total wall_s": 7.0,
            "point_query total wall_s": 16.0,
            "point_query total files_read": 40,
        },
    }
    found = answers_of(tmp_path, told)
    assert (found["key_read"].summary.median, found["key_read"].gap.median) == (2.0, 3.0)
    assert found["key_read"].differences == ()
    after = found["key_read_after"]
    assert (after.summary.median, after.gap.median) == (4.0, 4.0)
    (files,) = after.differences
    assert (files.name, files.best, files.other) == (METRICS["files_read"].title, 1, 40)
    assert found["range_read"].best is None


def test_what_keymark_reads_itself_is_not_held_against_sparks_input(tmp_path):
    read = {"point_query total wall_s": 1.0, "point_query total input_bytes": 10}
    slower = {"point_query total wall_s": 2.0, "point_query total input_bytes": 1000}
    found = answers_of(tmp_path, {NATIVE: read, DELTA: slower})["key_read_after"]
    assert found.differences == ()
    (counter,) = answers_of(tmp_path / "other", {ICEBERG: read, DELTA: slower})[
        "key_read_after"
    ].differences
    assert counter.name == METRICS["input_bytes"].title


def test_storage_differs_by_what_was_written_and_what_was_removed(tmp_path):
    def stored(load_, batch, total):
        return {
            "bulk_insert total bytes_written": load_ * MIB,
            "bulk_insert total table_bytes": load_ * MIB,
            "upsert_1 total bytes_written": batch * MIB,
            "upsert_1 total table_bytes": (load_ + batch) * MIB,
            "upsert_2 total bytes_written": batch * MIB,
            "upsert_2 total table_bytes": (load_ + 2 * batch) * MIB,
            "delete total bytes_written": 10 * MIB,
            "delete total table_bytes": total * MIB,
        }

    told = {NATIVE: stored(100, 100, 200), DELTA: stored(100, 100, 310)}
    found = answers_of(tmp_path, told)["storage"]
    assert (found.best.engine, found.summary.median) == ("native", 200 * MIB)
    (removed,) = found.differences
    assert removed.name == "bytes removed by services"
    assert (removed.best, removed.other, removed.share) == (110 * MIB, 0, 1.0)
    told = {ICEBERG: stored(100, 10, 130), DELTA: stored(100, 100, 310)}
    (batches,) = answers_of(tmp_path / "other", told)["storage"].differences
    assert (batches.name, batches.best, batches.other) == (
        "bytes that the batches wrote",
        20 * MIB,
        200 * MIB,
    )


def test_a_table_without_a_load_of_its_own_is_compared_by_its_batches(tmp_path):
    told = {
        NATIVE: {"upsert_1 total bytes_written": 10, "upsert_1 total table_bytes": 110},
        DELTA: {
            "bulk_insert total bytes_written": 100,
            "upsert_1 total bytes_written": 60,
            "upsert_1 total table_bytes": 160,
        },
    }
    (batches,) = answers_of(tmp_path, told)["storage"].differences
    assert (batches.best, batches.other) == (10, 60)


def test_requests_are_added_over_their_kinds(tmp_path):
    told = {
        NATIVE: {"upsert_1 total get_requests": 10, "upsert_1 total put_requests": 5},
        DELTA: {"upsert_1 total get_requests": 40, "upsert_1 total put_requests": 5},
    }
    found = answers_of(tmp_path, told)["write_requests"]
    assert (found.summary.median, found.gap.median) == (15, 3.0)
    (kind,) = found.differences
    assert (kind.name, kind.best, kind.other, kind.share) == ("GET requests", 10, 40, 1.0)


def test_who_does_not_tell_its_requests_is_named_where_others_do(tmp_path):
    told = {
        NATIVE: {"upsert_1 total wall_s": 1.0, "upsert_1 total get_requests": 10},
        DELTA: {"upsert_1 total wall_s": 2.0, "upsert_1 total get_requests": 40},
        ICEBERG: {"upsert_1 total wall_s": 3.0},
    }
    words = said_of(tmp_path, told)["Requests of writing a batch"]
    assert words.startswith("record · native is best with 10; merge_dv · delta@3.3.2 needs 4.00x")
    assert words.endswith("; not counted: merge_mor · iceberg@1.10.0.")


def test_what_was_not_measured_is_said(tmp_path):
    said = said_of(tmp_path, WRITES)
    assert said["Reading a range between batches"] == "not measured."
    assert said["Requests of writing a batch"] == (
        "not measured: requests are counted of tables on an object store (table.location)."
    )
    asked = [each.words for each in QUESTIONS if not each.step.endswith("_cold")]
    assert list(said) == asked


def test_cold_reads_are_asked_about_where_they_were_measured(tmp_path):
    told = {
        NATIVE: {"point_query_cold total wall_s": [1.0, 1.1, 1.2]},
        DELTA: {"point_query_cold total wall_s": [2.0, 2.2, 2.4]},
    }
    words = said_of(tmp_path, told)["Reading one key with a cold system cache"]
    assert words.startswith("record · native is best with 1.10 s; merge_dv · delta@3.3.2 needs 2.0")
    (run,) = load([tmp_path / "run"])
    shown = {each.measure.key: each for each in tables.headline(run.cells).columns}
    assert shown["point_query_cold"].leaders == {0}


def test_each_kind_of_data_has_its_own_answers(tmp_path):
    path = run_of(tmp_path / "run", WRITES, shapes=("hot", "spread"))
    part = formats_part(load([path])[0])
    assert [grid.caption for grid, _ in part.tables] == ["hot", "spread"]
    assert {each["shape"] for each in part.values} == {"hot", "spread"}
    asked = [each for each in QUESTIONS if not each.step.endswith("_cold")]
    assert len(part.values) == 2 * len(asked)


@pytest.mark.parametrize(
    "cells", [(NATIVE,), (DELTA,), (NATIVE, "hudi@1.2.0/record"), (f"{DELTA}/a", f"{DELTA}/b")]
)
def test_without_another_format_beside_something_else_there_is_no_section(tmp_path, cells):
    told = {cell: {"upsert_1 total wall_s": 1.0} for cell in cells}
    assert formats_part(load([run_of(tmp_path / "run", told)])[0]) is None


def test_wrong_cells_answer_nothing(tmp_path):
    path = run_of(tmp_path / "run", {DELTA: WRITES[DELTA], ICEBERG: WRITES[ICEBERG]})
    wrong = sample(
        cell=f"{NATIVE}/shape-hot", value=0.1, verified=False, reason="the table holds 1 row"
    )
    RunFolder.open(path).append([wrong])
    part = formats_part(load([path])[0])
    assert part.values[0]["best"] == f"{DELTA}/shape-hot"


def test_the_page_and_the_summaries_say_it(tmp_path):
    path = run_of(tmp_path / "run", WRITES)
    published = publish([path])
    page, words = published.index.read_text(), (path / "summary.md").read_text()
    assert '<h2 id="formats">Which format answers which question best</h2>' in page
    assert "## Which format answers which question best" in words
    (sentence,) = [
        each.words
        for each in published.report.formats[0].tables[0][1]
        if each.topic == "Writing a batch"
    ]
    assert sentence in page
    assert sentence in words
    found = json.loads((path / "summary.json").read_text())["formats"]["r1"][0]
    assert (found["question"], found["best"], found["next"]) == (
        "write",
        f"{NATIVE}/shape-hot",
        f"{DELTA}/shape-hot",
    )
    assert found["ratio"]["ratio"] == pytest.approx(3.0)
    assert found["differences"][0]["name"] == "tag"


def test_the_page_has_a_chart_of_the_formats_and_files_of_it(tmp_path):
    path = run_of(tmp_path / "run", WRITES, shapes=("hot", "spread"))
    charts = path / "report" / "charts"
    charts.mkdir(parents=True)
    (charts / "formats_3.svg").write_text("of a report before")
    page = publish([path]).index.read_text()
    words = (path / "summary.md").read_text().replace("\\", "")
    section = page[page.index('<h2 id="formats">') :]
    # Each kind of data has one, before its table.
    for place, shape in ((1, "hot"), (2, "spread")):
        title = f'<h3 id="chart-formats_{place}">Table formats by question: {shape}</h3>'
        assert section.index(title) < section.index("Formats: hot")
    assert section.count('<th scope="col">question</th>') == 4
    finding = "Of 1 question, record · native answers 1 best."
    assert section.count(finding) >= 2
    assert words.count(finding) == 2
    assert sorted(each.name for each in charts.glob("formats_*")) == [
        "formats_1.png", "formats_1.svg", "formats_2.png", "formats_2.svg",
    ]  # fmt: skip
    svg = (charts / "formats_1.svg").read_text()
    assert "as a multiple of the best one" in svg
    assert "delta@3.3.2 merge_dv" in svg


def test_charts_of_formats_in_two_runs_are_told_apart(tmp_path):
    paths = [run_of(tmp_path / name, WRITES, run_id=name) for name in ("a", "b")]
    page = publish(paths, tmp_path / "out").index.read_text()
    assert 'id="chart-formats_1_a"' in page
    assert 'id="chart-formats_1_b"' in page


def test_a_run_of_one_format_says_nothing_of_formats(published):
    assert published.report.formats == []
    assert "formats" not in published.summary
    assert "Which format answers" not in published.index.read_text()
