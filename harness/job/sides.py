"""The sides of a run of a job: one, or a base and a candidate that take turns.

A side is a git revision of the repository that the job file is in (`HEAD~1`, `worktree`), or other
values (`jar=old.jar`), or both.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from keymark.harness.engines import WORKTREE, revisions
from keymark.harness.errors import HarnessError
from keymark.harness.git import git
from keymark.harness.job.document import JobSection
from keymark.harness.scenario.documents import nearest

ONE, BASE, CANDIDATE = "job", "base", "candidate"
"""Names of sides, which stand as engines in samples."""

_SHORT = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """One side.

    Attributes:
        name: ONE, BASE or CANDIDATE.
        title: what it is, in words: ``commit 0123456789ab``, ``partitions=400``.
        commit: whose files it runs with; None for the files as they lie there.
        values: what `{name}` stands for.
    """

    name: str
    title: str
    commit: str | None
    values: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Repository:
    """Where a job file is.

    Attributes:
        root: of the git repository; where there is none, the folder of the job file.
        below: the folder of the job file below the root.
        revision: the commit that is checked out, with `+` where files were changed; empty where
            there is no repository.
    """

    root: Path
    below: Path
    revision: str

    @classmethod
    def of(cls, job_file: Path) -> Repository:
        """The repository of a job file."""
        folder = job_file.resolve().parent
        try:
            root = Path(git(folder, "rev-parse", "--show-toplevel").decode().strip()).resolve()
            commit = git(root, "rev-parse", f"--short={_SHORT}", "HEAD").decode().strip()
            changed = git(root, "status", "--porcelain", "--untracked-files=no").strip()
        except HarnessError:
            return cls(folder, Path(), "")
        return cls(root, folder.relative_to(root), f"{commit}+" if changed else commit)


def sides(
    job: JobSection, repository: Repository, base: Sequence[str], candidate: Sequence[str]
) -> tuple[Side, ...]:
    """The sides that were asked for.

    Args:
        job: the job.
        repository: of its file.
        base: what the option `--base` said, each time; a revision or `name=value`.
        candidate: the same of `--candidate`.

    Raises:
        HarnessError: only one of both is given, both are the same, a value is not known, or git
            knows no such revision.
    """
    if not base and not candidate:
        return (_side(ONE, (), job, repository),)
    if not base or not candidate:
        raise HarnessError("--base and --candidate go together")
    found = _side(BASE, base, job, repository), _side(CANDIDATE, candidate, job, repository)
    if (found[0].commit, found[0].values) == (found[1].commit, found[1].values):
        raise HarnessError(f"base and candidate are the same: {found[0].title}")
    return found


def _side(name: str, words: Sequence[str], job: JobSection, repository: Repository) -> Side:
    values, own, named = dict(job.values), [], ""
    for word in words:
        key, equals, value = word.partition("=")
        if equals:
            if key not in job.values:
                raise HarnessError(
                    f"--{name} {word}: the job has no value {key!r}{nearest(key, job.values)}"
                )
            values[key] = value
            own.append(word)
        elif named:
            raise HarnessError(f"--{name}: {named} and {word} are two revisions")
        else:
            named = word
    commit = None if named in ("", WORKTREE) else _commit(name, named, repository)
    parts = [f"commit {commit[:_SHORT]}"] if commit else []
    parts += ["the work tree"] if named == WORKTREE else []
    there = f"commit {repository.revision}" if repository.revision else "the files as they are"
    title = ", ".join([*parts, *own]) or there
    return Side(name=name, title=title, commit=commit, values=values)


def _commit(name: str, revision: str, repository: Repository) -> str:
    if not repository.revision:
        raise HarnessError(
            f"--{name} {revision}: {repository.root} is in no git repository; name values, as in "
            "--base jar=old.jar"
        )
    return revisions.resolve(revision, repository.root)
