"""The price lists that ship, and `plan --machine`: dates, sources, what is left out, errors."""

from __future__ import annotations

import datetime as dt
import json
import tomllib

import pytest
from plan_cases import PRICES, plan
from synthetic_plan import plan_run

from keymark.reports.errors import ReportError
from keymark.reports.plan.price_list import FOLDER, machine, machines, read

LISTS = sorted(FOLDER.glob("*.toml"))
MONTH_DAYS = 365.25 / 12
SIZE = ("--records", 1_000_000, "--batch", 10_000, "--index", "record")


def test_each_price_has_its_date_its_source_and_its_unit():
    assert machines()
    for each in machines().values():
        assert each.quotes[0].of == "executor"
        assert each.quotes[0].unit == "hour"
        assert each.sizes_page.startswith("https://")
        for quote in each.quotes:
            assert dt.date(2020, 1, 1) < quote.date < dt.date(2030, 1, 1)
            assert quote.page.startswith("https://")
            assert quote.unit in ("hour", "GiB month", "GiB hour", "1000 requests")
            assert (quote.currency, bool(quote.region)) == ("USD", True)
            assert 0 <= quote.planned < 10


def test_no_machine_is_in_two_lists_and_larger_ones_of_a_family_cost_in_proportion():
    names = [each.name.casefold() for path in LISTS for each in read(path)]
    assert len(names) == len(set(names))
    prices = {each.name: each.quotes[0].amount / each.cores for each in machines().values()}
    assert prices["m5.2xlarge"] == pytest.approx(prices["m5.8xlarge"])
    assert prices["n2-standard-8"] == pytest.approx(prices["n2-standard-64"])
    assert prices["Standard_E8s_v5"] == pytest.approx(prices["Standard_E32s_v5"])


def test_a_list_price_becomes_one_that_the_plan_reckons_with():
    store = {quote.of: quote.planned for quote in machine("n2-standard-16").quotes}
    # 0.000027397 a GiB and hour: 730.5 hours, and a GiB is 1.0737 GB.
    assert store["storage"] == pytest.approx(0.000027397 * 730.5 / 1.073741824)
    assert store["put"] == 0.005
    assert store["executor"] == 0.776944


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("amount = 0.776944", "amount = -1", "machines.3.amount"),
        ("amount = 0.776944", "amount = '1'", "machines.3.amount"),
        ("amount = 0.776944", "amount = nan", "machines.3.amount"),
        ("cores = 16, memory_gib = 64", "cores = 0, memory_gib = 64", "machines.3.cores"),
        ("cores = 16, memory_gib = 64", "core = 16, memory_gib = 64", "machines.3.core"),
        ("date = 2025-03-06", "date = '2025-03-06'", "sources.machines.date"),
        ("date = 2025-03-06", "", "sources.machines.date"),
        ('page = "https', 'page = "http', "page"),
        ('unit = "GiB hour"', 'unit = "1000 requests"', "storage has a price of a GiB"),
        ('source = "store"', 'source = "shop"', "there is no source 'shop'"),
        ('cloud = "gcp"', "cloud = [", "cannot be read"),
    ],
)  # fmt: skip
def test_a_damaged_list_is_one_clear_line(tmp_path, old, new, told):
    text = (FOLDER / "gcp.toml").read_text()
    assert old in text
    path = tmp_path / "gcp.toml"
    path.write_text(text.replace(old, new))
    with pytest.raises(ReportError) as raised:
        read(path)
    assert told in str(raised.value)
    assert "gcp.toml" in str(raised.value)
    assert "\n" not in str(raised.value)


def answer(capsys, *words):
    """The JSON answer, and the numbers in it by metric."""
    code, said = plan(capsys, *SIZE, *words, "--json")
    assert code == 0, said
    found = json.loads(said)
    return found, {e["metric"]: e["value"] for e in found["predictions"] if e["index"] == "record"}


def test_a_machine_gives_cores_memory_and_the_cost_of_a_month(capsys):
    found, numbers = answer(
        capsys, "--machine", "N2-Standard-16", "--executors", 3, "--writes-per-day", 48
    )
    assert found["situation"]["cores"] == 48
    runs_on = found["cost"]["machine"]
    assert (runs_on["name"], runs_on["memory_bytes"]) == ("n2-standard-16", 64 << 30)
    hours = numbers["write_s"] / 3600 * 48 * MONTH_DAYS * 3
    store = {quote.of: quote.planned for quote in machine("n2-standard-16").quotes}
    kept = numbers["index_bytes"] / 1e9 * store["storage"]
    assert numbers["cost_month"] == pytest.approx(hours * 0.776944 + kept)
    assert found["cost"]["writes_per_day"] == 48
    assert {each["date"] for each in found["cost"]["prices"]} == {"2025-03-06", "2026-09-20"}
    assert not found["cost"]["requests"]


