from __future__ import annotations

import dataclasses
import json
import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from harness_fakes import SAMPLE, HonestTable, Taker, context

from keymark.harness.measure.counters import counter_samples, label_of
from keymark.harness.measure.event_log import Counters, StepCounters
from keymark.harness.measure.session import measuring_conf
from keymark.harness.redaction import REDACTED, redact, redact_arguments
from keymark.harness.run.step import label
from keymark.harness.scenario import matrix, scenario
from keymark.harness.scenario.planned import describe
from keymark.harness.scenario.workload_section import SparkSection
from keymark.harness.store.store import RunFolder
from keymark.harness.store.units import METRICS
from keymark.harness.tables import independent, probes, snapshot
from keymark.harness.tables.key_text import encode_keys
from keymark.harness.tables.probes import Listing

LOGGED = {
    "native/record|r0|upsert_1": StepCounters(
        {"total": Counters(tasks=7, jobs=2, shuffle_write_bytes=70), "tag": Counters(tasks=3)}
    )
}


def phases(*names, **changes):
    return [dataclasses.replace(SAMPLE, phase=name, **changes) for name in names]


def counted(samples, logged=None):
    found = list(counter_samples(samples, LOGGED if logged is None else logged))
    return {(s.step, s.phase, s.metric): s for s in found}


def test_every_timed_phase_gets_every_counter_zeros_included():
    found = counted(phases("total", "tag", "commit"))
    assert len(found) == 3 * 9
    assert found["upsert_1", "total", "tasks"].value == 7
    assert found["upsert_1", "total", "jobs"].value == 2
    assert found["upsert_1", "total", "shuffle_write_bytes"].unit == "B"
    assert found["upsert_1", "tag", "tasks"].value == 3
    assert found["upsert_1", "commit", "tasks"].value == 0
    assert all(s.metric in METRICS for s in found.values())


def test_steps_that_have_counters_or_failed_get_none():
    samples = phases("total")
    again = [*samples, *counter_samples(samples, LOGGED)]
    assert counted(again) == {}
    assert counted(phases("total", valid=False, verified=False)) == {}


def test_counters_of_retried_tasks_are_not_valid_and_of_wrong_answers_not_verified():
    retried = {"native/record|r0|upsert_1": StepCounters({"total": Counters(5, failed_tasks=2)})}
    (sample,) = (s for s in counter_samples(phases("total"), retried) if s.metric == "tasks")
    assert (sample.valid, sample.reason) == (False, "2 Spark tasks failed and ran again")
    found = counted(phases("total", verified=False, reason="wrong"))
    assert {(s.verified, s.reason) for s in found.values()} == {(False, "wrong")}


def test_samples_and_event_log_agree_on_labels(tmp_path):
    resolved = scenario.load("ci")
    tools = context(tmp_path / "work")
    folder = RunFolder.create(tmp_path / "run")
    Taker(resolved, tools, folder).run(matrix.expand(resolved))
    assert {label_of(s) for s in folder.samples()} == set(tools.engines["native"].labels)
    assert label is not None


def put(table: Path, name: str, size: int) -> None:
    (table / name).parent.mkdir(parents=True, exist_ok=True)
    (table / name).write_bytes(b"x" * size)


def test_written_bytes_belong_to_their_phase(tmp_path):
    put(tmp_path, "p/old.parquet", 100)
    put(tmp_path, ".hoodie/metadata/record_index/.log.1", 10)
    before = Listing.of(tmp_path)
    put(tmp_path, "p/new.parquet", 50)
    put(tmp_path, "p/.new.parquet.crc", 8)
    put(tmp_path, ".hoodie/metadata/record_index/.log.1", 15)
    put(tmp_path, ".hoodie/metadata/record_index/.log.2", 20)
    put(tmp_path, ".hoodie/metadata/files/.log.1", 7)
    put(tmp_path, ".hoodie/1.commit", 3)
    (tmp_path / "p/old.parquet").unlink()
    after = Listing.of(tmp_path)
    found = probes.written(before, after)
    assert (found.data_files, found.data_bytes) == (1, 50)
    assert found.index_bytes == 25
    assert found.commit_bytes == 10
    assert found.total_bytes == 85
    assert after.index_bytes == 35


