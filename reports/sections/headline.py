"""The answer in a sentence: what a reader would tell a colleague, with the machine's noise.

Up to four further sentences say what finding rows, shuffling and reading one row take.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from keymark.reports.model import facts, tables
from keymark.reports.model.projection import CellView, Run
from keymark.reports.model.tables import Column, Standing
from keymark.reports.render.format_values import amount, digits
from keymark.reports.render.prose import BY_ROUNDS, by_zero
from keymark.reports.render.text import listed

_ORDER = ("write_latency", "build_index", "build", "lookup", "null_columns", "delete", "purge")
"""Measures by what readers ask first; else the first that was measured."""

_MORE = ("tag", "shuffle", "point_query", "point_query_spark")
"""Measures of the further sentences."""

_NAMED = 3
"""Cells behind the best that the sentence names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Headline:
    """What stands on top of a report of one run.

    Attributes:
        sentence: the answer.
        more: what finding rows, shuffling and reading one row take, a sentence each.
        noise: by how much the machine varied during the run.
    """

    sentence: str
    more: list[str]
    noise: str


def headline(run: Run, cells: Sequence[CellView]) -> Headline | None:
    """The answer of a run's verified cells on the same data; None where nothing was measured."""
    columns = {column.measure.key: column for column in tables.headline(cells).columns}
    known = {key: each for key, each in columns.items() if each.standing is not Standing.EMPTY}
    key = next((key for key in (*_ORDER, *known) if key in known), None)
    if key is None:
        return None
    column, subject = known[key], _subject(run, cells[0], known[key])
    labels = [cell.label.replace(" · ", " of ") for cell in cells]
    kind = "side" if tables.own_steps(cells) else "index"
    sentence = _column_sentence(column, subject, labels, kind)
    if key == "write_latency" and column.standing is Standing.NO_DIFFERENCE:
        sentence += _why(cells)
    more = []
    for each in [known[name] for name in _MORE if name in known and name != key]:
        if each.standing not in (Standing.TOO_FEW, Standing.ALONE):
            words = _column_sentence(each, _subject(run, cells[0], each), labels, kind)
            if each.measure.key == "tag":
                words += _share_of_upsert(cells, labels)
            more.append(f"{words}.")
    return Headline(sentence=f"{sentence}.", more=more, noise=_noise(cells[0].noise))


def _shares(cells: Sequence[CellView], *phases: str) -> list[float | None]:
    """What part of an upsert some phases are, by cell; None where a cell does not tell."""
    columns = {column.measure.phase: column.summaries for column in tables.phases(cells).columns}
    parts = [columns[phase] for phase in phases if phase in columns]
    found: list[float | None] = []
    for row, whole in enumerate(columns.get("total", ())):
        lengths = [each.median for part in parts if (each := part[row])]
        found.append(sum(lengths) / whole.median if lengths and whole and whole.median else None)
    return found


def _why(cells: Sequence[CellView]) -> str:
    """Why upserts do not differ, where tagging and the upkeep of the index are a small part."""
    most = max((share for share in _shares(cells, "tag", "index") if share), default=1.0)
    same = f"{100 * (1 - most):.0f} %"
    return "" if most > 0.5 else f"; {same} of it or more is the same work with every index"


def _share_of_upsert(cells: Sequence[CellView], labels: Sequence[str]) -> str:
    """Tagging's share of the whole upsert, where it is least and most."""
    shares = {row: share for row, share in enumerate(_shares(cells, "tag")) if share}
    if len(shares) < 2:
        return ""
    least, most = (f(shares, key=lambda row: shares[row]) for f in (min, max))
    low, high = (f"{100 * shares[row]:.0f} % of an upsert" for row in (least, most))
    if low == high:
        return f"; that is {low}"
    return f"; that is {low} with {labels[least]} and {high} with {labels[most]}"


