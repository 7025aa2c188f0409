"""The command `plan` through the door that users take: answers, prices, errors, what it imports."""

from __future__ import annotations

import json
import operator
import subprocess
import sys
from dataclasses import replace
from itertools import product
from pathlib import Path

import pytest
from plan_cases import PRICES, plan
from synthetic_plan import TRUE, place

from keymark.harness.store.units import Unit
from keymark.indexes.spec import TASKS, THREADS
from keymark.indexes.workload import Workload
from keymark.reports.plan import calibration, flags, floors
from keymark.reports.plan.answer import PlanRequest
from keymark.reports.plan.answer import plan as answer
from keymark.reports.plan.constants import worded
from keymark.reports.plan.decide import choose, crossovers
from keymark.reports.plan.formulas import HUDI, KEYMARK, QUANTITIES, unit_of
from keymark.reports.plan.predict import Estimate, estimate
from keymark.reports.plan.render import lines

ROOT = Path(__file__).parents[2]
METRICS = {
    "write_s", "tag_s", "added_s", "lookup_s", "shuffle_bytes", "index_bytes", "memory_bytes",
    "bootstrap_s", "point_query_s",
}  # fmt: skip


def asked(capsys, fitted, *words):
    """The JSON answer for a table of ten million."""
    size = ("--records", 10_000_000, "--batch", 50_000)
    code, said = plan(capsys, *size, "--calibration", fitted["fit"], "--json", *words)
    assert code == 0, said
    return json.loads(said)


def test_the_answer_is_the_contract(capsys, fitted):
    found = asked(capsys, fitted, "--keys-stay")
    assert {"recommended", "options", "predictions", "crossovers"} <= set(found)
    assert {each["metric"] for each in found["predictions"]} == METRICS
    for each in found["predictions"]:
        assert set(each) == {"index", "metric", "unit", "value", "low", "high", "extrapolated"}
        assert each["low"] <= each["value"] <= each["high"], each
    assert found["recommended"] in found["candidates"]
    assert found["options"]["hoodie.index.type"]
    assert found["calibration"]["extrapolated"]["rows"] == 100


def test_only_indexes_that_suit_any_table_are_compared_unless_keys_stay(capsys, fitted):
    assert asked(capsys, fitted)["candidates"] == ["record", "global_simple", "global_bloom"]
    assert "bucket" in asked(capsys, fitted, "--keys-stay")["candidates"]
    assert asked(capsys, fitted, "--index", "bloom")["recommended"] == "bloom"


def test_the_package_has_a_calibration_of_its_own(capsys):
    code, said = plan(capsys, "--records", 1_000_000, "--batch", 10_000, "--json")
    assert code == 0, said
    found = json.loads(said)
    assert found["calibration"]["name"] == "default"
    assert found["calibration"]["machine"]
    assert found["calibration"]["runs"]


@pytest.mark.parametrize(
    ("text", "number"),
    [("2e9", 2_000_000_000), ("2B", 2_000_000_000), ("400k", 400_000), ("1.5M", 1_500_000),
     ("1_000", 1000), ("1,000", 1000), ("7", 7)],
)  # fmt: skip
def test_numbers_of_rows_are_written_as_people_do(text, number):
    assert flags.count(text) == number


@pytest.mark.parametrize(
    "text", ["", "k", "0", "-5", "1.5", "nan", "inf", "1e999999999", "1e20", "2T", "x"]
)
def test_what_is_no_number_of_rows_is_refused(capsys, text):
    code, said = plan(capsys, f"--records={text}", "--batch", 5)
    assert code == 2
    assert f"{text!r} is no number of rows" in said


