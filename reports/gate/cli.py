"""The command `gate`; only modules named `cli` print."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

from reports.errors import ReportError
from reports.gate import both, forms, sides
from reports.gate import policy as policies
from reports.gate.compare import Gate, compare
from reports.gate.policy import Policy
from reports.gate.sides import Side
from reports.gate.verdicts import Verdict
from reports.text import clean

EXIT_CODES = {Verdict.PASS: 0, Verdict.REGRESSION: 1, Verdict.INCONCLUSIVE: 3}

_LONGEST_LIST = 40


def gate(
    base: Annotated[
        str, typer.Argument(metavar="BASE", help="run folder, summary.json, or git revision")
    ],
    candidate: Annotated[
        str | None,
        typer.Argument(metavar="[CANDIDATE]", help="the same; of a revision: the work tree"),
    ] = None,
    *,
    policy: Annotated[Path | None, typer.Option(help="what is demanded, as TOML")] = None,
    base_engine: Annotated[
        str | None, typer.Option(help="compare the base's cells of this engine ...")
    ] = None,
    candidate_engine: Annotated[
        str | None, typer.Option(help="... with the candidate's cells of this one")
    ] = None,
    scenario: Annotated[str, typer.Option(help="what is measured of revisions")] = "gate",
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="override a key of that scenario"),
    ] = None,
    out: Annotated[Path | None, typer.Option(help="run folder of revisions")] = None,
    junit: Annotated[Path | None, typer.Option(help="write JUnit XML to this file")] = None,
    markdown: Annotated[
        Path | None, typer.Option(help="write a comment for a pull request to this file")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="print one JSON document")] = False,
) -> int:
    """Compare a candidate with a base: exit 0 pass, 1 regression, 3 inconclusive."""
    if (base_engine is None) != (candidate_engine is None):
        raise ReportError("--base-engine and --candidate-engine go together")
    demanded = Policy() if policy is None else policies.load(policy)
    given = Given(base=base, candidate=candidate, engines=(base_engine, candidate_engine))
    if given.revisions:
        measured = both.measure(
            base, candidate or both.WORKTREE, scenario=scenario, sets=set_ or (), out=out
        )
        folder = str(measured.folder)
        given = Given(base=folder, candidate=folder, engines=(measured.base, measured.candidate))
    ours, theirs = given.sides()
    policies.check_used(demanded, list(ours.numbers), str(policy))
    answer = compare(ours, theirs, demanded)
    for path, text in ((junit, forms.junit), (markdown, forms.comment)):
        if path is not None:
            _write(path, text(answer))
    show(answer, as_json=as_json)
    return EXIT_CODES[answer.verdict]


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

    @property
    def revisions(self) -> bool:
        """Whether these are revisions, which are still to be measured.

        Raises:
            ReportError: a path beside something that is none.
        """
        there = [Path(name).exists() for name in (self.base, self.candidate) if name]
        if any(there) and not all(there):
            missing = self.candidate if there[0] else self.base
            raise ReportError(
                f"{clean(missing)} is not there; a revision is compared with another one only"
            )
        return not any(there)

    def sides(self) -> tuple[Side, Side]:
        """Read both paths; an engine of the same run may stand for the candidate."""
        if self.candidate is None and self.engines[0] is None:
            raise ReportError(f"{clean(self.base)} is to be compared with what? name a CANDIDATE")
        paths = Path(self.base), Path(self.candidate or self.base)
        ours, theirs = (
            sides.load(path, engine) for path, engine in zip(paths, self.engines, strict=True)
        )
        return ours, theirs


def show(answer: Gate, *, as_json: bool) -> None:
    """Print the answer for people, or as one JSON document."""
    if as_json:
        print(json.dumps(forms.document(answer), indent=2, allow_nan=False))
        return
    console = Console(highlight=False, soft_wrap=True)
    for warning in answer.warnings:
        console.print(Text(f"warning: {warning}"))
    found = forms.shown(answer)
    for each in found[:_LONGEST_LIST]:
        mark = "" if each.decides else "advisory: "
        console.print(Text(f"{mark}{forms.place(each)}: {forms.sentence(each)}"))
    if len(found) > _LONGEST_LIST:
        console.print(Text(f"... and {len(found) - _LONGEST_LIST} more (--json has all of them)"))
    if not answer.interleaved:
        console.print(Text(forms.SEPARATE))
    console.print(Text(f"{answer.verdict.value}: {forms.headline(answer)}"))


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8", newline="\n")
    except OSError as error:
        raise ReportError(f"{clean(path)} cannot be written: {error.strerror}") from error
