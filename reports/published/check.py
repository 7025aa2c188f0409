"""A published run judged: whether it is what a run left, and what it says is what its samples say.

The digest finds accidents and careless edits. Who alters numbers and makes a new digest is found
where the numbers contradict each other, and else not at all: for that there is only a run that the
maintainers have repeated.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from keymark.reports.errors import ReportError
from keymark.reports.published import provenance
from keymark.reports.published.arithmetic import contradictions
from keymark.reports.published.derived import derived_findings
from keymark.reports.published.provenance import Provenance
from keymark.reports.published.record import record_findings
from keymark.reports.published.run import INFO, Finding, in_file, read
from keymark.reports.published.samples import sample_findings
from keymark.reports.render.text import clean


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


def check(path: Path) -> list[Checked]:
    """Check a run folder, or all below a folder of published runs.

    Raises:
        ReportError: there is none, or what says where they come from cannot be used.
    """
    found = folders(path)
    root = path.resolve().parent if found == [path] else path
    said = provenance.read(root)
    made = [_checked(each, said) for each in found]
    absent = sorted(said.keys() - {each.name for each in found}) if root == path else []
    if absent:
        wrong = [in_file(provenance.FILE, f"runs.{name}", "is not there") for name in absent]
        made.append(Checked(path=root, provenance=Provenance(), findings=tuple(wrong)))
    return made


def _checked(path: Path, said: dict[str, Provenance]) -> Checked:
    try:
        run, found = read(path)
        if run is not None:
            found += [*record_findings(run), *sample_findings(run), *contradictions(run)]
            found += derived_findings(run)
    except OSError as error:
        raise ReportError(f"{clean(path)} cannot be read: {error.strerror}") from error
    return Checked(
        path=path,
        provenance=said.get(path.resolve().name, Provenance()),
        findings=tuple(found),
        samples=len(run.samples) if run else 0,
    )
