"""The package `keymark`: what a wheel holds, what an installed one can do, one name a module."""

from __future__ import annotations

import importlib.metadata
import json
import os
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pyarrow as pa
import pytest

import keymark

ROOT = Path(__file__).parents[1]
PACKAGES = ("table", "indexes", "datasets", "harness", "reports")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    # Building leaves folders behind: not in the clone.
    sources = folder / "sources"
    for name in ("keymark", *PACKAGES):
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / name, sources / name, symlinks=True, ignore=ignored)
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, sources)
    words = ["-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--no-index"]
    subprocess.run(
        [sys.executable, *words, "--wheel-dir", str(folder), str(sources)],
        check=True,
        capture_output=True,
    )
    (made,) = folder.glob("*.whl")
    return made


def test_a_wheel_holds_every_module_and_nothing_beside_keymark(wheel):
    names = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    assert {name.partition("/")[0] for name in names} == {"keymark"}
    for package in PACKAGES:
        files = {path for path in (ROOT / package).rglob("*") if path.is_file()}
        kept = {f"keymark/{p.relative_to(ROOT)}" for p in files if "__pycache__" not in p.parts}
        assert kept - names == set(), package


def installed(wheel, folder):
    """An environment with the wheel, and the libraries of this one; its python."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    python = folder / "bin" / "python"
    (site,) = (folder / "lib").glob("python*/site-packages")
    libraries = sysconfig.get_path("purelib")
    # A file of paths is not followed further: not to the clone.
    (site / "libraries.pth").write_text(f"{libraries}\n")
    words = ["install", "--quiet", "--no-deps", "--no-index", "--ignore-installed", str(wheel)]
    subprocess.run([python, "-m", "pip", *words], check=True, capture_output=True)
    return python, site


def test_an_installed_wheel_works_from_an_empty_folder_and_leaves_nothing(wheel, tmp_path):
    python, site = installed(wheel, tmp_path / "env")
    empty = tmp_path / "empty"
    empty.mkdir()

    def say(*words):
        made = subprocess.run(
            words,
            cwd=empty,
            env={"HOME": str(tmp_path), "PATH": os.environ["PATH"]},
            capture_output=True,
            text=True,
            check=False,
        )
        assert made.returncode == 0, made.stderr
        return made.stdout

    code = (
        "import keymark, sys; from keymark import Table; print(Table.__module__, keymark.__file__)"
    )
    module, place = say(python, "-c", code).split()
    assert module == "keymark.table.table"
    assert Path(place).is_relative_to(site)
    command = python.parent / "keymark"
    assert say(command, "--help").startswith("usage: keymark COMMAND")
    assert say(command, "--version") == f"keymark {importlib.metadata.version('keymark')}\n"
    workload = ("--records", "100000000", "--batch", "1000000")
    assert json.loads(say(command, "plan", *workload, "--json"))["predictions"]
    say(command, "data", "digest", "trips", "--set", "rows=10")
    assert list((tmp_path / ".cache" / "keymark" / "numba").rglob("*.nbi"))
    removed = ["-m", "pip", "uninstall", "--quiet", "--yes", "keymark"]
    subprocess.run([python, *removed], check=True, capture_output=True)
    assert sorted(path.name for path in site.iterdir()) == ["libraries.pth"]
    assert not command.exists()


def test_importing_keymark_alone_loads_nothing():
    code = "import sys, keymark; print([m for m in sys.modules if m.startswith('keymark.')])"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert said.stdout.strip() == "[]"


def test_public_names_are_there():
    assert sorted(keymark.__all__) == sorted(keymark._MODULES)
    for name in keymark.__all__:
        assert getattr(keymark, name).__name__ == name
    with pytest.raises(AttributeError, match="no attribute 'Nobody'"):
        _ = keymark.Nobody


def twice(places):
    """Files of ours that were imported under more than one name.

    Args:
        places: (name of a module, its file).
    """
    names = {}
    for name, place in places:
        names.setdefault(os.path.realpath(place), set()).add(name)
    folders = tuple(f"{os.path.realpath(ROOT / name)}{os.sep}" for name in (*PACKAGES, "keymark"))
    ours = [place for place in names if place.startswith(folders)]
    return {place: names[place] for place in ours if len(names[place]) > 1}


@pytest.mark.spark
def test_no_file_has_two_names_in_driver_or_worker(spark, tmp_path):
    table = keymark.Table.create(
        str(tmp_path / "t"),
        name="t",
        record_key="k",
        partition_path=(),
        ordering="ts",
        index="bloom",
        spark=spark,
    )
    rows = spark.range(2000).selectExpr("cast(id as string) k", "id ts")
    table.bulk_insert(rows)
    table.upsert(rows)

    def imported(batches):
        import keymark.table.table  # noqa: F401  what tasks of ours import

        list(batches)
        found = [(n, getattr(m, "__file__", None)) for n, m in list(sys.modules.items())]
        names, files = zip(
            *[pair for pair in found if pair[1] and pair[0] != "__main__"], strict=True
        )
        yield pa.RecordBatch.from_pydict({"name": names, "file": files})

    told = spark.range(4, numPartitions=2).mapInArrow(imported, "name string, file string")
    workers = {(row.name, row.file) for row in told.collect()}
    assert any(name == "keymark.table.table" for name, _ in workers)
    assert twice(workers) == {}
    here = [(name, getattr(m, "__file__", None)) for name, m in list(sys.modules.items())]
    assert twice((name, place) for name, place in here if place and name != "__main__") == {}
