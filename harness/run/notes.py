"""What a reader must know to judge the numbers of a run fairly."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from keymark.harness.engines import BARE, NATIVE, hudi_name, is_native, is_without_spark
from keymark.harness.engines.hudi_releases import BASE_VERSION
from keymark.harness.engines.sources import upgrade_note
from keymark.harness.run import own_data
from keymark.harness.scenario.scenario import Scenario
from keymark.harness.tables import independent
from keymark.indexes.installed import measured_specs


def notes(scenario: Scenario, skipped: Mapping[str, str]) -> list[str]:
    """The notes of a scenario.

    Args:
        scenario: what was run.
        skipped: engines, and indexes of engines, that were not there, with the reason.
    """
    beside = [name for name in scenario.engines if name not in (NATIVE, BARE, *skipped)]
    found = [
        _turns(beside),
        "Every repetition started from a copy of the cell's loaded table.",
        *_without_spark(beside),
        *(f"Not measured: {name}. {reason}." for name, reason in skipped.items()),
    ]
    if any(map(hudi_name, beside)):
        found.append(
            "Index on disk compares compressors, too: Keymark writes the blocks of its index with "
            "its own gzip encoder for cells, Hudi with Java's zlib."
        )
    if scenario.table.location is not None:
        found.append(f"The tables were at {scenario.table.location}, their rows in the run folder.")
    if not scenario.dataset.load_files:
        found.append("Loads made their rows while they wrote them: their times hold both.")
    own = scenario.dataset.source
    if own is not None:
        added = "" if own.ordering else f"; the column {own_data.ORDERING} was added"
        found.append(
            f"The rows are those of {Path(own.path).name} ({own.resolved_format}), which was only "
            f"read{added}. Updates are samples of them, inserts copies with new keys."
        )
    if scenario.table.source is None:
        return found
    found.append(
        f"The tables started from copies of {Path(scenario.table.source).name}, which was only "
        "read; the truth started from an independent reading of its files."
    )
    asked = [measured_specs()[name] for name in scenario.indexes]
    others = [s.name for s in asked if not (s.owns_layout or s.metadata_partition)]
    facts = independent.facts(Path(scenario.table.source))
    upgrades = (upgrade_note(name, facts) for name in scenario.engines if name not in skipped)
    found += filter(None, upgrades)
    if others and "record_index" in facts.partitions_of_metadata:
        if facts.version > BASE_VERSION:
            found.append("The source has a record index, which Hudi keeps in all copies.")
            return found
        found.append(
            f"The source has a record index, which the copies for {' and '.join(others)} do "
            "not have: each cell has the index under test and no other."
        )
    return found


def _without_spark(engines: Sequence[str]) -> list[str]:
    """Which engines have no Spark session, and so no counters."""
    named = ", ".join(filter(is_without_spark, engines))
    where = "in a process of its own with as many cores as the run's session has"
    return [f"Without Spark, each {where}, and without Spark's counters: {named}."] if named else []


def _turns(beside: Sequence[str]) -> str:
    """In what order and where cells ran, for the engines other than the run's own."""
    apart = [name for name in beside if not is_without_spark(name)]
    turns = "All cells ran interleaved with alternating direction."
    if not beside:
        return "All cells ran in one Spark session, interleaved with alternating direction."
    if not apart:
        return turns
    if all(map(is_native, apart)):
        return (
            f"{turns} Each engine other than native had a process and a Spark session of its own "
            "with the same settings, but for the master where its name says one."
        )
    return (
        f"{turns} Each release of Hudi and of another format had a Spark session of its own with "
        "the settings of native's; docs/fair_play.md says what is equal, what is not, and what "
        "their phases contain."
    )
