"""A published run judged: whether it is what a run left, and what it says is what its samples say.

The digest finds accidents and careless edits. Altered numbers with a new digest are found only
where they contradict each other. Against those only a repetition by the maintainers helps. So that
label is checked, too: the run that is named must be there, be right, and have done the same work of
the same scenario.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from keymark.reports.cores import on_each_core
from keymark.reports.errors import ReportError
from keymark.reports.model import facts, projection
from keymark.reports.published import provenance
from keymark.reports.published.agreement import agreement
from keymark.reports.published.arithmetic import contradictions
from keymark.reports.published.derived import derived_findings
from keymark.reports.published.provenance import Provenance
from keymark.reports.published.record import record_findings
from keymark.reports.published.run import INFO, Finding, in_file, read
from keymark.reports.published.samples import by_step, sample_findings
from keymark.reports.render.text import clean
from keymark.reports.sections.parts import Parts

_FEW = 4
"""Up to this number of runs, starting processes would take longer than checking."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """What was found in one folder.

    Attributes:
        path: the folder.
        provenance: whose run it is.
        findings: what is wrong; nothing where the run may be published.
        samples: number of its samples.
    """

    path: Path
    provenance: Provenance
    findings: tuple[Finding, ...]
    samples: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Examined:
    """A run folder whose own files were judged.

    Attributes:
        checked: what was found.
        right: the run, and the sections of its report that the check made; None where something
            is wrong.
    """

    checked: Checked
    right: tuple[projection.Run, Parts] | None


def folders(path: Path) -> list[Path]:
    """The run folders that a path names: itself, or all below it.

    Raises:
        ReportError: there is none.
    """
    if (path / INFO).is_file():
        return [path]
    below = (each.parent for each in path.rglob(INFO)) if path.is_dir() else ()
    # What is hidden is what a command that was killed left.
    found = sorted(e for e in below if not any(p[0] == "." for p in e.relative_to(path).parts))
    if not found:
        raise ReportError(f"{clean(path)} is no run folder, and none is below it")
    return found


def root_of(path: Path) -> Path:
    """The folder of published runs that a path means: itself, or that of a run folder."""
    return path.resolve().parent if (path / INFO).is_file() else path


def check(path: Path) -> list[Checked]:
    """Check a run folder, or all below a folder of published runs.

    Raises:
        ReportError: there is none, or what says where they come from cannot be used.
    """
    found, labels = folders(path), provenance.read(root_of(path))
    call = partial(_checked, labels=labels)
    made = on_each_core(call, found) if len(found) > _FEW else [call(each) for each in found]
    return with_labels(made, path, labels)


def with_labels(
    made: Sequence[Checked], path: Path, labels: Mapping[str, Provenance]
) -> list[Checked]:
    """Add what is wrong with the labels of runs that were checked.

    Args:
        made: the runs of `folders(path)`.
        path: a run folder, or one of published runs.
        labels: whose each run is, by its id.

    Raises:
        ReportError: a run cannot be read.
    """
    root = root_of(path)
    right = {each.path.resolve().name: each for each in made}
    for each in made:
        name = each.provenance.repeated
        # Where one folder is checked, the run that repeats it is beside it.
        if name and name not in right and Path(name).name == name and (root / name / INFO).exists():
            right[name] = _checked(root / name, labels)
    labelled = [
        replace(each, findings=(*each.findings, *_label_findings(each, right))) for each in made
    ]
    absent = sorted(labels.keys() - {each.path.name for each in made}) if root == path else []
    if absent:
        wrong = [in_file(provenance.FILE, f"runs.{name}", "is not there") for name in absent]
        labelled.append(Checked(path=root, provenance=Provenance(), findings=tuple(wrong)))
    return labelled


def examined(path: Path, label: Provenance) -> Examined:
    """Check the files of one run folder.

    Args:
        path: the folder.
        label: whose run it is; that is not checked.

    Raises:
        ReportError: a file cannot be read.
    """
    try:
        read_run, found = read(path)
        right = None
        if read_run is not None:
            steps = by_step(read_run.samples)
            found += [*record_findings(read_run), *sample_findings(read_run, steps)]
            found += contradictions(read_run, steps)
            try:
                run = read_run.projected()
                sections = Parts.of([run])
                found += derived_findings(run, sections)
                right = None if found else (run, sections)
            except ReportError as error:
                found.append(in_file("", "", str(error)))
    except OSError as error:
        raise ReportError(f"{clean(path)} cannot be read: {error.strerror}") from error
    count = len(read_run.samples) if read_run else 0
    checked = Checked(path=path, provenance=label, findings=tuple(found), samples=count)
    return Examined(checked=checked, right=right)


def _checked(path: Path, labels: Mapping[str, Provenance]) -> Checked:
    return examined(path, labels.get(path.resolve().name, Provenance())).checked


def _label_findings(run: Checked, known: Mapping[str, Checked]) -> list[Finding]:
    """Why a run may not be called repeated by the maintainers.

    Args:
        run: that is called so, or is not.
        known: runs by id, among them the one that repeats it.

    Raises:
        ReportError: a run cannot be read.
    """
    name, own = run.provenance.repeated, run.path.resolve().name
    if not name or run.findings:
        return []
    again = known.get(name)
    if name == own:
        mistake = "a run does not repeat itself"
    elif again is None:
        mistake = f"{name} is not there"
    elif again.findings:
        mistake = f"{name} is itself refused: {again.findings[0]}"
    else:
        mistake = _other_work(run.path, again.path)
    return [in_file(provenance.FILE, f"runs.{own}.repeated", mistake)] if mistake else []


def _other_work(first: Path, second: Path) -> str:
    """In what a run is no repetition of another one; empty where it is one."""
    (run,), (again,) = projection.load([first]), projection.load([second])
    names = [each.record.scenario.name for each in (again, run)]
    if names[0] != names[1]:
        return f"{second.name} is a run of scenario {names[0]}, and this one of {names[1]}"
    ours, theirs = facts.work(run.record), facts.work(again.record)
    for key, value in ours.items():
        # Cores and memory are the machine's, and so is where its tables are.
        if theirs.get(key, value) != value and not key.startswith(("spark.", "table.location")):
            return f"{second.name} did other work: {key} is {theirs[key]} there, and {value} here"
    try:
        agreement(first, second)
    except ReportError as error:
        return f"{second.name} does not repeat it: {error}"
    return ""
