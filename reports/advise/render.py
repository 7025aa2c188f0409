"""Advice as text for a terminal, its finding first."""

from __future__ import annotations

from collections.abc import Sequence

from keymark.harness.store.units import Unit
from keymark.reports.advise.advice import Advice, PartCheck
from keymark.reports.advise.findings import Finding, Urgency
from keymark.reports.advise.history import History
from keymark.reports.advise.log_split import LogSplit
from keymark.reports.plan import render as plan_text
from keymark.reports.render.format_values import amount, digits
from keymark.reports.render.text import clean
from keymark.table.survey.model import TableSurvey

_PART_WORDS = {
    "tag": "finding the records",
    "index": "keeping the index up to date",
    "write": "rewriting files",
    "around": "reading the table's state, commit and cleaning",
}


_LOG_WORDS = {
    "prepare": "reading and combining the batch",
    "tag": "finding the records",
    "write": "writing files",
    "index": "the metadata table and its indexes",
    "commit": "committing",
    "services": "cleaning and archiving",
}


def lines(made: Advice) -> list[str]:
    """The advice without the plan's table."""
    page = [headline(made), ""]
    page += [f"{head:<8} {text}" for head, text in facts(made)]
    for urgency, title in ((Urgency.NOW, "change now"), (Urgency.WATCH, "watch")):
        found = [each for each in made.findings if each.urgency == urgency]
        page += ["", title] if found else []
        for each in found:
            page += _finding(each)
    if made.parts:
        page += ["", *parts(made)]
    if why := unpredicted(made):
        page += ["", why]
    if made.log is not None:
        page += ["", *log_lines(made.log, made.check)]
    if made.outlook:
        page += ["", "as it grows"]
        page += [f"  {line}" for line in made.outlook]
    if made.survey.problems:
        page += ["", "not read"]
        page += [f"  {clean(line)}" for line in made.survey.problems]
    return page


def parts(made: Advice) -> list[str]:
    """The parts of a write that are predicted; shares only where these are all of it."""
    took = {
        part: plan_text.worded(estimate, Unit.SECONDS.value)
        for part, estimate in made.parts.items()
    }
    if made.survey.merge_on_read:
        sentences = [f"  {_PART_WORDS[part]}: {text}" for part, text in took.items()]
        return ["what the index adds to a write, by the plan", *sentences]
    whole = sum(each.value for each in made.parts.values()) or 1.0
    shares = {part: f"{estimate.value / whole:4.0%}" for part, estimate in made.parts.items()}
    sentences = [f"  {shares[part]}  {_PART_WORDS[part]}: {text}" for part, text in took.items()]
    less = ", without its store's latency" if made.plan and made.plan.unknown_latency else ""
    return [f"where the time of a write goes, by the plan{less}", *sentences]


def unpredicted(made: Advice) -> str:
    """Why there are no parts of the table's own index; empty where there are."""
    index = made.situation.index
    if not made.unpredicted or index is None:
        return ""
    return f"{index.name} is not predicted: {made.unpredicted}"


def headline(made: Advice) -> str:
    """The finding, in a sentence."""
    name = clean(made.survey.name or made.survey.path)
    now = [each for each in made.findings if each.urgency == Urgency.NOW]
    if now:
        things = "one thing" if len(now) == 1 else f"{len(now)} things"
        return f"{name}: {things} to change now; first: {now[0].what}."
    index = made.situation.index
    if made.plan is None:
        return f"{name}: nothing to change; no batch is known to plan with (--batch N)."
    best = made.plan.choice.recommended
    if index is not None and best == index.name:
        return f"{name}: nothing to change; {best} is the index that adds least to its writes."
    if best is not None:
        return f"{name}: nothing to change; of the indexes, {best} would add least to its writes."
    matters = plan_text.difference(made.plan)
    return f"{name}: nothing to change; which index would add least cannot be told{matters}."