def test_the_answer_names_date_and_source_of_each_price(capsys, tmp_path):
    page = tmp_path / "plan.html"
    code, said = plan(capsys, *SIZE, "--machine", "n2-standard-16", "--html", page)
    assert code == 0
    assert "cost a month: 24 writes a day" in said
    assert "executor: n2-standard-16, 16 cores, 64.0 GiB of memory" in said
    for quote in machine("n2-standard-16").quotes[:2]:
        listed = f"{quote.amount:.9f}".rstrip("0")
        (line,) = [each for each in said.splitlines() if f" {listed} USD" in each]
        assert line.endswith(f"price list of {quote.date.isoformat()}: {quote.page}")
    assert "requests are not in the cost: this calibration has none" in said
    text = page.read_text()
    assert "What the cost is made of" in text
    assert "price list of 2025-03-06" in text


def test_storage_without_a_price_is_said_to_be_left_out(capsys, tmp_path):
    words = ("--machine", "Standard_D16s_v5")
    found, numbers = answer(capsys, *words)
    assert not found["cost"]["storage"]
    hours = numbers["write_s"] / 3600 * 24 * MONTH_DAYS
    assert numbers["cost_month"] == pytest.approx(hours * 0.768)
    _, said = plan(capsys, *SIZE, *words)
    assert "storage is not in the cost: no price list with it ships for this cloud" in said
    path = tmp_path / "prices.toml"
    path.write_text("storage_gb_month = 0.5\n")
    found, with_storage = answer(capsys, *words, "--prices", path)
    assert found["cost"]["storage"]
    kept = with_storage["cost_month"] - numbers["cost_month"]
    assert kept == pytest.approx(numbers["index_bytes"] / 1e9 * 0.5)


def test_a_price_file_comes_before_the_list(capsys, tmp_path):
    path = tmp_path / "prices.toml"
    path.write_text("executor_hour = 10\nwrites_per_day = 1\n[requests_1000]\nput = 7\n")
    found, numbers = answer(capsys, "--machine", "n2-standard-16", "--prices", path)
    assert [each["of"] for each in found["cost"]["prices"]] == ["storage"]
    hours = numbers["write_s"] / 3600 * MONTH_DAYS
    storage = machine("n2-standard-16").quotes[1]
    kept = numbers["index_bytes"] / 1e9 * storage.planned
    assert numbers["cost_month"] == pytest.approx(hours * 10 + kept)
    path.write_text(PRICES)  # in EUR, and complete: nothing of the list is used
    found, _ = answer(capsys, "--machine", "n2-standard-16", "--prices", path)
    assert (found["cost"]["currency"], found["cost"]["prices"]) == ("EUR", [])
    path.write_text("currency = 'EUR'\nstorage_gb_month = 1\n")
    code, said = plan(capsys, *SIZE, "--machine", "n2-standard-16", "--prices", path)
    assert code == 2
    assert "is in EUR and the price of n2-standard-16 in USD" in said
    assert said.rstrip().endswith("the file needs executor_hour, too")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--machine", "m99.huge"), "list has the machine m99.huge (they have m5.2xlarge, "),
        (("--machine", "m99.huge"), "give your own prices with --prices FILE"),
        (("--machine", "m5.4xlarge", "--cores", 4), "m5.4xlarge has 16 cores: leave --cores out"),
        (("--writes-per-day", 4), "it needs --machine or --prices"),
    ],
)
def test_a_wrong_question_is_one_clear_line(capsys, words, told):
    code, said = plan(capsys, *SIZE, *words)
    assert code == 2
    assert told in said
    assert said.count("\n") == 1


def test_requests_that_were_measured_count_with_the_price_of_the_list(capsys, tmp_path):
    run = plan_run(tmp_path / "run", repetitions=1, on_store=True)
    calibrated = ("--calibration", run, "--writes-per-day", 1000)
    found, numbers = answer(capsys, *calibrated, "--machine", "n2-standard-16")
    assert found["cost"]["requests"]
    assert found["cost"]["requests_without_price"] == []
    assert [each["of"] for each in found["cost"]["prices"]] == ["executor", "storage", "get", "put"]
    _, said = plan(capsys, *SIZE, *calibrated, "--machine", "n2-standard-16")
    assert "  PUT: 0.005 USD for 1,000 requests in us-central1, price list of 2026-09-20" in said
    prices = {quote.of: quote.planned for quote in machine("n2-standard-16").quotes}
    write = numbers["write_s"] / 3600 * prices["executor"]
    write += sum(numbers[f"{kind}_requests"] * prices[kind] / 1000 for kind in ("get", "put"))
    kept = numbers["index_bytes"] / 1e9 * prices["storage"]
    assert numbers["cost_month"] == pytest.approx(1000 * MONTH_DAYS * write + kept)
    path = tmp_path / "prices.toml"
    path.write_text("executor_hour = 1\nstorage_gb_month = 1\n[requests_1000]\nget = 1\n")
    found, _ = answer(capsys, *calibrated, "--prices", path)
    assert found["cost"]["requests_without_price"] == ["PUT"]
    _, said = plan(capsys, *SIZE, *calibrated, "--prices", path)
    assert "PUT requests are not in the cost: no price of them is given" in said


def test_a_list_has_the_name_of_its_cloud_and_says_where_on_a_page_a_price_is():
    for path in LISTS:
        document = tomllib.loads(path.read_text())
        assert path.stem == document["cloud"]
        assert all(source["note"] for source in document["sources"].values())