def test_rows_written_are_those_of_the_commits_of_a_step(tmp_path):
    put(tmp_path, ".hoodie/20260101000000001.commit", 0)
    before = Listing.of(tmp_path)
    stats = {"p=1": [{"numWrites": 3}, {"numWrites": 4}], "p=2": [{"numWrites": 5}, {}]}
    text = json.dumps({"partitionToWriteStats": stats})
    (tmp_path / ".hoodie/20260101000000002.commit").write_text(text)
    (tmp_path / ".hoodie/20260101000000003.commit").write_text("{}")
    put(tmp_path, ".hoodie/20260101000000004.commit.requested", 3)
    put(tmp_path, ".hoodie/metadata/.hoodie/20260101000000002.deltacommit", 3)
    assert probes.rows_written(tmp_path, before, Listing.of(tmp_path)) == 12


def test_a_restored_table_shares_only_what_never_changes(tmp_path):
    source = tmp_path / "snapshot"
    put(source, "p/a.parquet", 5)
    put(source, ".hoodie/hoodie.properties", 5)
    put(tmp_path, "table/left.over", 1)
    snapshot.restore(source, tmp_path / "table")
    assert not (tmp_path / "table/left.over").exists()
    assert (tmp_path / "table/p/a.parquet").samefile(source / "p/a.parquet")
    assert not (tmp_path / "table/.hoodie/hoodie.properties").samefile(
        source / ".hoodie/hoodie.properties"
    )
    (tmp_path / "table/.hoodie/hoodie.properties").write_text("changed")
    assert (source / ".hoodie/hoodie.properties").read_bytes() == b"xxxxx"


def test_a_copied_source_shares_nothing(tmp_path):
    put(tmp_path, "source/p/a.parquet", 5)
    snapshot.copy(tmp_path / "source", tmp_path / "table")
    assert not (tmp_path / "table/p/a.parquet").samefile(tmp_path / "source/p/a.parquet")


def source_table(tmp_path, metadata_partitions):
    """A table as the fake engine writes it, with the facts of a Hudi table."""
    tools = context(tmp_path / "made")
    path = tmp_path / "source"
    table = tools.engines["native"].create(path, None, index="record", options={})
    table.bulk_insert(tools.inputs.load())
    (path / ".hoodie/hoodie.properties").write_text(
        "hoodie.table.version=6\nhoodie.table.recordkey.fields=k\n"
        f"hoodie.table.metadata.partitions={metadata_partitions}\n"
    )
    return path


@pytest.mark.parametrize(
    ("partitions", "rewritten"),
    [("files,record_index", {"native/bucket"}), ("files", {"native/bucket", "native/record"})],
)
def test_a_run_from_a_source_copies_it_or_rewrites_its_rows_and_says_so(
    tmp_path, partitions, rewritten
):
    source = source_table(tmp_path, partitions)
    before = {p: p.stat().st_mtime_ns for p in sorted(source.rglob("*"))}
    resolved = scenario.load("ci", sets=[f"table.source={source}"])
    tools = context(tmp_path / "work", source=source)
    folder = RunFolder.create(tmp_path / "run")
    outcome = Taker(resolved, tools, folder).run(matrix.expand(resolved))
    assert outcome.failed == {}
    assert {note.partition(":")[0] for note in outcome.notes} == rewritten
    assert "bulk_insert" not in {s.step for s in folder.samples()}
    assert {p: p.stat().st_mtime_ns for p in sorted(source.rglob("*"))} == before


def test_keys_that_name_their_column_are_spelled_anew_for_every_index(tmp_path):
    source = source_table(tmp_path, "files,record_index")
    assert independent.named_key(source) is None
    [path] = source.glob("*.parquet")
    rows = pq.read_table(path)
    named = pa.array([f"k:{key}" for key in rows["k"].to_pylist()])
    pq.write_table(rows.set_column(0, "_hoodie_record_key", named), path)
    assert independent.named_key(source) == "k:a"
    resolved = scenario.load("ci", sets=[f"table.source={source}"])
    folder = RunFolder.create(tmp_path / "run")
    outcome = Taker(resolved, context(tmp_path / "work", source=source), folder).run(
        matrix.expand(resolved)
    )
    assert outcome.failed == {}
    assert len(outcome.notes) == 4
    assert all("name their only column ('k:a')" in note for note in outcome.notes)