@pytest.mark.parametrize(("columns", "ranges"), [(80, False), (120, False), (260, True)])
def test_the_answer_comes_first_and_the_table_fits(capsys, monkeypatch, columns, ranges):
    monkeypatch.setenv("COLUMNS", str(columns))
    words = ("--records", 10_000_000, "--batch", 50_000, "--engine", "native")
    code, said = plan(capsys, *words)
    assert code == 0
    before, _, after = said.partition("───")
    assert "recommended: " in before
    assert max(map(len, after.splitlines())) <= columns
    rows = [line for line in after.splitlines() if line.startswith(("record ", "global_simple "))]
    assert all(row.rstrip().endswith(" s") or row.rstrip().endswith(")") for row in rows)
    assert (" s to " in after) == ranges
    assert ("leaves out the ranges" in after) != ranges


def test_file_groups_of_a_record_index_keep_room_to_grow(capsys, fitted):
    words = ("--index", "record", "--executors", 10, "--cores", 16)
    code, said = plan(
        capsys,
        "--records",
        10**11,
        "--batch",
        10**6,
        "--calibration",
        fitted["fit"],
        "--json",
        *words,
    )
    assert code == 0, said
    groups = int(json.loads(said)["options"]["hoodie.metadata.record.index.min.filegroup.count"])
    # 104 bytes a key, inflated four times: 2.6 TB, which may double, in groups of 1 GiB.
    assert groups >= 2 * 10**11 * 104 / 4 / (1 << 30)


def test_the_size_of_data_blocks_is_printed_where_it_is_not_hudis(capsys, fitted):
    words = ("--records", 10**9, "--calibration", fitted["fit"], "--index", "record", "--json")
    for batch, size in ((400, "65536"), (10**9, None)):
        code, said = plan(capsys, "--batch", batch, *words)
        assert code == 0, said
        assert json.loads(said)["options"].get("hoodie.hfile.block.size") == size


def test_ranges_are_wider_outside_of_the_calibration(fitted):
    known = calibration.load(fitted["fit"])
    equation = known.equations["tag/simple"]
    amounts = {"once_tasks": 1.0, "files": 10.0, "sorted": 1e7, "keys_tasks": 1e4}
    inside = estimate(equation, amounts)
    outside = estimate(equation, amounts, off=2 * equation.spread)
    assert outside.value == inside.value
    assert outside.low <= inside.low
    assert outside.high >= inside.high


def test_nothing_is_recommended_where_all_ranges_overlap(fitted, monkeypatch):
    known = calibration.load(fitted["fit"])
    at = Workload(rows=1e6, batch=1e4)
    costs = {
        "record": Estimate(1.0, 0.5, 2.0),
        "global_simple": Estimate(1.1, 0.6, 2.2),
        "global_bloom": Estimate(1.2, 1.0, 3.0),
    }
    monkeypatch.setattr("keymark.reports.plan.decide.added", lambda _, index, __: costs[index])
    undecided = choose(known, at, list(costs))
    assert undecided.recommended is None
    assert undecided.options == {}
    assert "rows would decide" in undecided.why
    costs["global_bloom"] = Estimate(4.0, 3.0, 5.0)
    decided = choose(known, at, list(costs))
    assert decided.recommended == "record"
    assert decided.ties == ("global_simple",)


@pytest.mark.parametrize(("rows", "edge"), [(0.01, "begins at"), (50.0, "ends at")])
def test_the_end_of_the_calibration_is_that_on_the_side_of_the_table(monkeypatch, rows, edge):
    known = calibration.load()
    first, last = known.ranges["rows"]
    at = Workload(rows=rows * first, batch=1e3)
    monkeypatch.setattr("keymark.reports.plan.decide.added", lambda *_: Estimate(1.0, 0.5, 2.0))
    end = f"{first if rows < 1 else last:,.0f}"
    assert f" rows would decide (this one {edge} {end})" in choose(known, at, known.indexes).why


def test_crossovers_are_where_the_cheapest_index_changes(fitted):
    known = calibration.load(fitted["fit"])
    made = answer(known, PlanRequest(at=Workload(rows=1e6, batch=1e4, shards=4, local_bytes=0.0)))
    for each in made.crossovers:
        assert each.below != each.above
        assert each.at > 0
    assert made.crossovers


