"""Engines without Spark: names, settings, environments, conditions, and what is said to a child."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from types import SimpleNamespace

import harness_fakes
import pyarrow as pa
import pytest

from keymark.datasets.generate.digest import digest_arrow
from keymark.harness.engines import engine_indexes, engine_mistake, engine_pool, table_version
from keymark.harness.engines.base import Layout
from keymark.harness.engines.libraries import engine as library_engine
from keymark.harness.engines.libraries import environments
from keymark.harness.engines.libraries.conditions import column_tests
from keymark.harness.engines.libraries.names import (
    LIBRARIES,
    LibraryName,
    library_mistake,
    library_name,
    pinned,
)
from keymark.harness.engines.locations import unreached
from keymark.harness.errors import CellError, HarnessError
from keymark.harness.run import notes
from keymark.harness.scenario import scenario
from keymark.harness.scenario.schema import scenario_schema
from keymark.harness.tables.independent import SourceFacts
from keymark.harness.tables.table_folders import LocalTables
from keymark.table.properties.options import EVENT_TIME_PAYLOAD, PAYLOAD_CLASS

LAYOUT = Layout(name="t", record_key=("k", "n"), partition_path=("dt",), ordering="ts")
DELTALAKE = LibraryName("deltalake", pinned("deltalake")[-1])


@pytest.fixture
def cache(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "keymark" / "environments"


@pytest.mark.parametrize("library", LIBRARIES)
def test_each_library_has_pins_with_hashes_of_itself_and_of_pyarrow(library):
    name = LibraryName(library, pinned(library)[-1])
    assert library_name(f"{library}@{name.version}") == name
    lines = name.lock.read_text().splitlines()
    packages = [line for line in lines if not line.startswith(" ")]
    assert any(line.startswith(f"{library}=={name.version} ") for line in packages)
    assert any(line.startswith("pyarrow==") for line in packages)
    assert all("==" in line for line in packages)
    assert len(lines) - len(packages) >= len(packages), "each has a hash"
    assert "://" not in name.lock.read_text()


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("deltalake", "needs a release of three numbers, as in 'deltalake@"),
        ("deltalake@1.6", "needs a release of three numbers"),
        ("pyiceberg@latest", "needs a release of three numbers, as in 'pyiceberg@"),
        ("deltalake-1.6.6", "did you mean 'deltalake@1.6.6'?"),
        ("PyIceberg@0.12.0", "did you mean 'pyiceberg@0.12.0'?"),
    ],
)
def test_a_name_that_is_none_is_told_with_help(name, told):
    mistake = library_mistake(name)
    assert mistake is not None
    assert f"engine {name!r}" in mistake
    assert told in mistake
    assert library_name(name) is None


def test_other_names_are_not_judged_here():
    for name in ("native", "hudi@1.2.0", "deltalake@1.6.6", "delta@3.3.2"):
        assert library_mistake(name) is None


def test_engines_without_spark_stand_among_the_others():
    modes = {"deltalake@1.6.6": ("merge",), "pyiceberg@0.12.0": ("upsert",)}
    for name, mode in modes.items():
        assert engine_mistake(name) is None
        assert engine_indexes(name) == mode
        assert table_version(name) == 0
    assert "'deltalake@1.6.6'" in str(engine_mistake("parquet"))
    forms = scenario_schema()["properties"]["engines"]["items"]["pattern"]
    assert all(re.fullmatch(forms, name) for name in modes)
    assert not re.fullmatch(forms, "deltalake@1.6")


def test_what_such_an_engine_cannot_do_is_told_before_a_run(cache):
    del cache
    reason = environments.missing_environment(DELTALAKE)
    engine = f"deltalake@{DELTALAKE.version}"
    assert engine_pool.missing(["native", engine], ["record", "merge"])[engine] == reason
    _made(DELTALAKE)
    found = engine_pool.missing(["native", engine], ["record", "merge"])
    assert found[f"{engine}/record"] == f"{engine} has no index record (it has merge)"
    assert engine not in found
    hudis = SourceFacts(
        name="t",
        version=6,
        is_merge_on_read=False,
        record_key=("k",),
        partition_path=(),
        ordering=None,
        partitions_of_metadata=(),
    )
    told = engine_pool.missing(["native", engine], ["record", "merge"], source=hudis)[engine]
    assert told == f"{engine} cannot start from a table of Hudi's; dataset.source reads its rows"
    far = unreached(["native", engine], "s3://bucket/runs", {})
    assert far == {engine: f"{engine} does not tell its requests, so its tables are on a disk only"}


def test_options_of_all_engines_are_said_in_the_librarys_words_and_its_own_win():
    options = {
        "hoodie.parquet.compression.codec": "zstd",
        "hoodie.parquet.max.file.size": "1000",
        "hoodie.metadata.enable": "true",
        "delta.checkpointInterval": "10",
    }
    assert DELTALAKE.settings(options) == {
        "writer.compression": "zstd",
        "write.target_file_size": "1000",
        "delta.checkpointInterval": "10",
    }
    partitions = {"keymark.merge.partitions": "batch"}
    assert DELTALAKE.settings(partitions) == {"merge.by_partition": "true"}
    own = {**options, "writer.compression": "gzip"}
    assert DELTALAKE.settings(own)["writer.compression"] == "gzip"
    said = LibraryName("pyiceberg", "0.12.0").settings(options)
    assert said["write.parquet.compression-codec"] == "zstd"
    assert said["write.target-file-size-bytes"] == "1000"


def test_what_is_not_installed_is_told_with_the_command(cache):
    del cache
    told = environments.missing_environment(DELTALAKE)
    assert told is not None
    assert told.endswith(f"make it once by: keymark engine install deltalake@{DELTALAKE.version}")
    assert environments.installed() == ()


def test_a_version_without_pins_cannot_be_had(cache):
    del cache
    old = LibraryName("deltalake", "0.0.1")
    told = environments.missing_environment(old)
    assert told is not None
    assert told.startswith("deltalake 0.0.1 cannot be had: Keymark has pins of deltalake@")
    with pytest.raises(HarnessError, match=r"deltalake 0\.0\.1 cannot be had"):
        environments.install(old)


def _made(name: LibraryName) -> Path:
    """An environment as an installation leaves it, without its packages."""
    interpreter = environments.python(name)
    interpreter.parent.mkdir(parents=True)
    interpreter.symlink_to(sys.executable)
    kept = environments.environment(name) / environments._KEPT_LOCK
    kept.write_bytes(name.lock.read_bytes())
    return kept


def test_an_environment_of_other_pins_is_renewed(cache):
    del cache
    kept = _made(DELTALAKE)
    assert environments.missing_environment(DELTALAKE) is None
    assert environments.installed() == (DELTALAKE,)
    assert environments.install(DELTALAKE) == environments.environment(DELTALAKE)
    kept.write_text("deltalake==0.0.1")
    told = environments.missing_environment(DELTALAKE)
    assert told is not None
    assert "is of other pins; renew it by: keymark engine install deltalake@" in told


def test_an_installation_takes_exactly_the_pins_and_builds_nothing():
    made, filled = environments.plan(DELTALAKE, Path("/there"))
    assert made == [sys.executable, "-m", "venv", "/there"]
    assert filled[:3] == ["/there/bin/python", "-m", "pip"]
    assert {"--require-hashes", "--only-binary"} <= set(filled)
    assert filled[-1] == str(DELTALAKE.lock)


def test_an_installation_appears_whole(cache, monkeypatch):
    ran = []

    def run(command, **_):
        ran.append(command)
        target = next(Path(word) for word in command if "deltalake-" in word)
        if command[1:3] == ["-m", "venv"]:
            (target / "bin").mkdir(parents=True)
            (target / "bin" / "python").symlink_to(sys.executable)
        return SimpleNamespace(returncode=0, stdout=b"", stderr=b"")

    monkeypatch.setattr(environments.subprocess, "run", run)
    assert environments.install(DELTALAKE) == environments.environment(DELTALAKE)
    assert len(ran) == 2
    assert environments.missing_environment(DELTALAKE) is None
    assert [path.name for path in cache.iterdir()] == [f"deltalake-{DELTALAKE.version}"]


def test_what_pip_says_is_one_line_and_leaves_nothing(cache, monkeypatch):
    said = b"Collecting deltalake\nERROR: No matching distribution found for deltalake\nnotice\n"
    failed = SimpleNamespace(returncode=1, stdout=b"", stderr=said)
    monkeypatch.setattr(environments.subprocess, "run", lambda *_, **__: failed)
    told = f"deltalake@{DELTALAKE.version} could not be installed: ERROR: No matching distribution"
    with pytest.raises(HarnessError, match=told) as raised:
        environments.install(DELTALAKE)
    assert "\n" not in str(raised.value)
    assert list(cache.iterdir()) == []


@pytest.mark.parametrize(
    ("where", "tests"),
    [
        (r"`dt` = 'a\'b'", [("dt", "in", ["a'b"])]),
        ("a = 3 AND b >= -1.5", [("a", "in", [3]), ("b", ">=", [-1.5])]),
        ("a BETWEEN 1 AND 5 AND b < 'x'", [("a", ">=", [1]), ("a", "<=", [5]), ("b", "<", ["x"])]),
        ("(a > 1) AND (`odd name` IN (1, 2))", [("a", ">", [1]), ("odd name", "in", [1, 2])]),
    ],
)
def test_conditions_as_column_tests_columns(where, tests):
    assert column_tests(where) == tests


@pytest.mark.parametrize(
    "where", ["a = 1 OR b = 2", "a = b", "length(a) = 1", "a IS NULL", "1 = 1", "a NOT IN (1)"]
)
def test_other_conditions_are_refused(where):
    with pytest.raises(CellError, match="columns compared with literals, joined by AND"):
        column_tests(where)
    with pytest.raises(CellError, match="is not a condition in SQL"):
        column_tests("a = = 1")


@pytest.fixture
def child():
    return harness_fakes.RecordedChild(
        create=1,
        open=2,
        write={"files_written": 3, "phases": {"tag": 0.5}},
        find=[{"k": "a", "ts": 1}],
        opened=["x.parquet"],
        places={"a": ("2024", "part-1")},
    )


@pytest.fixture
def engine(child, tmp_path):
    return library_engine.LibraryEngine(DELTALAKE, child, LocalTables(), work=tmp_path / "work")


def test_a_table_is_told_with_its_layout_and_what_decides(engine, child, tmp_path):
    options = {PAYLOAD_CLASS: EVENT_TIME_PAYLOAD, "hoodie.parquet.compression.codec": "zstd"}
    table = engine.create(tmp_path / "t", LAYOUT, index="merge", options=options)
    [(message, said)] = child.calls
    assert message == "create"
    assert said["table"] == {
        "path": str(tmp_path / "t"),
        "name": "t",
        "record_key": ("k", "n"),
        "partition_path": ("dt",),
        "ordering": "ts",
        "keeps_newer": True,
        "settings": {"writer.compression": "zstd"},
    }
    assert table.info().index == "merge"
    engine.create(tmp_path / "t", LAYOUT, index="merge", options={})
    assert child.calls[-1][1]["table"]["keeps_newer"] is False


def test_another_payload_class_is_refused(engine, tmp_path):
    options = {PAYLOAD_CLASS: "my.Payload"}
    with pytest.raises(CellError, match=r"^deltalake is not asked for hoodie.* = my\.Payload$"):
        engine.create(tmp_path / "t", LAYOUT, index="merge", options=options)


def test_rows_are_named_by_their_files_and_written_by_the_child(engine, child, tmp_path):
    table = engine.create(tmp_path / "t", LAYOUT, index="merge", options={})
    held = engine.hold_rows(harness_fakes.HeldFrame())
    assert held == ("/a.parquet", "/b.parquet")
    for operation in ("bulk_insert", "upsert", "delete"):
        done = getattr(table, operation)(held)
        assert (done.files_written, done.phases) == (3, {"tag": 0.5})
        assert child.calls[-1] == ("write", {"table": 1, "operation": operation, "files": held})


def test_rows_of_keys_and_of_conditions(engine, child, tmp_path):
    table = engine.create(tmp_path / "t", LAYOUT, index="merge", options={})
    found = table.read(keys=["a"])
    assert [row.asDict() for row in found.collect()] == [{"k": "a", "ts": 1}]
    assert child.calls[-1] == ("find", {"table": 1, "keys": ["a"], "where": None})
    assert found.inputFiles() == ["x.parquet"]
    table.read(where="`dt` = 'x'").collect()
    assert child.calls[-1][1]["where"] == [("dt", "in", ["x"])]


def test_all_rows_come_as_a_file_that_goes(engine, child, tmp_path):
    rows = pa.table({"k": ["a", "b"], "ts": [1, 2]})
    table = engine.create(tmp_path / "t", LAYOUT, index="merge", options={})
    (tmp_path / "work").mkdir()

    def call(name, /, **said):
        child.calls.append((name, said))
        with pa.OSFile(said["file"], "wb") as file, pa.ipc.new_stream(file, rows.schema) as to:
            to.write_table(rows)

    child.call = call
    assert engine.digest(table.read(), ["ts", "k"]) == tuple(digest_arrow(rows))
    assert child.calls[-1][1]["columns"] == ["k", "ts"]
    assert list((tmp_path / "work").iterdir()) == []


def test_a_lookup_is_answered_in_the_order_of_the_keys(engine, child, tmp_path):
    table = engine.create(tmp_path / "t", LAYOUT, index="merge", options={})
    keys = pa.array(["zz", "a"])
    engine.hold_keys(keys, table)
    found = table.lookup(None)
    assert child.calls[-1] == ("lookup", {"table": 1})
    assert engine.answer(found, keys).to_pylist() == [
        {"record_key": "zz", "partition_path": None, "file_id": None},
        {"record_key": "a", "partition_path": "2024", "file_id": "part-1"},
    ]


def test_what_the_formats_lack_is_refused_by_name(engine, tmp_path):
    table = engine.create(tmp_path / "t", LAYOUT, index="merge", options={})
    for call in (table.check, table.compact, table.drop_index, table.build_index):
        with pytest.raises(CellError, match="no record index"):
            call()
    with pytest.raises(CellError, match="no purge"):
        table.purge(None)


def test_a_limit_ends_the_process_and_is_taken_back(engine, child):
    patience = []
    child.patience = patience.append
    with engine.limited(12.0):
        pass
    with engine.limited(-3.0):
        pass
    assert patience == [12.0, None, 1.0, None]


def test_a_reader_is_told_what_ran_without_spark():
    engines = ["native", "deltalake@1.6.6", "hudi@1.2.0"]
    said = scenario.load("quickstart", overrides={"engines": engines[:2]})
    told = notes.notes(said, {})
    assert told[0] == "All cells ran interleaved with alternating direction."
    assert any("without Spark's counters: deltalake@1.6.6." in each for each in told)
    assert not any("Without Spark" in each for each in notes.notes(said, {engines[1]: "lacks"}))
    told = notes.notes(scenario.load("quickstart", overrides={"engines": engines}), {})
    assert "Each release of Hudi and of another format had a Spark session" in told[0]
