"""Advice: every rule at its number, none on healthy tables, words that a person reads first."""

from __future__ import annotations

import json
import re
import tarfile
from dataclasses import replace
from pathlib import Path

import pytest
from synthetic_survey import MIB, files, healthy, record_index, shards, write

from keymark import cli
from keymark.reports.advise.advice import advise, document
from keymark.reports.advise.findings import RULES
from keymark.reports.advise.log_split import LogSplit, split_log
from keymark.reports.advise.page import html
from keymark.reports.advise.render import lines
from keymark.reports.advise.situation import Asked
from keymark.reports.errors import ReportError
from keymark.reports.plan import calibration
from keymark.reports.plan import render as plan_text
from keymark.reports.plan.decide import Crossover

DATA = Path(__file__).parents[1] / "data"
LEAKY = replace(healthy().filters, false_positives=0.3)
PENDING = replace(healthy().services, pending=(("20260101030000000", "compaction"),))
NO_INDEX = {"record_index": None, "metadata_partitions": ("files",)}

# The survey, what the user says, and the finding.
FAULTS = {
    "few shards": (healthy(record_index=record_index(2)), {}, "few_shards"),
    "one shard": (healthy(record_index=record_index(1)), {}, "few_shards"),
    "full shards": (
        healthy(record_index=record_index(shards=shards(20, size=1100 * MIB))),
        {},
        "few_shards",
    ),
    "many keys a shard": (
        healthy(rows=2_000_000_000, record_index=record_index(100)),
        {},
        "few_shards",
    ),
    "skewed shard": (
        healthy(record_index=record_index(shards=(*shards(9), *shards(1, size=500 * MIB)))),
        {},
        "skewed_shard",
    ),
    "small files": (
        healthy(files=files(base_files=4000, groups=4000, sizes=(0, MIB // 4, MIB))),
        {},
        "small_files",
    ),
    "cleaner": (
        healthy(files=files(overdue_bytes=500 * MIB, overdue_files=10)),
        {},
        "cleaning_lags",
    ),
    "filter": (healthy(filters=LEAKY, **NO_INDEX), {"index": "global_bloom"}, "small_filter"),
    "filter of an index not known": (healthy(filters=LEAKY, **NO_INDEX), {}, "small_filter"),
    "index is missing": (healthy(**NO_INDEX), {"index": "record"}, "index_missing"),
    "index is not asked": (healthy(), {"index": "global_simple"}, "index_unused"),
    "logs of the index": (
        healthy(record_index=record_index(shards=shards(10, logs=40))),
        {},
        "index_logs_wait",
    ),
    "compaction": (
        healthy(
            merge_on_read=True,
            files=files(log_files=300, log_bytes=900 * MIB),
            writes=tuple(write(n, action="deltacommit") for n in range(24)),
        ),
        {},
        "compaction_lags",
    ),
    "pending": (healthy(services=PENDING), {}, "stuck"),
    "archive": (healthy(writes=tuple(write(n) for n in range(200))), {}, "long_timeline"),
}
HEALTHY = {
    "healthy": (healthy(), {}),
    "not its filters": (healthy(filters=LEAKY), {}),
    "small": (healthy(rows=2_000, record_index=record_index(2)), {}),
    "small files of a small table": (
        healthy(rows=2_000, files=files(base_files=30, groups=30)),
        {},
    ),
    "old versions that readers need": (healthy(files=files(old_bytes=9_000 * MIB)), {}),
    "compacted": (
        healthy(
            merge_on_read=True,
            files=files(log_files=300, log_bytes=900 * MIB),
            services=replace(healthy().services, compactions=4),
            writes=tuple(write(n, action="deltacommit") for n in range(24)),
        ),
        {},
    ),
    "just planned": (
        healthy(services=replace(PENDING, pending=(("20260101210000000", "compaction"),))),
        {},
    ),
    "partitioned": (
        healthy(
            record_index=record_index(
                partitioned=True, shards=(*shards(1, size=MIB), *shards(1, size=400 * MIB))
            )
        ),
        {},
    ),
    "empty": (healthy(rows=0, writes=(), record_index=None, metadata_partitions=()), {}),
}


SCANS = {
    "rows": 4_000_000,
    "record_index": None,
    "metadata_partitions": ("files",),
    "writes": tuple(
        write(n, updated=500, inserted=500, files=1, rows_written=1_000) for n in range(9)
    ),
}
"""A small batch into many rows: to read all keys is most of a write."""


@pytest.fixture(scope="module")
def known():
    return calibration.load()


def advice(survey, known, **asked):
    return advise(survey, Asked(**asked), known)


def kinds(made):
    """What was found, but for the choice of another index, which is the planner's."""
    return [each.kind for each in made.findings if each.kind != "other_index"]


@pytest.mark.parametrize("name", FAULTS)
def test_a_planted_fault_is_named_and_no_other(known, name):
    survey, asked, kind = FAULTS[name]
    made = advice(survey, known, **asked)
    assert kinds(made) == [kind]
    (found,) = (each for each in made.findings if each.kind == kind)
    assert any(character.isdigit() for character in found.what) or kind == "index_missing"
    assert found.why
    assert found.do


@pytest.mark.parametrize("name", HEALTHY)
def test_no_false_alarm(known, name):
    survey, asked = HEALTHY[name]
    assert kinds(advice(survey, known, **asked)) == []


def test_every_rule_has_a_fault():
    assert {rule.__name__ for rule in RULES} == {kind for _, _, kind in FAULTS.values()}


def done(survey, known, kind, **asked):
    """What the finding of a kind says is to be done."""
    return next(each.do for each in advice(survey, known, **asked).findings if each.kind == kind)


def test_an_index_that_is_built_anew_gets_more_file_groups_than_it_has(known):
    """Of long keys 10,000,000 take more than the published 2,000,000 keys a file group allow."""
    said = done(FAULTS["full shards"][0], known, "few_shards")
    assert said.endswith("hoodie.metadata.record.index.min.filegroup.count=44")
    said = done(FAULTS["few shards"][0], known, "few_shards")
    assert said.endswith("hoodie.metadata.record.index.min.filegroup.count=10")


def test_advice_on_a_partitioned_record_index_names_its_own_options(known):
    index = record_index(partitioned=True, shards=shards(10, size=1100 * MIB))
    said = done(healthy(rows=400_000_000, record_index=index), known, "few_shards")
    assert said == (
        "build the index anew: one write with hoodie.metadata.record.level.index.enable=false, "
        "then true with hoodie.metadata.record.level.index.min.filegroup.count=20, "
        "hoodie.metadata.record.level.index.max.filegroup.count=20"
    )
    index = record_index(partitioned=True)
    said = done(healthy(record_index=index), known, "index_unused", index="global_simple")
    assert "hoodie.index.type=RECORD_LEVEL_INDEX," in said
    assert "(hoodie.metadata.record.level.index.enable=false)" in said


def test_another_index_is_advised_where_it_saves_a_good_part(known):
    """Among 1,000,000 rows with a small batch, a scan of all keys is most of a write."""
    survey = healthy(**SCANS)
    made = advice(survey, known, index="global_simple")
    assert [each.kind for each in made.findings] == ["other_index"]
    assert "hoodie.index.type=" in made.findings[0].do
    assert made.plan.choice.recommended in made.findings[0].what
    assert "for the engine native" in made.findings[0].why
    other = advice(survey, replace(known, engine="hudi@1.2.0"), index="global_simple")
    assert all("engine native" not in each.why for each in other.findings)


def test_an_index_that_lays_the_rows_out_is_advised_only_where_it_does(known):
    # Of keys that stay in their partition, bucket would add least.
    made = advice(healthy(**SCANS), known, index="simple")
    assert made.plan.choice.recommended != "bucket"
    assert "bucket" not in made.plan.candidates
    assert "bucket" in made.plan.of("added_s")
    told = plan_text.basis(made.plan)
    assert "not compared: bucket; the table would have to be loaded anew" in told
    there = advice(healthy(files=files(buckets=True), **SCANS), known, index="bucket")
    assert "bucket" in there.plan.candidates


def test_of_a_merge_on_read_table_only_what_is_true_of_it_is_told(known):
    """Its writes rewrite no files, so that the whole of a write and shares of it are unknown."""
    copied = advice(healthy(**SCANS), known, index="global_simple")
    assert [each.kind for each in copied.findings] == ["other_index"]
    made = advice(healthy(merge_on_read=True, **SCANS), known, index="global_simple")
    assert made.findings == ()
    assert made.parts == {part: copied.parts[part] for part in ("tag", "index")}
    assert made.plan.of("added_s") == copied.plan.of("added_s")
    assert made.plan.choice == copied.plan.choice
    assert made.situation.at.changed_files == 1
    told = document(made)
    assert told["plan"]["index_share"] is None
    assert set(told["parts"]) == {"tag", "index"}
    left = told["plan"]["left_out"]
    assert left["parts"] == ["write", "around"]
    metrics = {each["metric"] for each in told["plan"]["predictions"]}
    assert not metrics & set(left["metrics"])
    assert {"added_s", "tag_s", "lookup_s"} <= metrics
    text = "\n".join([*lines(made), *plan_text.lines(made.plan)])
    assert "what the index adds to a write, by the plan\n  finding the records: " in text
    assert text.count(left["why"]) == 1
    assert "rewriting files" not in text
    assert "of this write" not in text
    assert "left_out" not in document(copied)["plan"]
    assert left["why"] not in plan_text.lines(copied.plan)


def test_a_log_of_a_merge_on_read_table_is_split_and_not_compared(known):
    log = LogSplit(path="log", seconds={"tag": 6.0}, shuffle_bytes={}, untold_seconds=1.0)
    made = advise(healthy(merge_on_read=True), Asked(), known, log)
    assert made.parts
    assert made.check == ()
    assert "   86%  finding the records: 6.00 s" in "\n".join(lines(made))


def test_what_hangs_on_the_latency_of_a_store_is_not_advised(known):
    """The constants are those of tables on a local disk."""
    on_disk = advice(healthy(**SCANS), known, index="global_simple")
    assert [each.kind for each in on_disk.findings] == ["other_index"]
    assert "unknown_latency" not in document(on_disk)["plan"]
    survey = healthy(path="s3://lake/trips", **SCANS)
    made = advice(survey, known, index="global_simple")
    assert made.findings == ()
    assert made.plan.crossovers == ()
    told = document(made)["plan"]
    assert told["unknown_latency"]["run"] == "keymark run calibrate --tables s3://bucket/folder"
    text = [*lines(made), *plan_text.lines(made.plan)]
    assert sum("the latency of a store is not in these predictions" in line for line in text) == 1
    assert "where the time of a write goes, by the plan, without its store's latency" in text
    there = advice(survey, replace(known, tables="s3"), index="global_simple")
    assert [each.kind for each in there.findings] == ["other_index"]
    assert "unknown_latency" not in document(there)["plan"]


def test_the_first_line_is_the_finding(known):
    assert lines(advice(healthy(), known))[0].startswith("trips: nothing to change")
    text = lines(advice(FAULTS["few shards"][0], known))
    assert text[0] == (
        "trips: one thing to change now; first: the record index has 2 file groups, 5,000,000 keys "
        "and up to 51.0 MiB each."
    )
    both = advice(
        healthy(record_index=record_index(2), filters=LEAKY, files=files(overdue_bytes=1 << 40)),
        known,
    )
    assert lines(both)[0].startswith("trips: 2 things to change now; first: the record index")


def test_the_workload_is_the_tables_own(known):
    at = advice(healthy(), known).situation.at
    assert (at.rows, at.batch, at.files, at.partitions) == (1e7, 10_000, 20, 10)
    assert (at.new_share, at.changed_files, at.shards) == (0.5, 4, 10)
    asked = advice(healthy(), known, batch=400_000).situation.at
    assert (asked.batch, asked.changed_files) == (400_000, None)


@pytest.mark.parametrize(
    "changes",
    [
        {"action": "replacecommit", "operation": "INSERT_OVERWRITE_TABLE", "inserted": 10_000_000},
        {"action": "replacecommit", "operation": "DELETE_PARTITION", "updated": 0, "inserted": 0},
        {"time": "00000000000001", "operation": "BULK_INSERT"},
    ],
)
def test_growth_that_writes_do_not_tell_is_not_said(known, changes):
    """An overwrite says what it put, not what it took out; a bootstrap has no time."""
    place = 0 if "time" in changes else 12
    writes = [write(number, **(changes if number == place else {})) for number in range(24)]
    made = advice(healthy(writes=tuple(writes)), known)
    assert made.outlook == ()
    assert made.situation.history.rows_a_day is None


def test_growth(known):
    grows, room, *_ = advice(healthy(), known).outlook
    assert grows.startswith("grows by 120,000 rows a day")
    assert "90,000,000 keys more" in room
    assert "750 days" in room


def test_when_another_index_takes_over_is_told_in_days(known, monkeypatch):
    """Where the plan knows a size and the timeline how fast the table grows."""
    later = Crossover(
        along="rows", at=2.2e7, low=1.6e7, high=3.4e7, below="bloom", above="simple",
        extrapolated=False,
    )  # fmt: skip
    past = replace(later, at=5e6)
    batches = replace(later, along="batch")
    monkeypatch.setattr("keymark.reports.plan.answer.crossovers", lambda *_: [past, later, batches])
    (said,) = advice(healthy(), known).outlook[2:]
    assert said == (
        "from about 22,000,000 rows on simple adds less to a write than bloom: in 100 days "
        "(50 to 200)"
    )
    still = healthy(writes=tuple(write(n, inserted=0) for n in range(24)))
    assert advice(still, known).outlook == ()


def test_an_index_that_does_not_exist(known):
    with pytest.raises(ReportError, match="there is no index 'btree'"):
        advice(healthy(), known, index="btree")


def test_the_document_is_json(known):
    made = document(advice(FAULTS["few shards"][0], known))
    assert json.loads(json.dumps(made, allow_nan=False))["findings"][0]["kind"] == "few_shards"
    assert made["table"]["record_index"]["shards"] == 2
    assert made["plan"]["engine"] == "native"


def test_an_event_log_stands_beside_the_plan(known, tmp_path):
    log = LogSplit(
        path="log",
        seconds={"tag": 6.0, "write": 3.0},
        shuffle_bytes={"tag": 5 << 20},
        untold_seconds=1.0,
    )
    text = lines(advise(healthy(), Asked(), known, log))
    assert "   60%  finding the records: 6.00 s, 5.00 MiB shuffled" in text
    assert "   10%  other stages: 1.00 s" in text
    made = advise(healthy(), Asked(), known, log)
    check = {each.part: each for each in made.check}
    assert {part: each.seconds for part, each in check.items()} == {
        "tag": 6.0, "index": 0.0, "write": 3.0, "around": 1.0,
    }  # fmt: skip
    assert sum(each.planned_share for each in check.values()) == pytest.approx(1)
    assert any(
        line.startswith("  finding the records: 60% of the stages, planned") for line in text
    )
    told = document(made)["event_log"]
    assert [each["part"] for each in told["check"]] == list(made.parts)
    assert told["check"][0]["planned"]["low"] <= told["check"][0]["planned"]["value"]
    assert document(advise(healthy(), Asked(), known))["event_log"] is None
    with pytest.raises(ReportError, match="there is no event log"):
        split_log(tmp_path / "absent")
    (tmp_path / "empty").write_text("{}\n")
    with pytest.raises(ReportError, match="no stage of Hudi's"):
        split_log(tmp_path / "empty")


def headings(page):
    return re.findall(r"<h2 [^>]*>([^<]*)</h2>", page)


def test_a_page_has_the_finding_first_and_stands_alone():
    survey = healthy(
        name="<b>trips</b>",
        record_index=record_index(2),
        writes=tuple(write(n) for n in range(200)),
        problems=("<i>a commit</i>: damaged",),
    )
    made = advise(survey, Asked(), calibration.load())
    page = html(made)
    found = page.index("&lt;b&gt;trips&lt;/b&gt;: one thing to change now; first: the record index")
    assert found < page.index("<h2")
    assert headings(page) == [
        "Where the time goes",
        "What each index would cost",
        "What to set",
        "What to watch",
        "When the answer changes",
        "The table as it was read",
    ]
    for part in ("few_shards", "long_timeline", "grows by", "Not read:", "finding the records:"):
        assert part in page
    assert page.index("few_shards") < page.index("What to watch") < page.index("long_timeline")
    assert "&lt;i&gt;a commit&lt;/i&gt;: damaged" in page
    assert not re.search(r"<b>|<i>|<script|http(?!-equiv)", page)
    # Each sentence of the plan that the terminal has, and each prediction.
    for row in plan_text.table(made.plan)[1]:
        assert all(entry.partition(" (")[0] in page for entry in row)


def test_a_page_without_a_plan_says_why():
    page = html(advise(HEALTHY["empty"][0], Asked(), calibration.load()))
    assert "No batch is known to plan with" in page
    assert "Nothing has to change." in page
    assert "Nothing needs watching." in page
    assert "Where the time goes" not in headings(page)


@pytest.mark.parametrize("archive", ["hudi-1.1.1-own", "hudi-1.2.0-own_merge_on_read"])
def test_command(archive, tmp_path, capsys):
    with tarfile.open(DATA / f"{archive}.tar.gz") as tar:
        tar.extractall(tmp_path, filter="data")
    (path,) = tmp_path.glob("*/table")
    assert cli.main(["advise", str(path), "--engine", "native"]) == 0
    said = capsys.readouterr().out
    assert "nothing to change" in said.splitlines()[0]
    assert "what each index would cost" in said
    assert "s of tasks for its files, summed over them" in said
    page = tmp_path / "advice.html"
    words = ["advise", str(path), "--json", "--commits", "2", "--html", str(page)]
    assert cli.main(words) == 0
    assert "nothing to change" in page.read_text()
    told = json.loads(capsys.readouterr().out)
    assert len(told["writes"]) == 2
    assert told["table"]["version"] == 9
    assert cli.main(["advise", str(path), "--engine", "hudi@0.16.0"]) == 2
    assert "there is no calibration of hudi@0.16.0" in capsys.readouterr().err
    assert cli.main(["advise", str(tmp_path)]) == 2
    assert "is not a Hudi table" in capsys.readouterr().err
