"""What a run.json tells: the scenario, the machine, the notes, how to do it again.

A run.json may come from anyone and from another version, so nothing is taken for granted: what is
not there is not said. Values of options that look like secrets are never shown.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping
from typing import Any

from harness.redaction import is_sensitive, redact_text
from reports.projection import Run
from reports.text import NOTHING, clean, listed

Fact = tuple[str, str]
"""(dotted name, value), both safe to show."""

LONGEST_LIST = 400
"""Facts of one section that a page shows."""

_APART = {"schema_version", "run_id", "scenario", "notes", "failed", "command"}
_WORK = ("dataset.", "workload.", "table.")
_MEASURED = ("rows", "batch_updates", "batch_inserts", "deletes", "lookup_keys")


def compared(run: Run) -> str:
    """Say in one sentence which indexes were compared, on what data, doing what, how often."""
    plan = _section(run, "scenario")
    data, work = _mapping(plan.get("dataset")), _mapping(plan.get("workload"))
    indexes = listed(list(dict.fromkeys(clean(cell.index, 40) for cell in run.cells)))
    engines = listed(list(dict.fromkeys(clean(cell.engine, 40) for cell in run.cells)))
    parts = [f"{indexes or 'Nothing'} (engine {engines})" if engines else "Nothing"]
    table = _mapping(plan.get("table"))
    source, own = table.get("source"), _mapping(data.get("source")).get("path")
    sizes = _sizes(run, data, work)
    if source or own:
        rows = f" of {_count(sizes, 'rows')} rows" if _section(run, "measured") else ""
        held = f"a copy of the table {clean(source)}" if source else f"the data in {clean(own)}"
        parts.append(f"on {held}{rows}")
    elif _count(data, "rows"):
        several = _counts(data, "sizes")
        on = f"tables of {listed(several)}" if several else f"a table of {_count(data, 'rows')}"
        keys = " (keys alone, without base files)" if table.get("mappings") else ""
        parts.append(
            f"on {on} {clean(data.get('name', ''), 40)} rows"
            + (f" in {_count(data, 'partitions')} partitions" if data.get("partitions") else "")
            + _shapes(data)
            + keys
        )
    doing = _doing(sizes, work, _counts(data, "batches"))
    if doing:
        parts.append(f"through {listed(doing)}")
    schedule = _mapping(plan.get("schedule"))
    taken = _count(run.info, "repetitions") or _count(schedule, "repetitions")
    if taken:
        parts.append(
            f"measured {taken} {'time' if taken == '1' else 'times'}, interleaved, "
            f"after {_count(schedule, 'warmups') or 'no'} warm-up"
        )
    return f"{', '.join(parts)}."


def environment(run: Run) -> list[Fact]:
    """Machine, versions and Spark options."""
    return _flat({key: value for key, value in run.info.items() if key not in _APART})


def scenario(run: Run) -> list[Fact]:
    """The resolved scenario."""
    return _flat(_section(run, "scenario"))


def work(run: Run) -> dict[str, str]:
    """What was done to which rows, as (dotted key of the scenario -> text)."""
    return {key: value for key, value in scenario(run) if key.startswith(_WORK)}


def seeded(document: Mapping[str, Any]) -> frozenset[str]:
    """Engines whose files had names from a seed; of a run.json or a summary.json."""
    return frozenset(_names(document.get("seeded_ids")))


def notes(run: Run) -> list[str]:
    """What the harness wants readers to know."""
    found = run.info.get("notes")
    said = [clean(note) for note in found][:LONGEST_LIST] if isinstance(found, list) else []
    if run.info.get("status") == "running":
        said.insert(0, "the run did not come to its end; `--resume` goes on with it")
    return said


def missing_cells(run: Run) -> list[str]:
    """Ids of planned cells that left no sample at all; not safe to show.

    What the run skipped, because it was not on the machine, was not planned there; a note says so.
    A run.json that lists no cells comes from a harness with one for each engine and index.
    """
    named = run.info.get("cells")
    if isinstance(named, list):
        found = (_mapping(each).get("cell") for each in named)
        planned = [name for name in found if isinstance(name, str)]
        seen = {cell.cell for cell in run.cells}
    else:
        plan = _section(run, "scenario")
        engines, indexes = _names(plan.get("engines")), _names(plan.get("indexes"))
        planned = [f"{engine}/{index}" for engine in engines for index in indexes]
        seen = {f"{cell.engine}/{cell.index}" for cell in run.cells}
    skipped = tuple(f"{name}/" for name in _mapping(run.info.get("skipped")))
    return [name for name in planned if name not in seen and not f"{name}/".startswith(skipped)]


def command(run: Run) -> str:
    """One command that measures the same again, from the project's root, into a new run folder."""
    given = run.info.get("command")
    if not (isinstance(given, list) and given and all(isinstance(word, str) for word in given)):
        plan = _section(run, "scenario")
        given = [".venv/bin/python", "run_bench.py", "run", str(plan.get("name", "quickstart"))]
    kept: list[str] = []
    words = iter(given)
    for word in words:
        if word == "--out":
            next(words, None)
        elif word not in ("--resume", "--json") and not word.startswith("--out="):
            kept.append(redact_text(word))
    return clean(shlex.join(kept), 2000)


