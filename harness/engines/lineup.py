"""The engines of a run: which can take part with which indexes, started and stopped together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self

from keymark.harness.engines import (
    BARE,
    REVISION,
    hudi,
    hudi_version,
    is_native,
    jars,
    own_master,
    revision,
)
from keymark.harness.engines.bare import BareEngine
from keymark.harness.engines.base import Engine
from keymark.harness.engines.native import NativeEngine
from keymark.harness.errors import CellError, HarnessError
from keymark.harness.hbase import cells as hbase_cells
from keymark.harness.measure.session import SparkRuntime
from keymark.harness.scenario.scenario import SparkSection
from keymark.harness.store.table_places import Tables
from keymark.table.errors import TableError
from keymark.table.index.protocol import load_index


def missing(engines: Iterable[str], indexes: Iterable[str]) -> dict[str, str]:
    """What cannot take part, each with one line that says why or how to get it.

    Returns:
        Reasons by engine, and by `<engine>/<index>` for a single index of an engine.

    Raises:
        HarnessError: none is left.
    """
    names, wanted = tuple(engines), tuple(indexes)
    found, left = {}, 0
    for name in names:
        version = hudi_version(name)
        reason = version and jars.missing_bundle(version)
        if reason:
            found[name] = reason
            continue
        unusable = {} if version else _unusable(wanted)
        no_hbase = hbase_cells.missing() if hbase_cells.INDEX in wanted else None
        if no_hbase:
            unusable[hbase_cells.INDEX] = no_hbase
        found |= {f"{name}/{index}": why for index, why in unusable.items()}
        left += len(wanted) - len(unusable)
    if not left:
        raise HarnessError("; ".join(found.values()))
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


class EnginePool:
    """The engines of a run, by name; leaving the block ends their processes.

    Attributes:
        engines: those that run.
        broken: reasons of those that did not start.
        told: Spark options and versions of each process other than the run's own.
    """

    def __init__(self, runtime: SparkRuntime, tables: Tables) -> None:
        self._runtime, self._tables = runtime, tables
        self._open = ExitStack()
        self.engines: dict[str, Engine] = {}
        self.broken: dict[str, str] = {}
        self.told: dict[str, Mapping[str, Any]] = {}

    @property
    def seeded(self) -> list[str]:
        """The engines that name files from a seed, so that sizes of indexes repeat."""
        return [
            name
            for name in self.engines
            if is_native(name) and self.told.get(name, {}).get("seeded_ids", True)
        ]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def start(self, name: str, section: SparkSection, *, events: Path, work: Path) -> None:
        """Start one engine; one that does not come up is noted as broken."""
        if name == BARE:
            self.engines[name] = BareEngine(self._runtime, self._tables)
            return
        if name.startswith(REVISION):
            self._start_revision(name, section, events=events, work=work)
            return
        version = hudi_version(name)
        if version is None:
            self.engines[name] = NativeEngine(self._runtime, self._tables)
            return
        child = hudi.process(version, work)
        self._open.callback(child.close)
        try:
            self.told[name] = hudi.start(child, version, section=section, events=events, work=work)
        except CellError as error:
            self.broken[name] = f"it did not start: {error}"
            return
        self.engines[name] = hudi.HudiEngine(version, child, parallelism=hudi.parallelism(section))

    def _start_revision(
        self, name: str, section: SparkSection, *, events: Path, work: Path
    ) -> None:
        master = own_master(name)
        if master is not None:
            section = section.model_copy(update={"master": master})
        child = revision.process(name, work)
        self._open.callback(child.close)
        try:
            self.told[name] = revision.start(child, section=section, events=events)
        except CellError as error:
            self.broken[name] = f"it did not start: {error}"
            return
        self.engines[name] = revision.RevisionEngine(child, self._tables)
