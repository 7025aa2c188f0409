"""Revisions of a project made here, and the engine that measures them against a stand-in."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest
from harness_fakes import HeldFrame, RecordedChild

from keymark.harness.engines import (
    engine_indexes,
    engine_mistake,
    is_native,
    revision_child,
    revisions,
)
from keymark.harness.engines.base import Layout
from keymark.harness.engines.pipe import Child
from keymark.harness.engines.revision import RevisionEngine
from keymark.harness.errors import HarnessError
from keymark.harness.tables.table_folders import LocalTables
from keymark.table.index.protocol import LookupStats

CHILD = Path(__file__).parents[2] / "harness" / "engines" / "revision_child.py"
LAYOUT = Layout(name="t", record_key=("k",), partition_path=("dt",), ordering="ts")


def git(root, *words):
    named = ["-c", "user.name=a", "-c", "user.email=a@b"]
    made = subprocess.run(
        ["git", "-C", str(root), *named, *words], check=True, capture_output=True, text=True
    )
    return made.stdout.strip()


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A clone with two revisions; the cache is empty."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    root = tmp_path / "project"
    root.mkdir()
    git(root, "init", "--quiet")
    for lock, text in (("a==1", "old"), ("a==1", "new")):
        (root / "requirements.lock").write_text(lock)
        (root / "code.py").write_text(text)
        git(root, "add", ".")
        git(root, "commit", "--quiet", "-m", text)
    return root


def test_a_revision_is_unpacked_once_and_runs_with_this_python(project, tmp_path):
    first = git(project, "rev-parse", "HEAD~1")
    made = revisions.checkout(f"native@{first[:12]}", project)
    assert made.root == tmp_path / "cache" / "keymark" / "revisions" / first
    assert (made.root / "code.py").read_text() == "old"
    assert made.python == Path(sys.executable)
    (made.root / "code.py").write_text("kept")
    revisions.checkout(f"native@{first[:12]}", project)
    assert (made.root / "code.py").read_text() == "kept"
    assert [each.name for each in made.root.parent.iterdir()] == [first]


def test_the_work_tree_is_where_it_is(project):
    assert revisions.checkout("native@worktree", project).root == project


COUNTS = """
from pathlib import Path
turns = Path("turns")
turns.write_text(turns.read_text() + "+" if turns.exists() else "+")
"""


@pytest.fixture
def compiling(project):
    """The project; its last revision has kernels, and notes each time that they are compiled."""
    (project / "table").mkdir()
    (project / "table" / "precompile.py").write_text(COUNTS)
    git(project, "add", ".")
    git(project, "commit", "--quiet", "-m", "kernels")
    return project


def test_kernels_are_compiled_where_a_revision_is_set_up(compiling):
    for _ in range(2):
        made = revisions.checkout("native@HEAD", compiling)
        assert (made.root / "turns").read_text() == "+"
    for turns in ("+", "++"):
        revisions.checkout("native@worktree", compiling)
        assert (compiling / "turns").read_text() == turns


def test_kernels_that_cannot_be_compiled_are_one_line(compiling):
    (compiling / "table" / "precompile.py").write_text(f"{COUNTS}\nraise OSError('no room')")
    git(compiling, "commit", "--quiet", "--all", "-m", "broken")
    for _ in range(2):
        with pytest.raises(HarnessError, match=r"^table\.precompile of \w{12}: OSError: no room$"):
            revisions.checkout("native@HEAD", compiling)
    commit = git(compiling, "rev-parse", "HEAD")
    cached = Path(revisions.jars.folder()).with_name("revisions") / commit
    assert (cached / "turns").read_text() == "++"


def test_other_packages_take_a_set_up_of_their_own(project):
    (project / "requirements.lock").write_text("a==2")
    makefile = "install:\n\tmkdir -p .venv/bin && touch .venv/bin/python\n"
    (project / "Makefile").write_text(makefile)
    git(project, "add", ".")
    git(project, "commit", "--quiet", "-m", "newer")
    (project / "requirements.lock").write_text("a==3")
    made = revisions.checkout(f"native@{git(project, 'rev-parse', 'HEAD')}", project)
    assert made.python == made.root / ".venv" / "bin" / "python"
    with pytest.raises(HarnessError, match="make install of"):
        revisions.checkout(f"native@{git(project, 'rev-parse', 'HEAD~1')}", project)


@pytest.mark.parametrize("name", ["none", "--help", "HEAD^{tree}", "", "a b", "../x"])
def test_what_git_does_not_know_is_one_line(project, name):
    with pytest.raises(HarnessError, match="neither a file nor a revision") as caught:
        revisions.resolve(name, project)
    assert "\n" not in str(caught.value)


def test_names_of_engines_are_commits(monkeypatch):
    monkeypatch.setattr(revisions, "resolve", lambda name: {"main~1": "ab" * 20}[name])
    assert revisions.named("native@main~1") == "native@" + "ab" * 6
    for name in ("native", "hudi@1.1.1", "native@worktree", "native@bare", "native@without-spark"):
        assert revisions.named(name) == name
        assert engine_mistake(name) is None
    assert engine_mistake("native@" + "ab" * 6) is None
    assert "hexadecimal" in engine_mistake("native@../x")
    assert engine_indexes("native@worktree") == engine_indexes("native")
    assert [is_native(name) for name in ("native", "native@worktree", "hudi@1.1.1")] == [
        True,
        True,
        False,
    ]


def test_a_table_is_measured_through_messages(tmp_path):
    child = RecordedChild(
        create=7,
        write={"files_written": 3, "phases": {"tag": 0.1}},
        lookup={"shards_read": 2, "of_a_later_revision": 1},
        check={"ok": True, "missing": 0, "extra": 0, "wrong": 0, "duplicate": 0},
        digest=(5, "d"),
        scan=["a.parquet"],
        scanned=pa.table({"k": ["x"]}),
    )
    engine = RevisionEngine(child, LocalTables())
    table = engine.create(tmp_path, LAYOUT, index="record", options={"o": "1"})
    assert child.calls[0][1]["record_key"] == ("k",)
    held = engine.hold_rows(HeldFrame())
    assert held == ("file:/a.parquet", "file:/b.parquet")
    with engine.step("label"):
        done = table.upsert(held)
    assert (done.files_written, done.phases) == (3, {"tag": 0.1})
    names = [name for name, _ in child.calls]
    assert names == ["create", "hold_rows", "begin", "write", "end"]
    assert child.calls[2][1]["properties"]["spark.job.description"] == "label"
    assert child.calls[3][1] == {"table": 7, "operation": "upsert", "files": held}
    stats = LookupStats()
    table.lookup(None, stats=stats)
    assert stats.shards_read == 2
    assert table.check().ok
    assert engine.digest(table.read(), ["a"]) == (5, "d")
    plan = table.scan(keys=["x"])
    assert child.calls[-1] == ("scan", {"table": 7, "keys": ["x"]})
    assert (plan.files, plan.to_arrow().to_pylist()) == (["a.parquet"], [{"k": "x"}])


def test_a_table_in_use_stays_open_while_others_are_opened_to_verify_it():
    session, opened = revision_child.Session("a revision"), []
    used = session._keep("the table that is measured")
    for _ in range(2 * revision_child.KEPT):
        opened.append(session._table(used))
        session._keep("another handle")
    assert set(opened) == {"the table that is measured"}
    assert len(session._tables) == revision_child.KEPT


STARTS = """
class Conf:
    def getAll(self): return [('from', 'the revision')]
