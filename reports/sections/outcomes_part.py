"""Which release of Hudi runs which index on which kind of table: a row a release, a mark a cell.

What is not verified is listed with its reason, with the steps that lead to it, and with a command
that takes these steps alone.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from keymark.harness.engines import engine_indexes, hudi_name, hudi_order, table_version
from keymark.harness.redaction import redact_text
from keymark.harness.store.results import Sample
from keymark.reports.model.projection import CellView, Run, failed_cells
from keymark.reports.render.grids import Entry, Grid, Row
from keymark.reports.render.text import NOTHING, clean, without_folders

VERIFIED, REFUSED, FAILED, WRONG = "verified", "refused", "failed", "wrong answer"
ENDED = "ended at a limit"
_WORST_FIRST = (WRONG, FAILED, ENDED, REFUSED, VERIFIED)

_REFUSALS = re.compile(
    r"NotSupported|UnsupportedOperation|(?:does not|doesn't) (?:support|work with)|not supported"
)
"""Names of exceptions, and words, with which Hudi says that it does not do something."""
_READS = ("lookup", "point_query", "column_query", "range_query")
"""Beginnings of the names of steps that leave a table as it is."""
_BETWEEN = re.compile(r"(?:point_query|range_query|compact_rows)_\d+")
"""Names of the steps between two rounds."""
_LOAD = "bulk_insert"
_UPSERT = "upsert_"

Place = tuple[str, str, str]
"""Engine, index and variant."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reason:
    """Why cells are not verified, or releases do not have an index.

    Attributes:
        names: of the cells, or of engine and index.
        words: what is wrong, and after which steps.
        command: takes these steps alone, in the first of the cells; empty where none were taken.
    """

    names: tuple[str, ...]
    words: str
    command: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class OutcomesPart:
    """The section of the runs of a report.

    Attributes:
        grid: a row per engine of Hudi, a column per index and variant.
        reasons: why not, once for all the places that share a reason.
    """

    grid: Grid
    reasons: list[Reason]

    @property
    def finding(self) -> str:
        """How many cells are verified, in a sentence."""
        marks = [entry.value for row in self.grid.rows for entry in row.entries[1:]]
        counts = {mark: marks.count(mark) for mark in (VERIFIED, REFUSED, FAILED, WRONG, ENDED)}
        others = [f"{count} {mark}" for mark, count in counts.items() if count and mark != VERIFIED]
        sentence = f"{counts[VERIFIED]} of {sum(counts.values())} cells of Hudi are verified"
        return f"{', '.join([sentence, *others])}."


def outcomes_part(runs: Sequence[Run]) -> OutcomesPart | None:
    """The section; None unless the runs have two engines of Hudi."""
    cells = [cell for run in runs for cell in run.cells if hudi_name(cell.engine)]
    engines = sorted({cell.engine for cell in cells}, key=hudi_order)
    if len(engines) < 2:
        return None
    ordered = sorted(cells, key=lambda cell: (cell.spec.order, cell.index, cell.variant))
    columns = list(dict.fromkeys((cell.index, cell.variant) for cell in ordered))
    marks = _marks(cells)
    absent = {name for run in runs for name in run.record.skipped}
    rows = tuple(
        Row(
            label=clean(engine, 40),
            index="",
            entries=(
                Entry(value=str(table_version(engine))),
                *(Entry(value=_outcome(marks, (engine, *each), absent)) for each in columns),
            ),
        )
        for engine in engines
    )
    heads = ("table version", *(clean(" · ".join(filter(None, each)), 60) for each in columns))
    return OutcomesPart(
        grid=Grid(caption="Releases and indexes", heads=heads, rows=rows),
        reasons=_shared([reason for run in runs for reason in _reasons(run)]),
    )


def _shared(reasons: Sequence[Reason]) -> list[Reason]:
    """Reasons in the same words as one, in the order of their first cells."""
    found: dict[str, Reason] = {}
    for each in reasons:
        first = found.get(each.words)
        found[each.words] = replace(first, names=first.names + each.names) if first else each
    return list(found.values())


def _marks(cells: Sequence[CellView]) -> dict[Place, str]:
    """What became of each place: where it was measured on several data, the worst of it."""
    found: dict[Place, str] = {}
    for cell in cells:
        place = (cell.engine, cell.index, cell.variant)
        found[place] = min(found.get(place, VERIFIED), _mark(cell), key=_WORST_FIRST.index)
    return found


def _outcome(marks: Mapping[Place, str], place: Place, absent: Collection[str]) -> str:
    """The mark of a place; refused where the release has no such index, a dash where unasked."""
    engine, index, _ = place
    return marks.get(place, REFUSED if f"{engine}/{index}" in absent else NOTHING)


