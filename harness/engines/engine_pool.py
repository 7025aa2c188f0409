"""The engines of a run: which can take part with which indexes, started and stopped together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from pyspark.sql import SparkSession

from keymark.datasets.profiles.folders import session_conf
from keymark.harness.engines import (
    BARE,
    REVISION,
    WITHOUT_SPARK,
    HudiName,
    engine_indexes,
    format_name,
    hudi,
    hudi_name,
    hudi_version,
    is_native,
    jars,
    library_name,
    own_master,
    revision,
    s3a,
)
from keymark.harness.engines.bare import BareEngine
from keymark.harness.engines.base import Engine
from keymark.harness.engines.format_engine import FormatEngine
from keymark.harness.engines.format_jars import missing_jars
from keymark.harness.engines.format_process import FormatProcess
from keymark.harness.engines.hudi_process import HudiProcess
from keymark.harness.engines.libraries.engine import LibraryEngine
from keymark.harness.engines.libraries.environments import missing_library
from keymark.harness.engines.libraries.process import process_for
from keymark.harness.engines.native import NativeEngine
from keymark.harness.engines.process_engine import parallelism
from keymark.harness.engines.row_order import order_mistake
from keymark.harness.engines.sources import source_mistake
from keymark.harness.engines.spark_process import SparkProcess
from keymark.harness.engines.watched_process import WatchedProcess, bounds
from keymark.harness.engines.without_spark import WithoutSparkEngine, WithoutSparkProcess
from keymark.harness.errors import CellError, HarnessError
from keymark.harness.measure import environment
from keymark.harness.measure.session import SparkRuntime
from keymark.harness.run import outside_entries
from keymark.harness.scenario.matrix import Cell
from keymark.harness.scenario.scenario import Scenario
from keymark.harness.tables.independent import SourceFacts
from keymark.harness.tables.table_folders import RemoteTables, Tables
from keymark.indexes.installed import measured_specs
from keymark.table.errors import TableError
from keymark.table.index.protocol import load_index


@dataclass(frozen=True, slots=True, kw_only=True)
class Demands:
    """What a run asks that not all releases of Hudi can do.

    Attributes:
        absent_keys: keys of each lookup that are not in the table.
        refused: Hudi is asked for indexes, too, that its release does not have.
    """

    absent_keys: int = 0
    refused: bool = False


_NO_DEMANDS = Demands()


def missing(
    engines: Iterable[str],
    indexes: Iterable[str],
    *,
    only: Mapping[str, Sequence[str]] | None = None,
    demands: Demands = _NO_DEMANDS,
    source: SourceFacts | None = None,
) -> dict[str, str]:
    """What cannot take part, each with one line that says why or how to get it.

    Args:
        engines: of the scenario.
        indexes: of the scenario.
        only: by the name of an engine the only ones of these that it is asked for.
        demands: what is asked of these indexes.
        source: the table that the run starts from.

    Returns:
        Reasons by engine, and by `<engine>/<index>` for a single index of an engine.

    Raises:
        HarnessError: none is left.
    """
    names, every = tuple(engines), tuple(indexes)
    found, left = {}, 0
    for name in names:
        wanted = [index for index in every if index in (only or {}).get(name, every)]
        if not wanted:
            found[name] = "engine_indexes asks for none of these indexes with it"
            continue
        version, other = hudi_version(name), format_name(name) or library_name(name)
        reason = jars.missing_bundle(version) if version else missing_jars(name)
        reason = reason or missing_library(name)
        reason = reason or (source_mistake(name, source) if source else None)
        if reason:
            found[name] = reason
            continue
        is_apart = version is not None or other is not None
        unusable = _unlike_its_own(name, wanted, demands) if is_apart else _unusable(wanted)
        others = [index for index in wanted if index not in unusable]
        unusable |= {
            index: why for index in others if (why := outside_entries.missing(index)) is not None
        }
        if len(unusable) == len(wanted):
            found[name] = "; ".join(unusable.values())
            continue
        found |= {f"{name}/{index}": why for index, why in unusable.items()}
        left += len(wanted) - len(unusable)
    if not left:
        raise HarnessError("; ".join(found.values()))
    return found


def _unlike_its_own(engine: str, indexes: Iterable[str], demands: Demands) -> dict[str, str]:
    """The indexes that a release does not have, or cannot be asked as a run asks."""
    found, held = {}, engine_indexes(engine)
    for name in indexes:
        is_asked = demands.refused and hudi_name(engine) and measured_specs()[name].in_hudi
        if name not in held and not is_asked:
            found[name] = f"{engine} has no index {name} (it has {', '.join(held)})"
        elif demands.absent_keys and measured_specs()[name].owns_layout:
            found[name] = (
                f"Hudi's {name} index says where a key would be and knows no absent one; "
                "`--set workload.lookup_absent=0` measures it"
            )
    return found


def _unusable(indexes: Iterable[str]) -> dict[str, str]:
    """The indexes that `native` cannot use here and now."""
    found = {}
    for name in indexes:
        try:
            load_index(name)
        except TableError as error:
            found[name] = str(error)
    return found


def unordered(cells: Iterable[Cell], skipped: Mapping[str, str]) -> dict[str, str]:
    """The cells whose engine cannot keep the order that they ask for, with the reason.

    Args:
        cells: of a run.
        skipped: engines and indexes that are left out for other reasons.

    Returns:
        Reasons by `<engine>/<index>/<variant>`, which stands for the cell on all data.

    Raises:
        HarnessError: no cell is left.
    """
    found, left = {}, 0
    for cell in cells:
        if cell.is_among(skipped):
            continue
        reason = order_mistake(cell.engine, cell.options)
        if reason is None:
            left += 1
        else:
            found["/".join(filter(None, (cell.engine, cell.index, cell.variant)))] = reason
    if found and not left:
        raise HarnessError("; ".join(dict.fromkeys(found.values())))
    return found


class EnginePool:
    """The engines of a run, by name; leaving the block ends their processes, and Spark.

    Args:
        scenario: of the run.
        events: folder of Spark's event logs; they are complete when the block has ended.
        work: folder of what the run needs besides its results.
        tables: where its tables are.

    Attributes:
        engines: those that run.
        broken: reasons of those that did not start.
        start_info: Spark options and versions of each process other than the run's own.
    """

    def __init__(self, scenario: Scenario, events: Path, work: Path, *, tables: Tables) -> None:
        self._scenario, self._events = scenario, events
        self._work, self._tables = work, tables
        self._open = ExitStack()
        self.engines: dict[str, Engine] = {}
        self.broken: dict[str, str] = {}
        self.start_info: dict[str, Mapping[str, Any]] = {}

    def __enter__(self) -> Self:
        """Start the run's own Spark."""
        spark, own = self._scenario.spark, self._scenario.dataset.source
        reading = session_conf(own.resolved_format, spark.conf) if own else {}
        self._runtime = SparkRuntime(spark, self._events, reading)
        self._open.callback(self._runtime.close)
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    @property
    def spark(self) -> SparkSession:
        """The run's own session."""
        return self._runtime.spark

    def start(self, name: str) -> None:
        """Start one engine; one that does not come up is noted as broken."""
        release = hudi_name(name)
        if name == BARE:
            self.engines[name] = BareEngine(self._runtime, self._tables)
        elif name == WITHOUT_SPARK:
            apart = WithoutSparkProcess(name, work=self._work, **bounds(self._scenario))
            if self._starts(name, apart):
                self.engines[name] = WithoutSparkEngine(apart, self._tables)
        elif name.startswith(REVISION):
            self._start_revision(name)
        elif format_name(name) is not None:
            process = FormatProcess(name, **self._surroundings())
            if self._starts(name, process):
                self.engines[name] = FormatEngine(name, process, self._tables)
        elif (library := library_name(name)) is not None:
            own = process_for(library, self._scenario, self._work)
            if self._starts(name, own):
                engine = LibraryEngine(library, own, self._tables, work=self._work)
                self.engines[name] = engine
        elif release is None:
            self.engines[name] = NativeEngine(self._runtime, self._tables)
        else:
            self._start_hudi(name, release)

    def _start_hudi(self, name: str, release: HudiName) -> None:
        process = HudiProcess(name, **self._surroundings())
        if self._starts(name, process):
            tasks = parallelism(self._scenario.spark)
            engine = hudi.HudiEngine(release, process, self._tables, parallelism=tasks)
            self.engines[name] = engine

    def _surroundings(self) -> dict[str, Any]:
        """What each process with jars of its own is started with."""
        is_remote = isinstance(self._tables, RemoteTables)
        return {
            "section": self._scenario.spark,
            "events": self._events,
            "work": self._work,
            "connection": s3a.settings(self._scenario.table.options) if is_remote else None,
        }

    def _starts(self, name: str, process: SparkProcess | WatchedProcess) -> bool:
        """Start a process, which ends with the pool; one that does not come up is broken.

        Its patience is at least the time limit of a load: loading and verifying may take that long.
        """
        trial_s = 60.0 * self._scenario.schedule.trial_minutes
        process.longest_s = max(process.longest_s, trial_s)
        try:
            self.start_info[name] = process.start()
        except CellError as error:
            self.broken[name] = f"it did not start: {error}"
            return False
        finally:
            self._open.callback(process.close)
        return True

    def _start_revision(self, name: str) -> None:
        section, master = self._scenario.spark, own_master(name)
        if master is not None:
            section = section.model_copy(update={"master": master})
        child = revision.process(name, self._work)
        self._open.callback(child.close)
        try:
            self.start_info[name] = revision.start(child, section=section, events=self._events)
        except CellError as error:
            self.broken[name] = f"it did not start: {error}"
            return
        self.engines[name] = revision.RevisionEngine(child, self._tables)

    def described(self) -> dict[str, Any]:
        """What run.json says about engines and session: fields of `RunRecord`."""
        options, is_remote = self._scenario.table.options, isinstance(self._tables, RemoteTables)
        return {
            "versions": environment.versions(self.spark),
            "synced": {
                name: environment.synced(name, options, remote=is_remote)
                for name in self._scenario.engines
            },
            "spark_conf": self._runtime.conf(),
            "processes": self.start_info,
            # Those that name files from a seed, so that sizes of indexes repeat.
            "seeded_ids": [
                name
                for name in self.engines
                if is_native(name) and self.start_info.get(name, {}).get("seeded_ids", True)
            ],
        }

    def able(self, cells: Iterable[Cell], skipped: Mapping[str, str]) -> tuple[Cell, ...]:
        """The cells whose engine runs and can have them."""
        return tuple(
            cell for cell in cells if cell.engine in self.engines and not cell.is_among(skipped)
        )

    def broken_cells(self, cells: Iterable[Cell]) -> dict[str, str]:
        """The cells whose engine did not start, with the reason."""
        return {
            cell.cell_id: self.broken[cell.engine] for cell in cells if cell.engine in self.broken
        }
