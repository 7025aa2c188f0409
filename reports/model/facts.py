"""What a run.json tells: the scenario, the machine, the notes, how to do it again.

A run.json may come from anyone and from another version: what is not there is not said. Values of
options that look like secrets are never shown.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from keymark.harness.engines import (
    NATIVE,
    WITHOUT_SPARK,
    format_name,
    hudi_name,
    library_name,
)
from keymark.harness.redaction import is_sensitive, redact_text
from keymark.harness.store.run_record import MachineRecord, RunRecord, ScenarioRecord
from keymark.reports.model.projection import Run
from keymark.reports.render.charts import Lettering
from keymark.reports.render.text import NOTHING, clean, listed, without_folders

Fact = tuple[str, str]
"""(dotted name, value), both safe to show."""

LONGEST_LIST = 400
"""Facts of one section that a page shows."""

_APART = {"schema_version", "run_id", "scenario", "notes", "failed", "ended", "command"}
_WORK = ("dataset.", "workload.", "table.", "spark.", "job.")
_SIDES = "sides"
"""What differs between the sides of a job, by engine."""


def compared(run: Run) -> str:
    """Say in one sentence which indexes were compared, on what data, doing what, how often."""
    plan = run.record.scenario
    data, sizes = plan.dataset, sizes_of(run.record)
    indexes = listed(list(dict.fromkeys(clean(cell.index, 40) for cell in run.cells)))
    engines = listed(list(dict.fromkeys(clean(cell.engine, 40) for cell in run.cells)))
    parts = [f"{indexes or 'Nothing'} (engine {engines})" if engines else "Nothing"]
    source, own = plan.table.source, data.source.path if data.source else ""
    if source or own:
        rows = f" of {_count(sizes.rows)} rows" if run.record.measured else ""
        held = f"a copy of the table {_path(source)}" if source else f"the data in {_path(own)}"
        parts.append(f"on {held}{rows}")
    elif data.rows:
        several = [_count(each) for each in data.sizes]
        on = f"tables of {listed(several)}" if several else f"a table of {_count(data.rows)}"
        differs = any("date_partitions" in each for each in data.shapes.values())
        has_number = data.partitions and not differs
        days = f" in {_count(data.partitions)} partitions" if has_number else ""
        names = listed([clean(name, 40) for name in data.shapes])
        shapes = f" of the shapes {names}" if names else ""
        bare = " (keys alone, without base files)" if plan.table.mappings else ""
        parts.append(f"on {on} {clean(data.name, 40)} rows{days}{shapes}{bare}")
    doing = _doing(plan, sizes)
    if doing:
        parts.append(f"through {listed(doing)}")
    taken = run.record.repetitions or plan.schedule.repetitions
    if taken:
        parts.append(
            f"measured {taken:,} {'time' if taken == 1 else 'times'}, interleaved, "
            f"after {_count(plan.schedule.warmups or 0) or 'no'} warm-up"
        )
    return f"{', '.join(parts)}."


def lettering(runs: Sequence[Run]) -> Lettering:
    """What stands around a chart of some runs: data, engines, machine, repetitions, source."""
    subtitles = dict.fromkeys(_measured_on(run) for run in runs)
    sources = [
        ", ".join([clean(run.run_id, 80), *filter(None, [clean(run.record.started[:10])])])
        for run in runs
    ]
    revision = clean(runs[0].record.versions.get("revision", "")[:12])
    made_by = f"Keymark, revision {revision}" if revision else "Keymark"
    return Lettering(
        subtitle="; ".join(subtitles), source=f"Source: {made_by}, run {listed(sources)}"
    )


def _measured_on(run: Run) -> str:
    record, sizes = run.record, sizes_of(run.record)
    data = record.scenario.dataset
    tables = f"{min(data.sizes):,} to {max(data.sizes):,}" if data.sizes else _count(sizes.rows)
    batches = f"{min(data.batches):,} to {max(data.batches):,}" if data.batches else ""
    batches = batches or _count(sizes.batch_rows if record.scenario.workload.rounds else 0)
    times = record.repetitions or record.scenario.schedule.repetitions
    parts = [
        f"{tables} rows" if tables else "",
        f"batches of {batches}" if batches else "",
        listed([_engine_words(name) for name in dict.fromkeys(cell.engine for cell in run.cells)]),
        machine_words(record.machine),
        f"{times:,} repetition{'s' if times > 1 else ''}" if times else "",
    ]
    return ", ".join(filter(None, parts))


def machine_words(machine: MachineRecord) -> str:
    """Cores, processor and memory; empty where the system names none."""
    memory = f"{machine.memory_bytes / (1 << 30):.0f} GiB" if machine.memory_bytes else ""
    cores = f"{machine.cores:,} cores" if machine.cores else ""
    processor = " of ".join(filter(None, [cores, clean(machine.processor, 60)]))
    return ", ".join(filter(None, [processor, memory]))


def _engine_words(engine: str) -> str:
    hudi = hudi_name(engine)
    if hudi:
        return f"Apache Hudi {hudi.version} (tables of version {hudi.table_version})"
    other = format_name(engine)
    if other:
        return f"{other.release.title} {other.version}"
    library = library_name(engine)
    if library:
        return f"the library {library.library} {library.version} (without Spark)"
    own = {NATIVE: "Keymark's own engine", WITHOUT_SPARK: "Keymark's own engine without Spark"}
    return own.get(engine, f"engine {clean(engine, 40)}")


def environment(run: Run) -> list[Fact]:
    """Machine, versions and Spark options."""
    document = run.record.document
    return _flat({key: value for key, value in document.items() if key not in _APART})


def scenario(run: Run) -> list[Fact]:
    """The resolved scenario."""
    return _flat(run.record.scenario.document)


def work(record: RunRecord, engine: str | None = None) -> dict[str, str]:
    """What was done to which rows, on which Spark, as (dotted key of the scenario -> text).

    Args:
        record: what `run.json` says about a run.
        engine: the side of a job whose values count; None for the only one.
    """
    plan = record.scenario.document
    sides = plan.get(_SIDES)
    if isinstance(sides, Mapping):
        side = sides.get(engine or next(iter(sides), "")) if engine or len(sides) == 1 else None
        own = dict(side) if isinstance(side, Mapping) else {}
        job = plan.get("job")
        plan = {**plan, "job": {**(job if isinstance(job, Mapping) else {}), **own}}
    return {key: value for key, value in _flat(plan) if key.startswith(_WORK)}


def is_unchecked(run: Run) -> bool:
    """Whether nothing says that the answers are right: a job has no command that verifies."""
    job = run.record.scenario.document.get("job")
    return isinstance(job, Mapping) and not job.get("verify")


def side_title(run: Run, engine: str | None = None) -> str:
    """What a side of a job is, in words; empty for runs that are of no job."""
    processes = run.record.processes
    name = engine or (next(iter(processes)) if len(processes) == 1 else "")
    title = processes.get(name, {}).get("title")
    return _path(title) if isinstance(title, str) else ""


def versions(run: Run) -> dict[str, str]:
    """The versions that a number may depend on, and the revision of the code, safe to show."""
    return {clean(name, 60): _path(each) for name, each in run.record.versions.items()}


def notes(run: Run) -> list[str]:
    """What the harness wants readers to know."""
    found = [_path(note) for note in run.record.notes][:LONGEST_LIST]
    if run.record.is_running:
        found.insert(0, "the run did not come to its end; `--resume` continues it")
    return found


def missing_cells(run: Run) -> list[str]:
    """Ids of planned cells that left no sample at all; not safe to show.

    What the run skipped, because it was not on the machine, was not planned there; a note says so.
    A run.json that lists no cells comes from a harness with one for each engine and index.
    """
    if run.record.cells is not None:
        planned = [each.cell for each in run.record.cells]
        seen = {cell.cell for cell in run.cells}
    else:
        plan = run.record.scenario
        planned = [f"{engine}/{index}" for engine in plan.engines for index in plan.indexes]
        seen = {f"{cell.engine}/{cell.index}" for cell in run.cells}
    skipped = tuple(f"{name}/" for name in run.record.skipped)
    return [name for name in planned if name not in seen and not f"{name}/".startswith(skipped)]


def command(run: Run) -> str:
    """One command that measures the same again, from the project's root, into a new run folder."""
    name = run.record.scenario.name or "quickstart"
    given = run.record.command or [".venv/bin/python", "run_bench.py", "run", name]
    kept: list[str] = []
    words = iter(given)
    for word in words:
        if word == "--out":
            next(words, None)
        elif word not in ("--resume", "--json") and not word.startswith("--out="):
            kept.append(without_folders(redact_text(word)))
    return clean(shlex.join(kept), 2000)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """How much was done: as measured, or as planned of a run cut off before it knew."""

    rows: int
    batch_rows: int
    update_share: float | None
    deletes: int
    lookup_keys: int


