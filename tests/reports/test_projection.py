from __future__ import annotations

import json

import pytest
from synthetic_runs import INDEXES, quickstart, sample, write_run

from keymark.reports.errors import ReportError
from keymark.reports.model.projection import UPSERT, load, step_order


def cell_of(tmp_path, samples, info=None):
    (run,) = load([write_run(tmp_path / "run", samples, info)])
    return run, run.cells[0]


def test_quickstart_has_its_cells_in_the_order_of_indexes(tmp_path):
    (run,) = load([quickstart(tmp_path / "run")])
    assert [cell.label for cell in run.cells] == list(INDEXES)
    assert all(cell.verified for cell in run.cells)
    assert run.cells[0].steps() == [
        "bulk_insert", "upsert_1", "upsert_2", "delete", "lookup", "point_query",
    ]  # fmt: skip
    assert run.notices == ()


def test_warmups_and_invalid_samples_do_not_count(tmp_path):
    run, cell = cell_of(
        tmp_path,
        [
            sample(value=9.0, warmup=True),
            sample(value=1.0),
            sample(value=7.0, repetition=1, valid=False, reason="2 tasks were retried"),
        ],
    )
    assert cell.values("upsert_1", "total", "wall_s") == {(0, 1): 1.0}
    assert cell.verified
    assert "2 tasks were retried" in run.notices[0]


def test_one_wrong_answer_fails_the_cell_even_in_a_warmup(tmp_path):
    wrong = sample(step="delete", warmup=True, verified=False, reason="3 rows too many")
    _, cell = cell_of(tmp_path, [sample(), wrong])
    assert not cell.verified
    assert cell.reasons == ("delete: 3 rows too many",)


def test_nothing_valid_is_not_verified(tmp_path):
    _, cell = cell_of(tmp_path, [sample(valid=False, reason="retried")])
    assert not cell.verified
    assert cell.reasons == ("nothing valid was measured",)


def test_the_runs_own_word_fails_a_cell(tmp_path):
    info = {"run_id": "r1", "failed": {"native/record": "repetition 1 did not end"}}
    _, cell = cell_of(tmp_path, [sample()], info)
    assert not cell.verified
    assert cell.reasons == ("repetition 1 did not end",)


def test_upserts_pool_to_one_value_per_complete_repetition(tmp_path):
    samples = [
        sample(step="upsert_1", round=1, repetition=0, value=1.0),
        sample(step="upsert_2", round=2, repetition=0, value=3.0),
        sample(step="upsert_1", round=1, repetition=1, value=5.0),
    ]
    _, cell = cell_of(tmp_path, samples)
    assert cell.values(UPSERT, "total", "wall_s") == {(0, 0): 2.0}
    assert cell.values(UPSERT, "tag", "wall_s") == {}


def test_a_value_that_is_there_twice_is_told(tmp_path):
    run, cell = cell_of(tmp_path, [sample(value=1.0), sample(value=2.0)])
    assert cell.values("upsert_1", "total", "wall_s") == {(0, 1): 2.0}
    assert "twice" in run.notices[0]


def test_a_torn_last_line_is_left_out_with_a_notice(tmp_path):
    path = write_run(tmp_path / "run", [sample()])
    with (path / "samples.jsonl").open("a") as file:
        file.write('{"schema_version": 1, "run')
    (run,) = load([path])
    assert len(run.samples) == 1
    assert run.notices == (
        "line 2 of samples.jsonl is unfinished (the run was cut off) and left out",
    )


@pytest.mark.parametrize(
    "line", ["not json", "[]", "{}", '{"schema_version": 99}', "\u0000", '{"value": NaN}']
)
def test_a_damaged_line_is_named_by_its_number(tmp_path, line):
    path = write_run(tmp_path / "run", [sample()])
    with (path / "samples.jsonl").open("a") as file:
        file.write(line + "\n")
    with pytest.raises(ReportError, match="line 2") as caught:
        load([path])
    assert caught.value.exit_code == 2
    assert "\n" not in str(caught.value)


def test_what_is_no_run_folder_is_refused(tmp_path):
    with pytest.raises(ReportError, match="not a run folder"):
        load([tmp_path])
    with pytest.raises(ReportError, match="not a run folder"):
        load([tmp_path / "nowhere"])
    (tmp_path / "run.json").write_text("{")
    with pytest.raises(ReportError, match=r"run\.json"):
        load([tmp_path])
    (tmp_path / "run.json").write_text(json.dumps({"schema_version": 1, "run_id": "x"}))
    with pytest.raises(ReportError, match=r"samples\.jsonl"):
        load([tmp_path])


def test_samples_of_another_run_are_refused(tmp_path):
    path = write_run(tmp_path / "run", [sample(run_id="other")])
    with pytest.raises(ReportError, match="another run"):
        load([path])


def test_labels_add_engine_cell_and_run_only_where_needed(tmp_path):
    first = write_run(tmp_path / "a", [sample(), sample(cell="2", engine="hudi@0.15.0")])
    second = write_run(tmp_path / "b", [sample(cell="x"), sample(cell="y")])
    (alone,) = load([first])
    assert [cell.label for cell in alone.cells] == ["record · native", "record · hudi@0.15.0"]
    both = load([first, second])
    assert [run.label for run in both] == ["A", "B"]
    assert [cell.label for cell in both[1].cells] == [
        "record · native · x · B",
        "record · native · y · B",
    ]


def test_steps_sort_as_a_run_takes_them():
    shuffled = ["point_query", "upsert_10", "mystery", "delete", "upsert_2", "bulk_insert"]
    assert sorted(shuffled, key=step_order) == [
        "bulk_insert", "upsert_2", "upsert_10", "delete", "point_query", "mystery",
    ]  # fmt: skip