def package_answer(capsys, *words):
    """The answer of the package's calibration of Keymark, as JSON and as text."""
    words = (*words, "--engine", "native")
    found = json.loads(plan(capsys, *words, "--json")[1])
    return found, plan(capsys, *words)[1].strip().splitlines()


PAIR = floors.floor("tag/bloom", "pairs")
"""Seconds that a pair of a key and a filter costs at least."""
README = ("--records", 2_000_000_000, "--batch", 400_000)
FAR = ("--records", 20_000_000_000, "--batch", 400_000)
"""200 times the rows of the largest table that Keymark's calibration was scored on."""


def test_no_constant_of_a_time_is_nothing():
    for name, each in calibration.load().equations.items():
        if unit_of(name.partition("/")[0]) != Unit.SECONDS:
            continue
        least = [floors.floor(name, amount) for amount in each.amounts]
        assert min(least) > 0
        for constants in (each.values, *each.draws):
            assert all(map(operator.ge, constants, least)), name
    assert PAIR == 5.4e-8


def test_a_saved_fit_of_nothing_is_raised_to_the_floor(fitted, tmp_path):
    document = json.loads(fitted["fit"].read_text())
    bloom = document["equations"]["tag/bloom"]
    place = bloom["amounts"].index("pairs")
    for constants in (bloom["values"], *bloom["draws"]):
        constants[place] = 0.0
    path = tmp_path / "fit.json"
    path.write_text(json.dumps(document))
    found = calibration.load(path).equations["tag/bloom"]
    assert {each[place] for each in (found.values, *found.draws)} == {PAIR}


def test_checks_of_filters_are_paid_for(capsys):
    """3.2 billion checks take nearly a minute on two cores, or more."""
    found, _ = package_answer(capsys, *README, "--partitions", 10, "--files", 8_000)
    tags = {e["index"]: e["value"] for e in found["predictions"] if e["metric"] == "tag_s"}
    assert tags["global_bloom"] > 400_000 * 8_000 * PAIR / 2


def test_a_score_lets_the_answer_go_as_far_beyond_it(capsys):
    assert package_answer(capsys, *README)[0]["recommended"] == "record"


def test_there_is_no_single_winner_far_beyond_what_was_measured(capsys, fitted):
    found, said = package_answer(capsys, *FAR)
    assert found["recommended"] is None
    assert found["options"] == {}
    assert found["candidates"] == ["record", "global_simple", "global_bloom"]
    assert "200 times the rows of the largest table" in found["why"]
    would = "tables of 200,000,000 rows, fitted or scored, would allow one"
    command = "keymark run calibrate --set dataset.sizes=[20000000,200000000]"
    assert f"{would} ({command})" in found["why"]
    assert any(line.startswith("recommended: nothing") for line in said)
    at = Workload(rows=1e7, batch=1e4)
    known = calibration.load(fitted["fit"])
    assert choose(known, at, ["record", "bloom"]).recommended
    beyond = choose(known, replace(at, rows=1.1e7), ["record", "bloom"])
    assert beyond.recommended is None
    assert beyond.order
    scored = replace(known, scored_rows=1_000_000)
    assert choose(scored, replace(at, rows=1.1e7), ["record", "bloom"]).recommended


def test_a_saved_fit_remembers_what_it_was_scored_on(capsys, fitted, tmp_path):
    path = tmp_path / "scored.json"
    words = ("--calibration", fitted["fit"], "--score", fitted["other"], "--save", path)
    assert plan(capsys, *words)[0] == 0
    assert calibration.load(fitted["fit"]).scored_rows == 0
    known = calibration.load(path)
    assert known.scored_rows == 400_000
    assert {(each.quantity, each.beyond) for each in known.errors} >= {("tag", 4.0), ("write", 4.0)}
    assert len(known.errors) == len({(each.quantity, each.index) for each in known.errors})
    _, said = plan(capsys, "--calibration", path, "--score", fitted["other"])
    assert " 4x " in said


