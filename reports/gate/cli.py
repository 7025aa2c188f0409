"""The command `gate`; only modules named `cli` print."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

from keymark.harness.engines import table_version
from keymark.harness.store import run_folder_mirror
from keymark.reports.errors import ReportError
from keymark.reports.gate import bisect as bisect_
from keymark.reports.gate import measure_revisions, render, run_numbers
from keymark.reports.gate import policy as policies
from keymark.reports.gate.compare import Gate, compare
from keymark.reports.gate.measure_revisions import WORKTREE, MeasureRequest, TwoRevisions
from keymark.reports.gate.policy import Kind, Policy
from keymark.reports.gate.run_numbers import RunNumbers
from keymark.reports.gate.verdicts import Verdict
from keymark.reports.render.text import clean
from keymark.terminal import InterruptionError, going_on

EXIT_CODES = {Verdict.PASS: 0, Verdict.REGRESSION: 1, Verdict.INCONCLUSIVE: 3}

_LONGEST_LIST = 40

_Scenario = Annotated[
    str | None, typer.Option(help="scenario that revisions are measured with; default: gate")
]
_Set = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="override a key of that scenario"),
]


def gate(
    base: Annotated[
        str,
        typer.Argument(
            metavar="BASE", help="run folder or summary.json, a path or URL; or git revision"
        ),
    ],
    candidate: Annotated[
        str | None,
        typer.Argument(
            metavar="[CANDIDATE]", help="the same; else work tree, or BASE's other side"
        ),
    ] = None,
    *,
    policy: Annotated[Path | None, typer.Option(help="TOML: which numbers are required")] = None,
    base_engine: Annotated[
        str | None, typer.Option(help="compare the base's cells of this engine ...")
    ] = None,
    candidate_engine: Annotated[
        str | None, typer.Option(help="... with the candidate's cells of this one")
    ] = None,
    scenario: _Scenario = None,
    kernels: Annotated[bool, typer.Option("--kernels", help="measure kernels only")] = False,
    bisect: Annotated[bool, typer.Option("--bisect", help="find the first worse revision")] = False,
    set_: _Set = None,
    master: Annotated[
        str | None, typer.Option(metavar="URL", help="Spark master, of both revisions")
    ] = None,
    out: Annotated[str | None, typer.Option(help="run folder of revisions, a path or URL")] = None,
    when_quiet: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="wait at most this long for a quiet machine: 30m"),
    ] = None,
    resume: Annotated[bool, typer.Option(help="continue the run in --out")] = False,
    junit: Annotated[Path | None, typer.Option(help="write JUnit XML to this file")] = None,
    markdown: Annotated[
        Path | None, typer.Option(help="write a comment for a pull request to this file")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="print one JSON document")] = False,
) -> int:
    """Compare a candidate with a base: exit 0 pass, 1 regression, 3 inconclusive."""
    _refuse_unwritable(junit, markdown)
    demanded = Policy() if policy is None else policies.load(policy)
    given = Given(base=base, candidate=candidate, engines=(base_engine, candidate_engine))
    sets = [*(set_ or ()), *([f"spark.master={master}"] if master else [])]
    asked = MeasureRequest(
        scenario=None if kernels else scenario or "gate",
        sets=tuple(sets),
        when_quiet=when_quiet,
        resume=resume,
    )
    _refuse_mismatched(given, asked, out, bisects=bisect, master=master)
    _refuse_unused(given, {"--scenario": scenario, "--set": set_, "--out": out})
    if bisect:
        asked = replace(asked, resume=False)
        asking = Asking(asked, demanded, str(policy), Path(out) if out else None)
        found = _search(base, candidate or "HEAD", asking)
        show_search(found, as_json=as_json)
        answer = found.gate
    else:
        if given.revisions:
            given = Given.of(_measured(base, candidate, asked, out))
        ours, theirs = given.sides()
        policies.check_used(demanded, list(ours.numbers), str(policy))
        answer = compare(ours, theirs, demanded)
        show(answer, as_json=as_json, whole=kernels)
    for path, text in ((junit, render.junit), (markdown, render.comment)):
        if path is not None:
            _write(path, text(answer))
    return EXIT_CODES[answer.verdict]


def _measured(
    base: str, candidate: str | None, asked: MeasureRequest, out: str | None
) -> TwoRevisions:
    """Measure two revisions; an interruption says what is kept and how to go on."""
    folder = out or measure_revisions.new_folder(asked)
    try:
        return measure_revisions.measure(base, candidate or WORKTREE, asked, folder)
    except KeyboardInterrupt as stop:
        if candidate is None:
            kept = "the work tree may change, so that the same command begins anew"
        else:
            kept = going_on(folder)
        raise InterruptionError(kept) from stop


def _refuse_unwritable(*paths: Path | None) -> None:
    """Known before anything is measured: the answer would be lost."""
    for path in paths:
        if path is not None and (path.is_dir() or not os.access(path.parent, os.W_OK)):
            raise ReportError(f"{clean(path)} cannot be written")


def _refuse_mismatched(
    given: Given, asked: MeasureRequest, out: str | None, *, bisects: bool, master: str | None
) -> None:
    """Refuse words of the command line that do not fit each other."""
    if (given.engines[0] is None) != (given.engines[1] is None):
        raise ReportError("--base-engine and --candidate-engine go together")
    if any("\0" in word for word in (given.base, given.candidate or "", out or "")):
        raise ReportError("a run or revision has a NUL character in its name")
    if out is not None and run_folder_mirror.is_url(out) and (bisects or not asked.scenario):
        raise ReportError("--out of --bisect and --kernels is a folder of this machine")
    if asked.resume and (out is None or not given.revisions or given.candidate is None):
        raise ReportError("--resume needs --out and two revisions: the work tree may have changed")
    if master and (asked.scenario is None or not given.revisions):
        raise ReportError("--master is for revisions whose tables are measured now")
    if asked.when_quiet is not None and not given.revisions:
        raise ReportError("--when-quiet is for revisions, which are measured now")
    if bisects and not given.revisions:
        raise ReportError("--bisect needs two revisions")


@dataclass(frozen=True, slots=True)
class Asking:
    """How a search judges: what it measures, what it demands, where it keeps its runs."""

    asked: MeasureRequest
    demanded: Policy
    policy: str
    out: Path | None


def _search(base: str, candidate: str, asking: Asking) -> bisect_.Found:
    """Search the revisions between two, and keep every run."""
    line = bisect_.between(base, candidate)
    start = bisect_.commit(base)
    kept = asking.out or Path("runs") / f"bisect-{start[:12]}-{line[-1][:12]}"
    progress = SearchProgress(line)

    def judge(revision: str, kind: Kind) -> Gate | None:
        sets, folder = asking.asked.sets, kept / f"{revision[:12]}-{kind.value}"
        if kind is Kind.COUNTER:
            sets += ("schedule.repetitions=1", "schedule.warmups=0")
        print(progress.next(revision, kind), file=sys.stderr)
        asked = replace(asking.asked, sets=sets)
        try:
            measured = measure_revisions.measured_once(start, revision, asked, folder)
        except KeyboardInterrupt as stop:
            raise InterruptionError(
                f"every step is kept in {kept}; the same command resumes"
            ) from stop
        except typer.Exit:
            # It has said why.
            print(f"{revision[:12]} cannot be measured and is passed over", file=sys.stderr)
            return None
        ours, theirs = Given.of(measured).sides()
        policies.check_used(asking.demanded, list(ours.numbers), asking.policy)
        return compare(ours, theirs, asking.demanded)

    return bisect_.search(line, judge)


class SearchProgress:
    """Tells of each step of a search, and how long those that are left may take.

    Args:
        line: the revisions.
    """

    def __init__(self, line: Sequence[str]) -> None:
        self._line, self._done, self._begin = line, 0, time.monotonic()

    def next(self, revision: str, kind: Kind) -> str:
        """One line about the step that begins."""
        most = max(bisect_.steps_at_most(self._line, kind), self._done + 1)
        taken = time.monotonic() - self._begin
        left = ""
        if self._done:
            left = f" ({taken / self._done * (most - self._done):.0f} s left at most)"
        self._done += 1
        what = f"{kind.value}s of {bisect_.subject(revision)}"
        return f"step {self._done} of at most {most}: {what}{left}"


def show_search(found: bisect_.Found, *, as_json: bool) -> None:
    """Print what a search found."""
    if as_json:
        print(json.dumps(render.search_document(found), indent=2, allow_nan=False))
        return
    console = Console(highlight=False, soft_wrap=True)
    for line in render.search_lines(found, bisect_.subject):
        console.print(Text(line))


def _refuse_unused(given: Given, of_revisions: Mapping[str, object]) -> None:
    """Refuse options that would change nothing: of revisions for runs, and the other way round."""
    if given.revisions and given.engines[0] is not None:
        raise ReportError("--base-engine and --candidate-engine are for runs, not for revisions")
    for name, value in of_revisions.items():
        if value and not given.revisions:
            raise ReportError(f"{name} is for revisions, which are measured now")


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """What is to be compared, as named on the command line.

    Attributes:
        base: a path or a revision.
        candidate: the same; None where one of both kinds stands for it.
        engines: of the base and of the candidate; None for all.
    """

    base: str
    candidate: str | None
    engines: tuple[str | None, str | None]

    @classmethod
    def of(cls, measured: TwoRevisions) -> Given:
        """The two engines of a run."""
        folder = str(measured.folder)
        return cls(base=folder, candidate=folder, engines=(measured.base, measured.candidate))

    @property
    def revisions(self) -> bool:
        """Whether these are revisions, which are still to be measured.

        Raises:
            ReportError: a path beside something that is none.
        """
        names = [name for name in (self.base, self.candidate) if name]
        there = [run_folder_mirror.is_url(name) or Path(name).exists() for name in names]
        if any(there) and not all(there):
            missing = self.candidate if there[0] else self.base
            raise ReportError(
                f"{clean(missing)} does not exist; a revision is compared with another one only"
            )
        return not any(there)

    def sides(self) -> tuple[RunNumbers, RunNumbers]:
        """Read both paths; an engine of the same run may stand for the candidate."""
        if self.candidate is None and self.engines == (None, None):
            return replace(self, candidate=self.base, engines=self._two_engines()).sides()
        self._refuse_versions()
        names = self.base, self.candidate or self.base
        sides = []
        for name, engine in zip(names, self.engines, strict=True):
            path = run_folder_mirror.local(name)
            side = run_numbers.load(path, engine)
            # One that was fetched is called by its URL.
            sides.append(replace(side, name=side.name.replace(clean(path), clean(name))))
        return sides[0], sides[1]

    def _two_engines(self) -> tuple[str, str]:
        """The two engines of a run that stands alone, base and candidate.

        Raises:
            ReportError: it has not two, or is no run.
        """
        try:
            found = measure_revisions.kept(run_folder_mirror.local(self.base))
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise ReportError(
                f"name a CANDIDATE that {clean(self.base)} is to be compared with"
            ) from error
        return found.base, found.candidate

    def _refuse_versions(self) -> None:
        """Engines that make tables of different versions are compared by no gate.

        Raises:
            ReportError: the two do.
        """
        base, candidate = self.engines
        if base is None or candidate is None or table_version(base) == table_version(candidate):
            return
        both = " and ".join(
            f"{clean(name)} makes tables of version {table_version(name)}"
            for name in (base, candidate)
        )
        raise ReportError(
            f"{both}; a gate compares tables of one version (as hudi@1.2.0-v8 beside hudi@1.0.2). "
            "`keymark run releases` shows what changed between versions"
        )


def show(answer: Gate, *, as_json: bool, whole: bool = False) -> None:
    """Print the answer for people, or as one JSON document.

    Args:
        answer: of a gate.
        as_json: as a document.
        whole: every comparison in a table, not only what is notable.
    """
    if as_json:
        print(json.dumps(render.document(answer), indent=2, allow_nan=False))
        return
    console = Console(highlight=False, soft_wrap=True)
    for warning in answer.warnings:
        console.print(Text(f"warning: {warning}"))
    found = list(answer.findings) if whole else render.shown(answer)
    for each in found[:_LONGEST_LIST]:
        mark = "" if each.decides else "advisory: "
        console.print(Text(f"{mark}{render.place(each)}: {render.sentence(each)}"))
    if len(found) > _LONGEST_LIST:
        console.print(Text(f"... and {len(found) - _LONGEST_LIST} more (--json has all of them)"))
    if not answer.interleaved:
        console.print(Text(render.SEPARATE))
    if cause := render.leading(answer):
        console.print(Text(f"cause: {cause}"))
    console.print(Text(f"{answer.verdict.value}: {render.headline(answer)}"))


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8", newline="\n")
    except OSError as error:
        raise ReportError(f"{clean(path)} cannot be written: {error.strerror}") from error
