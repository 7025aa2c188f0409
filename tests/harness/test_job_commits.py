"""What commits of Hudi, Delta and Iceberg tables say, and which files a step wrote."""

from __future__ import annotations

import gzip
import json
import os

import pyarrow as pa
import pytest

from keymark import Table
from keymark.harness.errors import HarnessError
from keymark.harness.job import commits, written


def found(place, before=None):
    return dict(commits.values(commits.added(str(place), before)))


def test_hudi(tmp_path):
    path = tmp_path / "trips"
    table = Table.create(str(path), record_key="id", partition_path="day", ordering="ts")
    rows = {"id": ["a", "b", "c"], "day": ["d1", "d1", "d2"], "ts": [1, 2, 3]}
    table.upsert(pa.table(rows))
    before = commits.commits(str(path))
    assert found(path)["rows_changed"] == 3
    table.upsert(pa.table({"id": ["a", "e"], "day": ["d1", "d1"], "ts": [9, 9]}))
    assert found(path, before) == {
        "commits": 1, "files_touched": 1, "rows_written": 3, "rows_changed": 2,
        "write_amplification": 1.5,
    }  # fmt: skip
    assert found(path, commits.commits(str(path))) == {
        "commits": 0, "files_touched": 0, "rows_written": 0, "rows_changed": 0,
    }  # fmt: skip


def delta(path, version, *actions):
    log = path / "_delta_log"
    log.mkdir(parents=True, exist_ok=True)
    text = "\n".join(json.dumps(action) for action in actions)
    (log / f"{version:020d}.json").write_text(text)


def add(rows, **more):
    return {"add": {"path": "p", "size": 10, "stats": json.dumps({"numRecords": rows}), **more}}


def test_delta(tmp_path):
    delta(tmp_path, 0, {"commitInfo": {"operation": "WRITE"}}, add(100), add(50))
    before = commits.commits(str(tmp_path))
    assert found(tmp_path)["rows_changed"] == 150
    metrics = {
        "numTargetRowsInserted": "5", "numTargetRowsUpdated": "10", "numTargetRowsDeleted": "0",
        "numTargetRowsCopied": "90", "numOutputRows": "105", "scanTimeMs": "12",
    }  # fmt: skip
    info = {"commitInfo": {"operation": "MERGE", "operationMetrics": metrics}}
    delta(tmp_path, 1, info, {"remove": {"path": "p"}}, add(105))
    assert found(tmp_path, before) == {
        "commits": 1, "files_touched": 2, "rows_written": 105, "rows_changed": 15,
        "write_amplification": 7.0,
    }  # fmt: skip
    before = commits.commits(str(tmp_path))
    delta(tmp_path, 2, {"remove": {"path": "p"}}, add(155, dataChange=False))
    delta(tmp_path, 3, {"remove": {"path": "p"}}, add(10))
    optimized = found(tmp_path, {**before, f"_delta_log/{3:020d}.json": None})
    assert (optimized["rows_written"], optimized["rows_changed"]) == (155, 0)
    assert "rows_changed" not in found(tmp_path, before)


def iceberg(path, name, *summaries, packed=False):
    (path / "metadata").mkdir(exist_ok=True)
    document = {
        "snapshots": [
            {"snapshot-id": number, "summary": each} for number, each in enumerate(summaries)
        ]
    }
    data = json.dumps(document).encode()
    (path / "metadata" / name).write_bytes(gzip.compress(data) if packed else data)


APPEND = {"operation": "append", "added-data-files": "2", "added-records": "100"}
OVERWRITE = {
    "operation": "overwrite", "added-data-files": "1", "deleted-data-files": "1",
    "added-records": "50", "deleted-records": "48",
}  # fmt: skip
MERGED_ON_READ = {
    "operation": "overwrite", "added-data-files": "1", "added-delete-files": "1",
    "added-records": "10", "added-position-deletes": "8",
}  # fmt: skip


def test_iceberg(tmp_path):
    assert commits.commits(str(tmp_path)) is None
    iceberg(tmp_path, "v9.metadata.json", APPEND)
    before = commits.commits(str(tmp_path))
    assert found(tmp_path) == {
        "commits": 1, "files_touched": 2, "rows_written": 100, "rows_changed": 100,
        "write_amplification": 1.0,
    }  # fmt: skip
    iceberg(tmp_path, "v10.gz.metadata.json", APPEND, OVERWRITE, packed=True)
    assert found(tmp_path, before) == {"commits": 1, "files_touched": 2, "rows_written": 50}
    name = "00011-cf2a.metadata.json"
    iceberg(tmp_path, name, APPEND, OVERWRITE, MERGED_ON_READ, {"operation": "replace"})
    before = {str(number): None for number in (0, 1)}
    assert found(tmp_path, before)["rows_changed"] == 18


@pytest.mark.parametrize("text", ["{", '{"add": 3}', '{"commitInfo": {"operationMetrics": 3}}'])
def test_a_damaged_commit_is_one_line(tmp_path, text):
    delta(tmp_path, 0)
    (tmp_path / "_delta_log" / f"{0:020d}.json").write_text(text)
    with pytest.raises(HarnessError, match=r"job\.tables: a commit of .* cannot be read") as caught:
        commits.added(str(tmp_path), None)
    assert "\n" not in str(caught.value)
    (tmp_path / "m").mkdir()
    iceberg(tmp_path / "m", "v1.metadata.json")
    (tmp_path / "m" / "metadata" / "v1.metadata.json").write_text("[]")
    with pytest.raises(HarnessError, match="cannot be read"):
        commits.commits(str(tmp_path / "m"))


def test_new_and_changed_files_are_counted(tmp_path):
    (tmp_path / "out" / "a").mkdir(parents=True)
    for name in ("same", "grows", "goes", "replaced"):
        (tmp_path / "out" / name).write_text("xx")
    before = written.seen(["out", "one", "none"], tmp_path)
    (tmp_path / "out" / "grows").write_text("xxxx")
    (tmp_path / "out" / "goes").unlink()
    os.utime(tmp_path / "out" / "replaced", ns=(1, 1))
    (tmp_path / "out" / "a" / "new").write_text("x")
    (tmp_path / "one").write_text("xxx")
    assert written.written(before, written.seen(["out", "one"], tmp_path)) == written.Written(4, 10)
    with pytest.raises(HarnessError, match=r"job\.writes: ftp://x/y cannot be listed"):
        written.seen(["ftp://x/y"], tmp_path)