def test_a_tie_is_called_one_before_anything_is_recommended(fitted, monkeypatch):
    costs = {
        "record": Estimate(1.0, 0.5, 2.0),
        "global_simple": Estimate(1.1, 0.6, 2.2),
        "global_bloom": Estimate(4.0, 3.0, 5.0),
    }
    monkeypatch.setattr("keymark.reports.plan.decide.added", lambda _, index, __: costs[index])
    made = answer(calibration.load(fitted["fit"]), PlanRequest(at=Workload(rows=1e6, batch=1e4)))
    assert made.choice.recommended == "record"
    said = lines(made)
    differ = f"; as predicted they differ by {made.tie_share:.0%} of a write"
    assert said[0] == f"tie of record and global_simple: their ranges overlap{differ}"
    assert said[1].startswith("recommended: record (record is predicted to add least")
    costs["global_simple"] = Estimate(4.0, 3.0, 5.0)
    made = answer(calibration.load(fitted["fit"]), PlanRequest(at=Workload(rows=1e6, batch=1e4)))
    assert not any("tie" in line.split() for line in lines(made))
    assert made.tie_share is None


def test_crossovers_are_rounded_and_left_out_where_nobody_knows(fitted):
    """A range says how far off the place is; of more than a factor of three there is none."""
    known = calibration.load(fitted["fit"])
    at = Workload(rows=1e6, batch=1e4, shards=4, local_bytes=0.0)
    candidates = ["record", "global_simple", "global_bloom"]
    found = crossovers(known, at, candidates)
    assert found
    for each in found:
        assert each.low <= each.at <= each.high <= 3.05 * each.low
        assert each.at == float(f"{each.at:.2g}")
    equations = {name: replace(e, spread=1.0) for name, e in known.equations.items()}
    assert crossovers(replace(known, equations=equations), at, candidates) == []


def test_ordered_keys_make_bloom_cheaper(capsys):
    # Mappings of ordered keys are shorter, so that fewer shards would do.
    size = ("--records", 50_000_000, "--batch", 400_000, "--files", 2_000, "--shards", 10)
    size = (*size, "--keys-stay")

    def tagging(*words):
        found, _ = package_answer(capsys, *size, *words)
        return {e["index"]: e["value"] for e in found["predictions"] if e["metric"] == "tag_s"}

    random, ordered = tagging(), tagging("--ordered")
    # Random: 800 million pairs; ordered: 200,000 known keys, one file of 10 partitions each.
    bloom = calibration.load().equations["tag/bloom"]
    pair = bloom.values[bloom.amounts.index("pairs")]
    assert pair >= PAIR
    saved = (400_000 * 2_000 - 200_000 * 10) * pair / 2
    assert random["global_bloom"] - ordered["global_bloom"] == pytest.approx(saved, rel=0.01)
    assert ordered["bloom"] < 0.9 * random["bloom"]
    assert ordered["record"] == random["record"]


def test_a_small_part_of_the_write_is_told(capsys):
    found, said = package_answer(capsys, *README)
    numbers = {(e["index"], e["metric"]): e["value"] for e in found["predictions"]}
    best = min(found["candidates"], key=lambda index: numbers[index, "added_s"])
    share = numbers[best, "added_s"] / numbers[best, "write_s"]
    assert found["index_share"] == pytest.approx(share)
    assert share < 0.05
    assert f"with {best} the index is {share:.0%} of this write" in said
    _, said = package_answer(capsys, *README, "--index", "bucket")
    assert "with bucket the index is less than 1% of this write" in said
    size = ("--records", 5_000_000, "--batch", 20_000, "--partitions", 20)
    large, said = package_answer(capsys, *size, "--index", "global_simple")
    assert large["index_share"] > 0.05
    assert not any("of this write" in line for line in said)