def _sizes(
    run: Run, data: Mapping[str, Any], work: Mapping[str, Any]
) -> Mapping[str, int | float | None]:
    """The sizes that were measured; those that were planned, of a run cut off before it knew."""
    known = _section(run, "measured")
    if all(isinstance(known.get(key), int) for key in _MEASURED):
        batch = known["batch_updates"] + known["batch_inserts"]
        return {
            **{key: known[key] for key in ("rows", "deletes", "lookup_keys")},
            "batch_rows": batch,
            "update_share": known["batch_updates"] / batch if batch else None,
        }
    kinds = ("lookup_present", "lookup_absent")
    return {
        "rows": data.get("rows"),
        "deletes": data.get("delete_rows"),
        "lookup_keys": sum(work[kind] for kind in kinds if isinstance(work.get(kind), int)),
        "batch_rows": data.get("batch_rows"),
        "update_share": data.get("update_share"),
    }


def _shapes(data: Mapping[str, Any]) -> str:
    names = [clean(name, 40) for name in _mapping(data.get("shapes"))]
    return f" with keys of the shapes {listed(names)}" if names else ""


def _doing(
    sizes: Mapping[str, int | float | None], work: Mapping[str, Any], batches: list[str]
) -> list[str]:
    doing = ["building the record index anew"] if work.get("build_index") else []
    if _count(work, "rounds"):
        share = sizes["update_share"]
        updates = f", {share:.0%} of them updates" if isinstance(share, float) else ""
        rows = f"{', '.join(batches[:-1])} or {batches[-1]}" if batches else ""
        rows = rows or _count(sizes, "batch_rows")
        rounds = _count(work, "rounds")
        upserts = "upsert" if rounds == "1" else "upserts"
        doing.append(f"{rounds} {upserts} of {rows} rows{updates}")
    nulled = _names(work.get("null_columns"))
    if nulled:
        columns = listed([clean(name, 40) for name in nulled])
        doing.append(f"nulling {columns} of {_count(sizes, 'deletes')} keys")
    if work.get("delete"):
        doing.append(f"a delete of {_count(sizes, 'deletes')} keys")
    if work.get("purge"):
        doing.append("a purge of these")
    # Without a lookup a run still knows keys, for its point queries.
    if _count(sizes, "lookup_keys") and (work.get("lookup_present") or work.get("lookup_absent")):
        again = ", twice" if work.get("lookup_again") else ""
        doing.append(f"a lookup of {_count(sizes, 'lookup_keys')} keys{again}")
    if work.get("point_query"):
        doing.append("a point query")
    numbers = work.get("model_keys")
    if isinstance(numbers, list) and numbers and all(isinstance(each, int) for each in numbers):
        doing.append(f"lookups of {min(numbers):,} to {max(numbers):,} keys, cold and warm")
    return doing


def _count(section: Mapping[str, Any], key: str) -> str:
    value = section.get(key)
    return f"{value:,}" if isinstance(value, int) and value else ""


def _counts(section: Mapping[str, Any], key: str) -> list[str]:
    value = section.get(key)
    return (
        [f"{each:,}" for each in value if isinstance(each, int)] if isinstance(value, list) else []
    )


def _section(run: Run, key: str) -> Mapping[str, Any]:
    return _mapping(run.info.get(key))


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _names(value: object) -> list[str]:
    return [name for name in value if isinstance(name, str)] if isinstance(value, list) else []


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
    return f"{value:,}" if isinstance(value, int) else str(value)