def sizes_of(record: RunRecord) -> Sizes:
    """How much was done."""
    plan, known = record.scenario, record.measured
    if known is None:
        return Sizes(
            rows=plan.dataset.rows,
            batch_rows=plan.dataset.batch_rows,
            update_share=plan.dataset.update_share,
            deletes=plan.dataset.delete_rows,
            lookup_keys=plan.workload.lookup_keys,
        )
    batch = known.batch_updates + known.batch_inserts
    return Sizes(
        rows=known.rows,
        batch_rows=batch,
        update_share=known.batch_updates / batch if batch else None,
        deletes=known.deletes,
        lookup_keys=known.lookup_keys,
    )


def _doing(plan: ScenarioRecord, sizes: Sizes) -> list[str]:
    work = plan.workload
    doing = ["building the record index anew"] if work.build_index else []
    if work.rounds:
        updates = (
            f", {sizes.update_share:.0%} of them updates" if sizes.update_share is not None else ""
        )
        batches = [_count(each) for each in plan.dataset.batches]
        rows = f"{', '.join(batches[:-1])} or {batches[-1]}" if batches else ""
        upserts = "upsert" if work.rounds == 1 else "upserts"
        doing.append(
            f"{work.rounds:,} {upserts} of {rows or _count(sizes.batch_rows)} rows{updates}"
        )
    if work.null_columns:
        columns = listed([clean(name, 40) for name in work.null_columns])
        doing.append(f"nulling {columns} of {_count(sizes.deletes)} keys")
    if work.delete:
        doing.append(f"a delete of {_count(sizes.deletes)} keys")
    if work.purge:
        doing.append("a purge of these")
    # Without a lookup a run still knows keys, for its point queries.
    if sizes.lookup_keys and work.lookup_keys:
        again = ", twice" if work.lookup_again else ""
        second = f" and one of {work.lookup_few:,}" if work.lookup_few else ""
        doing.append(f"a lookup of {_count(sizes.lookup_keys)} keys{again}{second}")
    queries = {
        "a point query": work.point_query,
        f"a query of the rows with one value of {clean(work.column_query, 40)}": work.column_query,
        f"a query of the rows in a range of {clean(work.range_query, 40)}": work.range_query,
    }
    doing += [query for query, is_wanted in queries.items() if is_wanted]
    if work.cold:
        doing.append("queries of files that are out of the system's cache")
    if work.spread_batch:
        doing.append("an upsert of as many rows all over the table, once")
    if work.model_keys:
        least, most = min(work.model_keys), max(work.model_keys)
        doing.append(f"lookups of {least:,} to {most:,} keys, cold and warm")
    return doing


def _count(value: int) -> str:
    return f"{value:,}" if value else ""


def _path(text: str) -> str:
    """A foreign text, safe to show, without folders of the machine it comes from."""
    return clean(without_folders(text))


def _flat(section: Mapping[str, Any]) -> list[Fact]:
    facts = []
    for key, value in _leaves(section):
        shown = "(left out)" if is_sensitive(key) else clean(_plain(value))
        facts.append((clean(key, 120), shown))
    return facts[:LONGEST_LIST]


def _leaves(section: Mapping[str, Any], prefix: str = "") -> Iterable[tuple[str, Any]]:
    for key, value in section.items():
        name = f"{prefix}.{key}" if prefix else str(key)
        if isinstance(value, Mapping):
            yield from _leaves(value, name)
        else:
            yield name, value


def _plain(value: object) -> str:
    if isinstance(value, list):
        return ", ".join(_plain(item) for item in value)
    if isinstance(value, bool) or value is None:
        return {True: "yes", False: "no", None: NOTHING}[value]
    return f"{value:,}" if isinstance(value, int) else without_folders(str(value))