def facts(made: Advice) -> list[tuple[str, str]]:
    """What the table is, a name and its words each."""
    survey = made.survey
    found = [("table", _table(survey)), ("files", _files(survey))]
    if made.situation.history:
        found.append(("upserts", _upserts(made.situation.history)))
    found.append(("index", _index(made)))
    keys = survey.keys
    ordered = {True: "growing", False: "without order", None: "order not known"}[keys.ordered]
    size = f", {keys.mean_bytes:,.0f} bytes" if keys.mean_bytes else ""
    fields = clean(", ".join(keys.fields) or "none named")
    found.append(("keys", f"{fields}: {keys.shape}{size}, {ordered}"))
    ran = survey.services
    counts = (
        f"{ran.instants:,} instants in the active timeline; {ran.cleans:,} cleans, "
        f"{ran.compactions:,} compactions, {ran.clusterings:,} clusterings, "
        f"{ran.rollbacks:,} rollbacks, {len(ran.pending):,} pending"
    )
    found.append(("services", counts))
    return found


def _table(survey: TableSurvey) -> str:
    kind = "merge on read" if survey.merge_on_read else "copy on write"
    return (
        f"version {survey.version}, {kind}: {survey.rows:,} rows of "
        f"{survey.row_bytes:,.0f} bytes in {survey.files.partitions:,} partitions"
    )


def _files(survey: TableSurvey) -> str:
    files = survey.files
    low, middle, high = (amount(size, Unit.BYTES.value) for size in files.sizes)
    words = (
        f"{files.base_files:,} base files, {amount(files.base_bytes, Unit.BYTES.value)} "
        f"({low} to {high}, median {middle})"
    )
    if files.log_files:
        words += f"; {files.log_files:,} log files, {amount(files.log_bytes, Unit.BYTES.value)}"
    if files.old_files:
        words += f"; {amount(files.old_bytes, Unit.BYTES.value)} of replaced files"
    return words


def _upserts(history: History) -> str:
    words = (
        f"{history.upserts:,} of {history.batch:,.0f} rows, {history.new_share or 0:.0%} new, into "
        f"{history.files:,.0f} files of {history.partitions:,.0f} partitions, "
        f"{amount(history.bytes_written, Unit.BYTES.value)} written"
    )
    if history.amplification is not None:
        words += f": {digits(history.amplification)} rows for a changed one"
    if history.seconds is not None:
        words += f"; {digits(history.seconds)} s"
    if history.file_seconds is not None:
        words += f"; {digits(history.file_seconds)} s of tasks for its files, summed over them"
    return words


def _index(made: Advice) -> str:
    found, index = made.situation, made.survey.record_index
    words = f"{found.index.name if found.index else 'not known'} ({found.index_known_by})"
    if index is not None:
        groups = len(index.shards)
        words += f"; record index of {groups:,} file groups"
        if not index.partitioned:
            words += f", {made.survey.rows / groups:,.0f} keys each"
        if index.key_bytes is not None:
            words += f", {index.key_bytes:.0f} bytes a key"
    return words


def log_lines(log: LogSplit, check: Sequence[PartCheck]) -> list[str]:
    """The split of an event log, and the plan beside it."""
    whole = log.whole or 1.0
    sentences = [f"where the time of Hudi's stages in {clean(log.path)} went"]
    for phase, seconds in log.seconds.items():
        shuffled = log.shuffle_bytes.get(phase, 0)
        moved = f", {amount(shuffled, Unit.BYTES.value)} shuffled" if shuffled else ""
        took = amount(seconds, Unit.SECONDS.value)
        sentences.append(f"  {seconds / whole:4.0%}  {_LOG_WORDS[phase]}: {took}{moved}")
    if log.untold_seconds:
        took = amount(log.untold_seconds, Unit.SECONDS.value)
        sentences.append(f"  {log.untold_seconds / whole:4.0%}  other stages: {took}")
    sentences += ["the plan beside these stages, of one write"] if check else []
    sentences += [
        f"  {_PART_WORDS[each.part]}: {each.share:.0%} of the stages, planned "
        f"{each.planned_share:.0%}: {plan_text.worded(each.planned, Unit.SECONDS.value)}"
        for each in check
    ]
    return sentences


def _finding(each: Finding) -> list[str]:
    return [
        f"  {each.kind}: {clean(each.what)}",
        f"    why: {clean(each.why)}",
        f"    do: {clean(each.do)}",
    ]
