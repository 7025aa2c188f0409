"""What a run needs besides its results: a folder beside them, and tables on a store."""

from __future__ import annotations

import shutil
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from keymark.harness.engines.base import Engine
from keymark.harness.run.context import Inputs, RunContext
from keymark.harness.scenario.scenario import Scenario
from keymark.harness.store.data_point import DataPoint
from keymark.harness.store.store import RunFolder
from keymark.harness.tables.table_folders import LocalTables, RemoteTables, Tables
from keymark.table.errors import StorageError


def work_folder(folder: RunFolder) -> Path:
    """The folder of what goes at the end. Absolute: Hudi refuses a table at a relative path."""
    return folder.path.absolute() / "work"


@dataclass(frozen=True, slots=True)
class Workspace:
    """What a run works with; leaving the block removes all of it.

    Attributes:
        path: the folder.
        tables: where the tables are: in the folder, or at a URL in a folder of their own.
        notes: of tables that the store did not let go; known when the block has ended.
    """

    path: Path
    tables: Tables
    notes: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, folder: RunFolder, scenario: Scenario, run_id: str) -> Self:
        """The workspace of a run."""
        path, location = work_folder(folder), scenario.table.location
        if location is None:
            return cls(path, LocalTables())
        url = f"{location.rstrip('/')}/{run_id}"
        return cls(
            path, RemoteTables(url=url, work=path / "tables", options=scenario.table.options)
        )

    def contexts(
        self, inputs: Mapping[DataPoint, Inputs], engines: Mapping[str, Engine], scenario: Scenario
    ) -> dict[DataPoint, RunContext]:
        """What cells are measured with, for each point of the data."""
        source = Path(scenario.table.source) if scenario.table.source else None
        return {
            point: RunContext(
                inputs=each,
                engines=engines,
                work=self.path / "tables",
                source=source,
                clock=time.perf_counter,
                tables=self.tables,
            )
            for point, each in inputs.items()
        }

    def __enter__(self) -> Self:
        """Take away what a killed run left; a store that cannot be reached is told now."""
        self.tables.clear()
        return self

    def __exit__(self, *_: object) -> None:
        shutil.rmtree(self.path, ignore_errors=True)
        try:
            self.tables.clear()
        except StorageError as error:
            self.notes.append(f"Tables of this run are left on their store: {error}.")