class LosesARow(HonestTable):
    def read(self, keys=None):
        rows = super().read(keys)
        rows.pop("a", None)
        return rows


def test_a_source_that_reads_differently_fails_the_cell(tmp_path):
    source = source_table(tmp_path, "files,record_index")
    resolved = scenario.load("ci", sets=[f"table.source={source}"])
    folder = RunFolder.create(tmp_path / "run")
    tools = context(tmp_path / "work", table=LosesARow, source=source)
    outcome = Taker(resolved, tools, folder).run(matrix.expand(resolved))
    assert len(outcome.failed) == 4
    assert "9 rows instead of 10" in outcome.failed["native/global_bloom"]
    shutil.rmtree(source)


def test_secrets_never_reach_a_file():
    given = {
        "spark.hadoop.fs.s3a.secret.key": "abc",
        "spark.hadoop.fs.s3a.access.key": "abc",
        "my.PassWord": "abc",
        "fs.azure.account.key.x": "abc",
        "keymark.storage.sas_key": "abc",
        "spark.jars.repositories": "https://me:abc@host/path",
        "spark.sql.shuffle.partitions": "2",
    }
    shown = redact(given)
    assert "abc" not in "".join(shown.values())
    assert shown["my.PassWord"] == REDACTED
    assert shown["spark.jars.repositories"] == "https://host/path"
    assert shown["spark.sql.shuffle.partitions"] == "2"


def test_secrets_of_a_scenario_never_reach_run_json():
    option, secret = "keymark.storage.sas_key", "canary-of-a-secret"
    sets = [
        *(f"{place}.{option}={secret}" for place in ("table.options", "spark.conf")),
        f"table.index_options.record={{'{option}'='{secret}'}}",
        f"table.engine_options.native={{'{option}'='{secret}'}}",
        f"spark.conf.spark.my.password={secret}",
        f"table.variants.one={{'{option}'='{secret}'}}",
    ]
    resolved = scenario.load("quickstart", sets=sets)
    described = describe(resolved)
    assert secret in str(resolved)
    assert secret not in json.dumps(described)
    assert described["table"]["variants"] == {"one": {option: REDACTED}}
    assert described["dataset"] == resolved.model_dump(mode="json")["dataset"]


def test_secrets_of_the_command_line_are_left_out():
    shown = redact_arguments(
        ["run", "--set", "spark.conf.spark.hadoop.fs.s3a.secret.key=a=b", "--set", "dataset.rows=3"]
    )
    assert shown[2] == f"spark.conf.spark.hadoop.fs.s3a.secret.key={REDACTED}"
    (shown_option,) = redact_arguments(["table.options.keymark.storage.sas_key=a=b"])
    assert shown_option == f"table.options.keymark.storage.sas_key={REDACTED}"
    assert shown[-1] == "dataset.rows=3"


def test_the_scenario_has_the_last_word_on_spark(tmp_path):
    section = SparkSection(master="local[3]", conf={"spark.locality.wait": "1"})
    conf = measuring_conf(section, tmp_path)
    assert conf["spark.sql.shuffle.partitions"] == "3"
    assert conf["spark.locality.wait"] == "1"
    assert conf["spark.eventLog.dir"] == tmp_path.resolve().as_uri()


def test_record_keys_are_encoded_as_hudi_does():
    one = pa.table({"k": [1, 2]})
    assert encode_keys(one).to_pylist() == ["1", "2"]
    two = pa.table({"a": ["x", "é"], "b": [1, -2]})
    assert encode_keys(two).to_pylist() == ["a:x,b:1", "a:é,b:-2"]
    gaps = pa.table({"a": ["", None], "b": [1, 2]})
    assert encode_keys(gaps).to_pylist() == ["a:__empty__,b:1", "a:__null__,b:2"]
