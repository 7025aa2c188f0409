"""What a run needs besides its results: a folder beside them, and tables on a store.

It goes at the end of the run. What a run that was killed or interrupted had loaded stays in the run
folder, so that it can go on from there.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from keymark.harness.engines.base import Engine
from keymark.harness.run.context import SNAPSHOT, Inputs, RunContext
from keymark.harness.scenario.scenario import Scenario
from keymark.harness.store.data_point import DataPoint
from keymark.harness.store.store import RunFolder
from keymark.harness.tables.table_folders import LocalTables, RemoteTables, Tables
from keymark.table.errors import StorageError

_SIGNS = (
    ".hoodie/hoodie.properties",
    f"_delta_log/{0:020d}.json",
    "metadata/version-hint.text",
    "metadata/00000-*.metadata.json",
)
"""Files that a table has, in a folder of it: of Hudi, Delta, and Iceberg by kind of catalog."""


def work_folder(folder: RunFolder) -> Path:
    """The folder of what goes at the end. Absolute: Hudi refuses a table at a relative path."""
    return folder.path.absolute() / "work"


@dataclass(frozen=True, slots=True)
class Workspace:
    """What a run works with; leaving the block removes all of it, unless Ctrl-C ends it.

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
            path,
            RemoteTables(
                url=url,
                work=path / "tables",
                connection=scenario.table.options,
                request_log=path / "requests",
            ),
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
                trial_limit_s=60.0 * scenario.schedule.trial_minutes or None,
            )
            for point, each in inputs.items()
        }

    def __enter__(self) -> Self:
        """Take away what a killed run left, but for its loaded tables, if they are here.

        A store that cannot be reached is an error now.
        """
        self._leave_loaded()
        self.tables.clear()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None and issubclass(kind, KeyboardInterrupt):
            self._leave_loaded()
        else:
            shutil.rmtree(self.path, ignore_errors=True)
        try:
            self.tables.clear()
        except StorageError as error:
            self.notes.append(f"Tables of this run are left on their store: {error}.")

    def _leave_loaded(self) -> None:
        """Remove all but the tables that repetitions start from: a resumed run needs not load them.

        Of tables on a store nothing stays.
        """
        kept = self.path / "tables"
        for other in self.path.iterdir() if self.path.is_dir() else ():
            if other != kept or not isinstance(self.tables, LocalTables):
                shutil.rmtree(other, ignore_errors=True)
        signs = (path for sign in _SIGNS for path in kept.rglob(sign))
        for table in {sign.parents[1] for sign in signs}:
            is_metadata = ".hoodie" in table.relative_to(kept).parts
            if table.name != SNAPSHOT and not is_metadata:
                shutil.rmtree(table, ignore_errors=True)
