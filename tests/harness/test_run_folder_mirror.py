"""Run folders on stores: what is there after a kill at any storage call, and after the end.

A run is one that appends a block for each repetition while an event log grows. It is killed before
each of its storage calls in turn and goes on in an empty folder, as on another machine; what goes
on is killed in turn as well.
"""

from __future__ import annotations

import contextlib
import itertools
from dataclasses import replace

import pytest
from faults import DEAD, FaultStorage, Killed
from harness_fakes import SAMPLE

from keymark.harness.errors import RunFolderError
from keymark.harness.store import run_folder_mirror
from keymark.harness.store.run_folder_mirror import RunFolderMirror
from keymark.harness.store.run_record import RunRecord
from keymark.harness.store.store import RunFolder
from keymark.table.storage.storage import FileStatus
from keymark.table.storage.stores import storage_at

URL = "memory://store/runs/x"
REPETITIONS = 3
NAMES = itertools.count()


def blocks(count=REPETITIONS):
    return [replace(SAMPLE, repetition=number, step=step) for number in range(count)
            for step in ("upsert_1", "upsert_2")]  # fmt: skip


@pytest.fixture
def storage():
    return storage_at(f"memory://places-{next(NAMES)}/runs/x", {})


def run(storage, folder, *, resume, told):
    """Run or resume to the end; every repetition whose block was taken is told."""
    mirror = RunFolderMirror(folder, storage)
    mirror.begin(URL, resume=resume)
    if resume and not RunFolder(folder).is_blank:
        out = RunFolder.open(folder, mirror.keep)
        # As a resumed run does with what its scenario does not know.
        out.keep_only(lambda sample: sample.step != "torn")
    else:
        out = RunFolder.create(folder, mirror.keep)
    record = RunRecord(run_id="r1")
    out.write_record(record.but(status="running"))
    taken = {sample.repetition for sample in out.samples()}
    assert taken >= told
    log = out.events / f"log-{len(list(out.events.iterdir()))}.inprogress"
    for number in range(REPETITIONS):
        if number not in taken:
            with log.open("ab") as file:
                file.write(b"event %d\n" % number)
            out.append([sample for sample in blocks() if sample.repetition == number])
            told.add(number)
    if log.exists():
        log.rename(log.with_suffix(""))
    out.append([replace(SAMPLE, metric="tasks", unit="count")])
    out.write_record(record.but(status="complete"))
    mirror.finish()


def killed(storage, folder, at, **given):
    """Run until the storage call of that number; whether it came so far."""
    faulty = FaultStorage(storage, DEAD, at)
    with contextlib.suppress(Killed):
        run(faulty, folder, **given)
    return faulty.struck


def assert_complete(storage, folder):
    """Nothing is missing or doubled but for the counter, of which a resumed run has one more."""
    files = {status.path for status in storage.walk("")}
    assert {path for path in files if not path.startswith("events/")} == {
        "run.json",
        "samples.jsonl",
    }
    run_folder_mirror._fetch(storage, folder, lambda _: True)
    found = RunFolder.open(folder)
    assert [sample for sample in found.samples() if sample.metric == "wall_s"] == blocks()
    assert found.read_record().status == "complete"
    events = b"".join(path.read_bytes() for path in sorted(found.events.iterdir()))
    for number in range(REPETITIONS):
        assert b"event %d\n" % number in events


def test_a_run_that_nobody_kills(storage, tmp_path):
    run(storage, tmp_path / "run", resume=False, told=set())
    assert {status.path for status in storage.walk("")} == {
        "events/log-0", "run.json", "samples.jsonl",
    }  # fmt: skip
    assert_complete(storage, tmp_path / "copy")
    with pytest.raises(RunFolderError, match="not empty; choose another --out"):
        RunFolderMirror(tmp_path / "other", storage).begin(URL, resume=False)


def test_killed_at_any_storage_call_and_again_nothing_is_lost_or_doubled(tmp_path):
    kills = 0
    for first in itertools.count(1):
        second = 1 + first * 7 % 23
        storage = storage_at(f"memory://places-{next(NAMES)}/x", {})
        told, folders = set(), (tmp_path / f"{first}-{second}-{n}" for n in range(4))
        if not killed(storage, next(folders), first, resume=False, told=told):
            break
        again = killed(storage, next(folders), second, resume=True, told=told)
        kills += 1 + again
        run(storage, next(folders), resume=True, told=told)
        assert told == set(range(REPETITIONS))
        assert_complete(storage, next(folders))
    assert kills > 25


