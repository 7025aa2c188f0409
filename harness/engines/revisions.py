"""Revisions of Keymark itself, checked out and set up, so that two can be measured side by side.

A revision is kept as a folder of its files (no work tree of git's) in the user's cache
(`$XDG_CACHE_HOME` or `~/.cache`, there `keymark/revisions/<commit>`). Where it has the same
locked packages as this one, it runs with this one's Python; else `make install` gives it its own.
numba keeps compiled kernels beside their sources: they are compiled when a revision is set up, and
no measured turn has to.
"""

from __future__ import annotations

import io
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from dataclasses import dataclass
from pathlib import Path

from keymark.harness.engines import REVISION, WORKTREE, jars, own_master, revision_of
from keymark.harness.errors import GitError, HarnessError
from keymark.harness.git import CLONE, git

_LOCK = "requirements.lock"
_PRECOMPILE = ("keymark.table.runtime.precompile", "table.precompile")
"""The module that compiles the kernels, and its name in earlier revisions."""
_COMPILED = ".precompiled"
_SHORT = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkout:
    """A revision that can run.

    Attributes:
        root: where its packages are.
        python: the interpreter with what it needs.
    """

    root: Path
    python: Path


def named(engine: str) -> str:
    """The name of an engine, with a revision of any form (`native@HEAD~1`) as its commit.

    Raises:
        HarnessError: git knows no such revision.
    """
    revision = revision_of(engine)
    if revision is None or revision == WORKTREE:
        return engine
    return REVISION + resolve(revision)[:_SHORT]


def resolve(revision: str, root: Path = CLONE) -> str:
    """The full commit of a revision.

    Raises:
        HarnessError: git knows none, or the project is no clone.
    """
    try:
        found = git(root, "rev-parse", "--verify", "--end-of-options", f"{revision}^{{commit}}")
    except GitError as error:
        raise HarnessError(
            f"{revision!r} is neither a file nor a revision that git knows in {root}"
        ) from error
    return found.decode().strip()


def checkout(name: str, root: Path = CLONE) -> Checkout:
    """Make the revision of an engine `native@...` ready to run.

    Args:
        name: of the engine.
        root: the project that the revision is of.

    Raises:
        HarnessError: git knows it not, or it could not be set up.
    """
    what = name.removeprefix(REVISION)
    if own_master(name):
        return Checkout(root=root, python=Path(sys.executable))
    if what == WORKTREE:
        ready = Checkout(root=root, python=Path(sys.executable))
        # Each time: the sources may have been edited since.
        _precompile(ready, "the work tree")
        return ready
    commit = resolve(what, root)
    folder = jars.folder().with_name("revisions") / commit
    if not folder.exists():
        unpack(commit, folder, root)
    ready = Checkout(root=folder, python=_python(folder, root))
    if not (folder / _COMPILED).exists():
        _precompile(ready, commit[:_SHORT])
        (folder / _COMPILED).touch()
    return ready


def unpack(commit: str, folder: Path, root: Path) -> None:
    """The files of a commit in a folder, whole or not at all.

    Raises:
        HarnessError: git cannot give them.
    """
    archived = git(root, "archive", "--format=tar", commit)
    folder.parent.mkdir(parents=True, exist_ok=True)
    parts = Path(tempfile.mkdtemp(dir=folder.parent))
    try:
        with tarfile.open(fileobj=io.BytesIO(archived)) as files:
            files.extractall(parts, filter="data")
        try:
            parts.rename(folder)
        except OSError:
            if not folder.exists():  # else another process was faster, with the same files
                raise
    finally:
        shutil.rmtree(parts, ignore_errors=True)


def _python(folder: Path, root: Path) -> Path:
    """The interpreter of a revision: this one, unless its packages are locked differently."""
    if _same(folder / _LOCK, root / _LOCK):
        return Path(sys.executable)
    own = folder / ".venv" / "bin" / "python"
    made = subprocess.run(
        ["make", "--silent", "install"],  # noqa: S607 - the make that is installed
        cwd=folder,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
    )
    if made.returncode != 0 or not own.exists():
        raise HarnessError(f"make install of {folder.name}: {_last_line(made.stderr)}")
    return own


def _precompile(ready: Checkout, name: str) -> None:
    """Compile a revision's kernels; revisions from before there was a module for it have none."""
    for module in _PRECOMPILE:
        if ready.root.joinpath(*module.split(".")).with_suffix(".py").exists():
            break
    else:
        return
    made = subprocess.run(  # noqa: S603 - our own program
        [str(ready.python), "-m", module],
        cwd=ready.root,
        env={**os.environ, "PYTHONPATH": str(ready.root)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
    )
    if made.returncode != 0:
        raise HarnessError(f"{module} of {name}: {_last_line(made.stderr)}")


def _last_line(output: bytes) -> str:
    lines = output.decode(errors="replace").strip().splitlines()
    return lines[-1] if lines else "failed"


def _same(one: Path, other: Path) -> bool:
    try:
        return one.read_bytes() == other.read_bytes()
    except OSError:
        return False