def _subject(run: Run, cell: CellView, column: Column) -> str:
    """What was measured, with its sizes: ``an upsert of 10,000 rows into 200,000``."""
    sizes = facts.sizes_of(run.record)
    rows, batch = cell.data.rows or sizes.rows, cell.data.batch or sizes.batch_rows
    words = {
        "write_latency": ("an upsert", batch, "rows", "into a table of"),
        "tag": ("finding the rows that an upsert changes", 0, "", ""),
        "shuffle": ("what an upsert shuffles", 0, "", ""),
        "point_query": ("reading one row by its key", 0, "", ""),
        "point_query_spark": ("reading one row by its key with Spark", 0, "", ""),
        "build_index": ("building the index", rows, "rows", ""),
        "build": ("building the index", rows, "keys", ""),
        "lookup": ("a lookup", sizes.lookup_keys, "keys", "in a table of"),
        "null_columns": ("nulling columns", sizes.deletes, "keys", "in a table of"),
        "delete": ("a delete", sizes.deletes, "keys", "from a table of"),
        "purge": ("a purge", sizes.deletes, "keys", "from a table of"),
    }
    plain = column.measure.what[0].lower() + column.measure.what[1:]
    what, count, unit, where = words.get(column.measure.key, (plain, 0, "", ""))
    counted = f" of {count:,} {unit}" if count else ""
    return f"{what}{counted}" + (f" {where} {rows:,}" if where and rows else "")


def _column_sentence(column: Column, subject: str, labels: Sequence[str], kind: str) -> str:
    """The sentence about a measure; `kind` is what is compared: indexes, or sides of a job."""
    medians = {row: each.median for row, each in enumerate(column.summaries) if each}
    ranked = sorted(medians, key=lambda row: medians[row], reverse=column.measure.higher)
    least, most = (amount(f(medians.values()), column.unit) for f in (min, max))
    around = f"medians are {least} to {most}" if least != most else f"all are at {least}"
    capital = subject[0].upper() + subject[1:]
    takes = "is" if column.measure.metric != "wall_s" else "takes"
    if column.by_rounds:
        takes += f",{BY_ROUNDS},"
    if column.standing is Standing.ZEROS:
        return f"{capital} {takes} {amount(0, column.unit)} with every {kind}"
    if column.standing is Standing.SOME_ZEROS:
        return f"{capital} {takes} {by_zero(column, labels)}"
    if column.standing is Standing.TOO_FEW:
        return (
            f"Too few repetitions to say which {kind} is best at {subject}: {around}, and at least "
            f"{column.deciding} repetitions would decide"
        )
    if column.standing is Standing.NO_DIFFERENCE:
        more = f"; about {column.deciding} repetitions would decide" if column.deciding else ""
        sentence = f"No {kind} is shown to be better than another at {subject}"
        return f"{sentence}{BY_ROUNDS * column.by_rounds}: {around}{more}"
    if column.standing is Standing.ALONE:
        each = listed([f"{amount(medians[row], column.unit)} with {labels[row]}" for row in ranked])
        return f"{capital} {takes} {each}"
    first = listed([labels[row] for row in ranked if row in column.leaders])
    best = next(medians[row] for row in ranked if row in column.leaders)
    sentence = f"{capital} {takes} {amount(best, column.unit)} with {first}"
    if column.standing is Standing.TIED:
        sentence += ", which are not told apart"
    behind = [row for row in ranked if row not in column.leaders]
    kept = behind if len(behind) <= _NAMED else [*behind[: _NAMED - 1], behind[-1]]
    return f"{sentence}, {listed([_behind(column, row, medians, labels) for row in kept])}"


def _behind(column: Column, row: int, medians: dict[int, float], labels: Sequence[str]) -> str:
    ratio = column.ratios[row]
    if ratio is None:
        return f"{amount(medians[row], column.unit)} with {labels[row]}"
    long = "as long" if column.measure.metric == "wall_s" else "as much"
    times = f"{ratio.median:,.0f}" if ratio.median >= 10 else f"{ratio.median:.2g}"
    return f"{times} times {long} with {labels[row]}"


def _noise(share: float) -> str:
    if not share:
        return "The machine's noise was not measured."
    return f"The machine's noise during the run: {digits(100 * share)} %."