def test_what_a_resumed_run_drops_does_not_come_back(storage, tmp_path):
    mirror = RunFolderMirror(tmp_path / "a", storage)
    mirror.begin(URL, resume=False)
    out = RunFolder.create(tmp_path / "a", mirror.keep)
    out.write_record(RunRecord(run_id="r1"))
    (out.events / "log-0.inprogress").write_bytes(b"event 0\n")
    for sample in blocks(1):
        out.append([replace(sample, step="torn"), sample])
    told = set()
    for at in range(1, 9):
        killed(storage, tmp_path / f"b{at}", at, resume=True, told=told)
    run(storage, tmp_path / "c", resume=True, told=told)
    assert_complete(storage, tmp_path / "d")


def test_which_parts_count(storage, tmp_path):
    for path, content in {
        "samples.jsonl": b"whole",
        ".parts/samples.jsonl/000001-000000000000000": b"old",
        ".parts/samples.jsonl/000001-000000000000003": b"er",
        ".parts/samples.jsonl/000002-000000000000000": b"new",
        ".parts/samples.jsonl/000002-000000000000003": b"er",
        ".parts/samples.jsonl/000002-000000000000009": b"behind a gap",
        ".parts/samples.jsonl/000003-000000000000005": b"without a beginning",
        "events/log": b"complete",
        ".parts/events/log.inprogress/000001-000000000000000": b"half",
        ".parts/events/other.inprogress/000001-000000000000000": b"other",
    }.items():
        storage.put(path, content)
    run_folder_mirror._fetch(storage, tmp_path, lambda _: True)
    found = {path.name: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    assert found == {"samples.jsonl": b"newer", "log": b"complete", "other.inprogress": b"other"}


def test_a_folder_of_another_kind_is_not_touched(storage, tmp_path):
    storage.put("theirs", b"x")
    with pytest.raises(RunFolderError, match="not empty"):
        RunFolderMirror(tmp_path / "a", storage).begin(URL, resume=False)
    assert [status.path for status in storage.walk("")] == ["theirs"]


def test_files_of_a_store_stay_in_the_folder(storage, tmp_path, monkeypatch):
    monkeypatch.setattr(
        type(storage), "walk", lambda *_: iter([FileStatus(path="events/../../x", size=1)])
    )
    with pytest.raises(RunFolderError, match="is not a file of a run"):
        run_folder_mirror._fetch(storage, tmp_path / "a", lambda _: True)
    with pytest.raises(RunFolderError, match="is not the URL of a run folder"):
        run_folder_mirror.local("memory://store/../../x")


def test_two_processes_do_not_work_at_one_url(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    url = f"memory://places-{next(NAMES)}/x"
    with run_folder_mirror.working(url, resume=False) as (folder, kept):
        RunFolder.create(folder, kept).write_record(RunRecord(run_id="r1"))
        with (
            pytest.raises(RunFolderError, match="another process"),
            run_folder_mirror.working(url, resume=True),
        ):
            pass
    assert not folder.exists()
    assert run_folder_mirror.local(url).joinpath("run.json").is_file()


def test_paths_are_what_they_were(tmp_path):
    with run_folder_mirror.working(None, resume=False) as (path, _):
        assert path is None
    with run_folder_mirror.working(f"file://{tmp_path}/x", resume=False) as (path, _):
        assert path == tmp_path / "x"
    assert run_folder_mirror.local(str(tmp_path)) == tmp_path
    assert run_folder_mirror.beside(f"{tmp_path}/a/b", "history") == f"{tmp_path}/a/history"
    assert run_folder_mirror.beside("s3://bucket/runs/x/", "history") == "s3://bucket/runs/history"
    with pytest.raises(RunFolderError, match=r"no run\.json"):
        run_folder_mirror.local(f"memory://places-{next(NAMES)}/x")
    with pytest.raises(RunFolderError, match=r"summary\.json is not there"):
        run_folder_mirror.local(f"memory://places-{next(NAMES)}/summary.json")
