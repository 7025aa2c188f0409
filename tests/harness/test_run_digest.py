"""The digest that a run leaves at its end, and files that are packed."""

from __future__ import annotations

import dataclasses
import gzip
import hashlib
import json
import os

import pytest
from harness_fakes import SAMPLE

from keymark.harness.errors import RunFolderError
from keymark.harness.measure import environment
from keymark.harness.run import bench
from keymark.harness.run.request import Request
from keymark.harness.scenario import scenario
from keymark.harness.scenario.planned import describe
from keymark.harness.store import contents
from keymark.harness.store.results import Beat, Stage
from keymark.harness.store.run_record import RunRecord
from keymark.harness.store.store import RunFolder

BEAT = Beat(
    at=1.5, before="native/record|r0", cpu_s=0.01, disk_s=0.002, memory_s=0.003, load_1m=0.5,
    mhz=2100.0, steal_s=0.0,
)  # fmt: skip
STAGE = Stage(
    cell="native/record", step="upsert_1", repetition=0, phase="tag", name="collect", stages=1,
    wall_s=0.5, tasks=4, input_bytes=10, shuffle_write_bytes=0, shuffle_write_records=0,
    shuffle_read_bytes=0, shuffle_read_records=0,
)  # fmt: skip
FILES = ("samples.jsonl", "stages.jsonl", "canary.jsonl")


@pytest.fixture
def ended(tmp_path):
    """A run that came to its end."""
    folder = RunFolder.create(tmp_path / "run")
    folder.append([SAMPLE, dataclasses.replace(SAMPLE, repetition=1)])
    folder.append_beat(BEAT)
    folder.write_stages([STAGE])
    folder.finish(RunRecord(run_id="r1", notes=["caf\udc80é"], scenario={"dataset": {"rows": 3}}))
    return folder


def said(folder):
    return json.loads(folder.info_file.read_text())


def test_the_last_line_of_a_run_is_the_digest_of_all_that_it_left(ended):
    document = said(ended)
    assert document["status"] == "complete"
    assert set(document["digest"]) == {"run.json", *FILES}
    for name in FILES:
        data = (ended.path / name).read_bytes()
        assert document["digest"][name] == hashlib.sha256(data).hexdigest()
    assert ended.digest(document) == document["digest"] == ended.read_record().digest
    assert ended.digest(ended.read_record().document) == document["digest"]


def test_indentation_and_order_say_nothing(ended):
    document = said(ended)
    turned = dict(reversed(document.items()))
    ended.info_file.write_text(json.dumps(turned))
    assert ended.digest(said(ended)) == document["digest"]


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("change", ["bit", "cut", "line", "gone"])
def test_every_change_of_a_file_is_told(ended, name, change):
    before, path = said(ended)["digest"], ended.path / name
    data = path.read_bytes()
    if change == "bit":
        path.write_bytes(data[:40] + bytes([data[40] ^ 1]) + data[41:])
    elif change == "cut":
        path.write_bytes(data[:-1])
    elif change == "line":
        path.write_bytes(data + data.splitlines(keepends=True)[0])
    else:
        path.unlink()
    after = ended.digest(said(ended))
    assert {key for key in before if before[key] != after.get(key)} == {name}


@pytest.mark.parametrize(
    "change",
    [{"run_id": "r2"}, {"notes": []}, {"scenario": {"dataset": {"rows": 4}}}, {"later": None}],
)
def test_every_change_of_run_json_is_told(ended, change):
    before = said(ended)["digest"]
    after = ended.digest(said(ended) | change)
    assert {key for key in before if before[key] != after[key]} == {"run.json"}


def test_a_run_that_goes_on_has_none_until_it_ends_again(ended):
    record = ended.read_record()
    ended.write_record(record.but(status="running", sessions=2))
    assert "digest" not in said(ended)
    ended.append([dataclasses.replace(SAMPLE, repetition=2)])
    ended.finish(record.but(sessions=2))
    assert said(ended)["digest"] == ended.digest(said(ended)) != record.digest


def test_what_is_not_there_is_not_named(tmp_path):
    folder = RunFolder.create(tmp_path / "run")
    folder.finish(RunRecord(run_id="r1"))
    assert set(said(folder)["digest"]) == {"run.json", "samples.jsonl"}


def packed(folder):
    for name in FILES:
        path = folder.path / name
        if not path.exists():
            continue
        (folder.path / f"{name}.gz").write_bytes(contents.pack(path.read_bytes()))
        path.unlink()


def test_packed_files_say_the_same(ended):
    samples, beats, stages = ended.samples(), ended.beats(), ended.stages()
    packed(ended)
    assert ended.is_packed
    assert (ended.samples(), ended.beats(), ended.stages()) == (samples, beats, stages)
    assert ended.digest(said(ended)) == said(ended)["digest"]


def test_equal_contents_are_packed_alike():
    assert contents.pack(b"x" * 1000) == contents.pack(b"x" * 1000)
    assert gzip.decompress(contents.pack(b"x" * 1000)) == b"x" * 1000


@pytest.mark.parametrize("damage", ["cut", "other", "flipped"])
def test_a_damaged_packed_file_is_named(ended, damage):
    packed(ended)
    path = ended.path / "samples.jsonl.gz"
    data = path.read_bytes()
    flipped = data[:30] + bytes([data[30] ^ 0xFF]) + data[31:]
    path.write_bytes({"cut": data[:-9], "other": b"no gzip", "flipped": flipped}[damage])
    with pytest.raises(RunFolderError, match=r"samples\.jsonl\.gz"):
        ended.samples()


def test_what_unpacks_to_too_much_is_refused(ended, monkeypatch):
    packed(ended)
    monkeypatch.setattr(contents, "MOST_BYTES", 100)
    with pytest.raises(RunFolderError, match="unpacks to more than 100 bytes"):
        ended.samples()


def test_a_packed_run_is_not_resumed(tmp_path):
    resolved = scenario.load("mappings")
    folder = RunFolder.create(tmp_path / "run")
    folder.append([SAMPLE])
    folder.finish(RunRecord(run_id="r1", scenario=describe(resolved)))
    packed(folder)
    with pytest.raises(RunFolderError, match="is packed; `gunzip` its files"):
        bench.run(Request(scenario=resolved, out=folder.path, resume=True), None)


def test_the_disk_is_that_of_the_folder(tmp_path):
    found = environment.disk(tmp_path)
    assert found["bytes"] == os.statvfs(tmp_path).f_frsize * os.statvfs(tmp_path).f_blocks
    assert found.keys() <= {"bytes", "file_system", "model", "rotational"}
