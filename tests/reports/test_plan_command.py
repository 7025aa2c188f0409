"""The command `plan` through the door that users take: answers, prices, errors, what it imports."""

from __future__ import annotations

import json
import subprocess
import sys
from itertools import product
from pathlib import Path

import pytest
from synthetic_plan import TRUE, place, plan_run

from keymark import cli as run_bench
from keymark.indexes.spec import TASKS, THREADS
from keymark.indexes.workload import Workload
from keymark.reports.plan import calibration
from keymark.reports.plan.answer import PlanRequest
from keymark.reports.plan.answer import plan as answer
from keymark.reports.plan.constants import worded
from keymark.reports.plan.decide import choose
from keymark.reports.plan.formulas import QUANTITIES, amounts, known
from keymark.reports.plan.predict import Estimate, estimate

ROOT = Path(__file__).parents[2]
METRICS = {
    "write_s", "tag_s", "added_s", "lookup_s", "shuffle_bytes", "index_bytes", "memory_bytes",
    "bootstrap_s",
}  # fmt: skip
PRICES = """
currency = "EUR"
executor_hour = 0.5
storage_gb_month = 0.02
writes_per_day = 24
[service_hour]
record = 1.0
"""


@pytest.fixture(scope="module")
def fitted(tmp_path_factory):
    """A saved fit and the runs that it can be compared with."""
    folder = tmp_path_factory.mktemp("command")
    run = plan_run(folder / "run", repetitions=1)
    other = plan_run(folder / "other", run_id="o1", repetitions=1, sizes=(400_000,))
    path = folder / "fit.json"
    assert run_bench.main(["plan", "--calibration", str(run), "--save", str(path)]) == 0
    return {"fit": path, "run": run, "other": other}


def plan(capsys, *words):
    """Exit code, and what the command printed."""
    code = run_bench.main(["plan", *(str(word) for word in words)])
    said = capsys.readouterr()
    return code, said.out if code == 0 else said.err


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


def test_ranges_are_wider_outside_of_the_calibration(fitted):
    known = calibration.load(fitted["fit"])
    equation = known.equations["tag/simple"]
    amounts = {"once_tasks": 1.0, "files": 10.0, "sorted": 1e7, "keys_tasks": 1e4}
    inside, outside = estimate(equation, amounts), estimate(equation, amounts, wider=2.0)
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


def test_crossovers_are_where_the_cheapest_index_changes(fitted):
    known = calibration.load(fitted["fit"])
    made = answer(known, PlanRequest(at=Workload(rows=1e6, batch=1e4, shards=4, local_bytes=0.0)))
    for each in made.crossovers:
        assert each.below != each.above
        assert each.at > 0
    assert made.crossovers


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
        for quantity, index, mode in product(QUANTITIES, known(), (TASKS, THREADS)):
            found = amounts(quantity, index, at, mode)
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
        (["--records", "10", "--batch", "1", "--index", "hash"], "knows no index 'hash'"),
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
    ],
    ids=["missing", "newer", "older", "short", "list", "text"],
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