class Context:
    def getConf(self): return Conf()
class Session:
    sparkContext = Context()
    def stop(self): pass
def session(master, conf): return Session()
"""


@pytest.fixture
def root(tmp_path):
    """A revision with packages of its own."""
    made = tmp_path / "revision"
    for package in (
        "keymark",
        "keymark/table",
        "keymark/table/runtime",
        "keymark/datasets/generate",
    ):
        (made / package).mkdir(parents=True)
        (made / package / "__init__.py").write_text("")
    return made


def test_an_earlier_revision_had_no_package_of_its_own(tmp_path):
    root = tmp_path / "early"
    (root / "table").mkdir(parents=True)
    (root / "table" / "__init__.py").write_text("")
    (root / "table" / "spark.py").write_text(STARTS)
    child = Child([sys.executable, str(CHILD), str(root)], log=tmp_path / "log", name="old")
    try:
        assert child.call("start", master="local[1]", conf={}) == {"from": "the revision"}
    finally:
        child.close()


def test_the_process_has_the_packages_of_its_revision(tmp_path, root):
    """Only the pipe is the run's; no Spark, no Java."""
    (root / "keymark/table/runtime/spark.py").write_text(STARTS)
    child = Child([sys.executable, str(CHILD), str(root)], log=tmp_path / "log", name="old")
    try:
        assert child.call("start", master="local[1]", conf={}) == {"from": "the revision"}
    finally:
        child.close()


TELLS = """
from types import SimpleNamespace

import pyarrow as pa

def told(batches):
    for batch in batches:
        yield pa.RecordBatch.from_pydict({"where": [__file__] * batch.num_rows})

def digest_dataframe(df, columns):
    (place,) = df.mapInArrow(told, "where string").distinct().collect()
    return SimpleNamespace(rows=df.count(), digest=place[0])
"""

READS = """
from pyspark.sql import SparkSession

class Table:
    open = classmethod(lambda cls, *_, **given: cls())

    def read(self):
        return SparkSession.active().range(3)
"""


@pytest.mark.spark
@pytest.mark.slow
def test_workers_of_spark_have_the_packages_of_the_revision(tmp_path, root, monkeypatch):
    """Neither those of the folder that the run is started in, nor those of the environment."""
    project = Path(__file__).parents[2]
    monkeypatch.chdir(project)
    monkeypatch.setenv("PYTHONPATH", str(project))
    (root / "keymark" / "__init__.py").write_text(READS)
    for name in ("runtime/spark.py", "runtime/java.py", "errors.py"):
        shutil.copy(project / "table" / name, root / "keymark/table" / name)
    (root / "keymark/datasets/generate/spark.py").write_text(TELLS)
    child = Child([sys.executable, str(CHILD), str(root)], log=tmp_path / "log", name="old")
    try:
        child.call("start", master="local[2]", conf={"spark.driver.memory": "1g"})
        number = child.call("open", path="t", options={})
        assert child.call("digest", table=number, columns=[]) == (
            3,
            str(root / "keymark/datasets/generate/spark.py"),
        )
    finally:
        child.close()