def _mark(cell: CellView) -> str:
    """What became of a cell."""
    if cell.ended:
        return ENDED
    if cell.verified:
        return VERIFIED
    reasons = "; ".join(cell.reasons)
    # An index that the release does not have it refuses in whatever words.
    lacks = cell.index not in engine_indexes(cell.engine) and "failed: " in reasons
    if lacks or _REFUSALS.search(reasons):
        return REFUSED
    # A step that raised an error says so; another one gave a wrong answer.
    return FAILED if "failed: " in reasons else WRONG


def _reasons(run: Run) -> list[Reason]:
    """What is not verified in a run, by release and cell; then what was not there at all."""
    known = sorted(
        (cell for cell in run.cells if hudi_name(cell.engine) and (cell.failed or cell.ended)),
        key=lambda cell: (hudi_order(cell.engine), cell.cell),
    )
    seen = {cell.cell for cell in run.cells}
    others = {cell: why for cell, why in failed_cells(run.record).items() if cell not in seen}
    return [
        *(_reason(run, cell) for cell in known),
        *(
            Reason(names=(clean(name, 80),), words=f"{clean(why, 400).rstrip('.')}.")
            for name, why in (others | run.record.skipped).items()
        ),
    ]


def _reason(run: Run, cell: CellView) -> Reason:
    """Why a cell is not verified, and how to see that again."""
    words = f"{_mark(cell)}: {cell.ended or '; '.join(cell.reasons)}"
    steps = steps_to_failure([each for each in run.samples if each.cell == cell.cell])
    return Reason(
        names=(clean(cell.cell, 80),),
        words=f"{clean(words, 500).rstrip('.')}. Steps: {clean(', '.join(steps), 300)}.",
        command=_command(run, cell, steps),
    )


def steps_to_failure(samples: Sequence[Sample]) -> list[str]:
    """The steps that changed the table up to the one that ended the cell, and that one.

    Args:
        samples: of one cell, as the run took them.

    Returns:
        Names of steps in order; the load alone if none ended it.
    """
    last = next((each for each in samples if _ends(each)), None)
    if last is None:
        return [_LOAD]
    before: dict[str, None] = {}
    for each in samples:
        if each.step == last.step and _ends(each):
            break
        is_of_trial = (each.repetition, each.warmup) == (last.repetition, last.warmup)
        if (is_of_trial or each.step == _LOAD) and not each.step.startswith(_READS):
            before[each.step] = None
    return [*before, last.step]


def _ends(sample: Sample) -> bool:
    """Whether the cell ended with this step: it was wrong, failed, or came to a limit."""
    return not sample.verified or (sample.metric == "wall_s" and not sample.valid)


def _command(run: Run, cell: CellView, steps: Sequence[str]) -> str:
    """A command that takes these steps with this engine and index, and no others.

    What the run's own command sets is set again, and the other variants of the scenario are left
    out.
    """
    given = [without_folders(redact_text(word)) for word in run.record.command]
    place = given.index("run") + 1 if "run" in given else len(given)
    named = given[place] if place < len(given) and not given[place].startswith("-") else ""
    scenario = named or run.record.scenario.name or "hudi_matrix"
    words = ["keymark", "run", scenario, "--engine", cell.engine, "--index", cell.index]
    words += [
        word for option, value in pairwise(given) if option == "--set" for word in (option, value)
    ]
    others = {
        each.variant for each in run.cells if (each.engine, each.index) == (cell.engine, cell.index)
    }
    for variant in sorted(others - {cell.variant}):
        words += ["--set", f"table.variant_indexes.{variant}=[]"]
    work, last = run.record.scenario.workload, steps[-1]
    if last != _LOAD:
        # A step between two rounds is not taken after the last one.
        is_between = _BETWEEN.fullmatch(last) is not None
        rounds = sum(step.startswith(_UPSERT) for step in steps) + is_between
        asks, deletes = last.startswith("lookup"), "delete" in steps
        merges = last in ("point_query_optimized", "compact_rows")
        # A scenario refuses settings without the steps that they are about.
        unneeded = {
            f"workload.rounds={rounds}": work.rounds != rounds,
            "dataset.batches=[]": run.record.scenario.dataset.batches and not rounds,
            "workload.delete=false": work.delete and not deletes,
            "workload.delete_latest=false": work.delete_latest and not (deletes and rounds),
            "workload.lookup_present=0": work.lookup_present and not asks,
            "workload.lookup_absent=0": work.lookup_absent and not asks,
            "workload.lookup_again=false": work.lookup_again and not asks,
            "workload.lookup_few=0": work.lookup_few and not asks,
            "workload.read_every=0": work.read_every and not (is_between and "query" in last),
            "workload.point_query=false": work.point_query and not last.startswith("point_query"),
            "workload.cold=false": work.cold and not last.endswith("_cold"),
            "workload.merge_on_read=[]": work.merge_on_read and not merges,
        }
        words += [word for each, is_so in unneeded.items() if is_so for word in ("--set", each)]
    # It stands between backquotes in Markdown.
    return clean(shlex.join(words), 4_000).replace("`", "'")