def test_shards_are_recommended_with_the_reason_whichever_index_wins(capsys):
    for words in (FAR, ("--records", 100_000, "--batch", 100, "--index", "global_simple")):
        found, said = package_answer(capsys, *words)
        assert found["recommended"] != "record"
        shards = found["shards"]
        assert shards["index"] == "record"
        assert shards["count"] == found["situation"]["shards"]
        line = f"record index: {shards['count']:,} file groups ({shards['why']})"
        assert line in said
        assert "room for twice the rows" in shards["why"]
    asked_for = package_answer(capsys, *README, "--shards", 7)[0]["shards"]
    assert (asked_for["count"], asked_for["why"][:8]) == (7, "as asked")


def test_the_engine_stands_first(capsys, tmp_path):
    path = tmp_path / "plan.html"
    words = ("--records", 1_000_000, "--batch", 10_000)
    found, said = package_answer(capsys, *words, "--html", path)
    assert next(iter(found)) == "engine"
    assert found["engine"] == "native"
    assert said[0] == "Predictions for Keymark's own engine (native), not for Apache Hudi's."
    body = path.read_text().partition("<body>")[2]
    assert body.index("own engine (native)") < body.index("<h1>")


def test_a_month_is_paid_for(capsys, fitted, tmp_path):
    (tmp_path / "prices.toml").write_text(PRICES)
    found = asked(capsys, fitted, "--prices", tmp_path / "prices.toml", "--executors", 3)
    numbers = {(each["index"], each["metric"]): each["value"] for each in found["predictions"]}
    days = 365.25 / 12
    writes = numbers["record", "write_s"] / 3600 * 24 * days * 3 * 0.5
    kept = numbers["record", "index_bytes"] / 1e9 * 0.02 + 1.0 * 24 * days
    assert numbers["record", "cost_month"] == pytest.approx(writes + kept)
    units = {each["unit"] for each in found["predictions"] if each["metric"] == "cost_month"}
    assert units == {"EUR"}
    size = ("--records", 10_000_000, "--batch", 50_000, "--calibration", fitted["fit"])
    code, said = plan(capsys, *size, "--prices", tmp_path / "prices.toml")
    assert code == 0
    assert "EUR" in said


def test_constants_are_told_with_their_intervals(capsys, fitted):
    code, said = plan(capsys, "--constants", "--calibration", fitted["fit"], "--json")
    assert code == 0
    found = {(each["equation"], each["amount"]): each for each in json.loads(said)["constants"]}
    known = calibration.load(fitted["fit"])
    assert len(found) == sum(len(each.amounts) for each in known.equations.values())
    for each in found.values():
        assert each["low"] <= each["high"], each
    row = found["shuffle/simple", "rows_ordered"]
    assert (row["unit"], row["words"]) == ("B", "a row, keys that grow")
    assert row["value"] == pytest.approx(TRUE["rows_ordered"], rel=0.01)
    assert found["tag/record", "shards_tasks"]["unit"] == "s"
    code, said = plan(capsys, "--constants", "--calibration", fitted["fit"])
    assert code == 0
    assert "a file group of the index, in tasks" in said


def test_every_amount_of_every_formula_has_words():
    for at in (place(rows=1e6, batch=1e4), place(rows=1e6, batch=1e4, shape="ordered")):
        for model in (KEYMARK, HUDI):
            for name, index, mode in product(QUANTITIES, model.known, (TASKS, THREADS)):
                found = model.amounts(name, index, at, mode)
                assert all(worded(amount) != amount for amount in found)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("executor_hour = [", "cannot be read"),
        (PRICES + "\nregion = 'eu'", "service_hour: expected a table of numbers"),
        ("executor_hours = 1\n" + PRICES, "executor_hours: no such price"),
        (PRICES.replace("0.5", "-1"), "executor_hour: expected a number that is not negative"),
        (PRICES.replace("24", "nan"), "writes_per_day: expected a number"),
        (PRICES.replace("0.02", "'cheap'"), "storage_gb_month: expected a number"),
    ],
    ids=["toml", "service", "unknown", "negative", "nan", "text"],
)
def test_a_wrong_price_file_is_one_clear_line(capsys, fitted, tmp_path, text, expected):
    path = tmp_path / "prices.toml"
    path.write_text(text)
    code, said = plan(
        capsys, "--records", 1000, "--batch", 10, "--calibration", fitted["fit"], "--prices", path
    )
    assert code == 2
    assert expected in said
    assert said.count("error: ") == 1


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--records", "10"], "--records and --batch"),
        (["--records", "10", "--batch", "1", "--index", "hash"], "has no index 'hash'"),
        (["--records", "10", "--batch", "1", "--calibration", "/nowhere"], "not a run folder"),
        (["--records", "0", "--batch", "1"], "--records"),
        (["--records", "10", "--batch", "1", "--fit-rows", "9"], "it needs --calibration RUN"),
    ],
    ids=["missing", "index", "calibration", "zero", "no-fit"],
)
def test_a_wrong_question_is_one_clear_line(capsys, words, expected):
    code, said = plan(capsys, *words)
    assert code == 2
    assert expected in said


@pytest.mark.parametrize(
    "change",
    [
        lambda d: d.pop("ranges"),
        lambda d: d.update(schema_version=99),
        lambda d: d.update(schema_version=1),
        lambda d: d["equations"]["tag/record"]["values"].pop(),
        lambda d: d.update(equations=[]),
        lambda d: d.update(cores="many"),
        lambda d: d["ranges"].pop("rows"),
        lambda d: d["ranges"].update(rows=[0, 0]),
    ],
    ids=["missing", "newer", "older", "short", "list", "text", "rangeless", "empty"],
)
def test_a_damaged_calibration_is_one_clear_line(capsys, fitted, tmp_path, change):
    document = json.loads(fitted["fit"].read_text())
    change(document)
    path = tmp_path / "fit.json"
    path.write_text(json.dumps(document))
    code, said = plan(capsys, "--records", 1000, "--batch", 10, "--calibration", path)
    assert code == 2
    assert said.startswith("error: ")
    assert "fit.json" in said


def test_a_score_says_how_far_off_and_how_often_right(capsys, fitted):
    words = ("--calibration", fitted["fit"], "--score", fitted["other"])
    code, said = plan(capsys, *words, "--json")
    assert code == 0
    found = json.loads(said)
    assert found["cells"] == found["extrapolated"] == 72
    assert {each["quantity"] for each in found["errors"]} >= {"tag", "shuffle", "write"}
    assert {each["among"] for each in found["recommendations"]} == {"global", "all"}
    code, said = plan(capsys, *words)
    assert "72 cells, 72 of them beyond the calibration" in said
    code, said = plan(capsys, "--calibration", fitted["fit"], "--score", fitted["run"])
    assert code == 2
    assert "fitted to" in said


def test_the_page_stands_alone(capsys, fitted, tmp_path):
    path = tmp_path / "plan.html"
    words = ("--records", 10_000_000, "--batch", 50_000, "--calibration", fitted["fit"])
    code, said = plan(capsys, *words, "--html", path)
    assert code == 0
    assert "recommended: " in said
    page = path.read_text()
    assert page.count("<svg") == 3
    assert "Extrapolated" in page
    assert "http" not in page.replace("http-equiv", "")
    assert "<script" not in page


def test_plan_imports_nothing_heavy():
    code = (
        "import sys, run_bench\n"
        "assert run_bench.main(['plan', '--records', '1000', '--batch', '10', '--json']) == 0\n"
        "heavy = {'pyspark', 'pandas', 'matplotlib', 'numpy', 'scipy', 'pyarrow', 'rich'}\n"
        "print(sorted(heavy & set(sys.modules)), file=sys.stderr)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stderr.strip().splitlines()[-1] == "[]"
    assert json.loads(done.stdout)["predictions"]
