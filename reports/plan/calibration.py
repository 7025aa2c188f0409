"""The constants of the cost model and how sure they are: a JSON document, read and written.

`harness/calibration/default.json` is the one that the package brings. It holds, for each equation,
the fitted constants and those of bootstrap draws over the calibration's cells: a prediction is
made with each of them, so that its range takes into account which constants go together.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from keymark.harness.engines import NATIVE, hudi_name, hudi_order
from keymark.harness.store.results import wrong_keys
from keymark.indexes.spec import TASKS, THREADS
from keymark.indexes.workload import Workload
from keymark.reports.errors import ReportError
from keymark.reports.plan.floors import floor
from keymark.reports.plan.formulas import CostModel, cost_model, other
from keymark.reports.render.text import clean

SCHEMA_VERSION = 2
RANGED = ("rows", "batch", "files", "shards", "cores")
_HEAD = (
    "engine",
    "runs",
    "machine",
    "cores",
    "tables",
    "row_bytes",
    "key_bytes",
    "ranges",
    "scored_rows",
)
_ANY = Workload(rows=1e6, batch=1e3)
"""Some workload: the names of amounts do not depend on it."""
DISK = "disk"
"""Where tables lie that are on no store."""
FOLDER = Path(__file__).parents[2] / "harness" / "calibration"
DEFAULT = FOLDER / "default.json"
"""The calibration of Keymark's own engine. Those of Hudi's releases lie beside it, named after the
engines."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FittedEquation:
    """Fitted constants of one formula.

    Attributes:
        amounts: names of its amounts, in the order of the constants.
        values: constants, base units of the quantity by amount.
        draws: the same, fitted to each bootstrap draw of the cells.
        spread: how far a measured cell is off its fit: a typical |log(measured / fitted)|.
        cells: how many cells it was fitted to.
        limits: by amount, the constant with which it makes up a tenth of the cell where it weighs
            most: the cells do not show a smaller one. None: earlier versions did not note them.
    """

    amounts: tuple[str, ...]
    values: tuple[float, ...]
    draws: tuple[tuple[float, ...], ...]
    spread: float
    cells: int
    limits: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        """Refuse draws that do not go with the amounts."""
        rows = (self.values, *self.draws, *([self.limits] if self.limits else []))
        if any(len(row) != len(self.amounts) for row in rows):
            raise ValueError("an equation has another number of constants than amounts")

    def knows(self, mode: str) -> bool:
        """Whether cells of a mode were calibrated; an equation without modes knows both."""
        return f"once_{mode}" in self.amounts or f"once_{other(mode)}" not in self.amounts


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenError:
    """How far predictions of one quantity of one index were off, beyond the calibrated range.

    Attributes:
        quantity: `tag`, `shuffle`, ...
        index: its index.
        beyond: how many times the workload was beyond the range.
        off: the largest |log(measured / predicted)| of cells at that distance.
    """

    quantity: str
    index: str
    beyond: float
    off: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """All that predictions need.

    Attributes:
        name: what it is called in answers.
        engine: whose work it is about.
        runs: ids of the runs that it was fitted to.
        machine: of the first of them, as run.json describes it.
        cores: that they used.
        tables: where their tables lay: `DISK`, or the scheme of a store's URL; empty: an earlier
            version did not note it.
        row_bytes: of their rows in base files, filters aside.
        key_bytes: of their keys.
        ranges: smallest and largest `rows`, `batch`, `files`, `shards`, `cores` of the cells.
        scored_rows: of the largest table that its predictions were compared with; 0: of none.
        errors: what scores found beyond the ranges.
        equations: by name.
    """

    name: str
    engine: str = NATIVE
    runs: tuple[str, ...]
    machine: Mapping[str, Any]
    cores: int
    tables: str = ""
    row_bytes: float
    key_bytes: float
    ranges: Mapping[str, tuple[float, float]]
    scored_rows: float = 0.0
    errors: tuple[SeenError, ...] = ()
    equations: Mapping[str, FittedEquation] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Refuse engines without a cost model, and ranges that nothing can be compared with."""
        if not can_fit(self.engine):
            raise ValueError(f"there is no engine {clean(self.engine)} to calibrate")
        if set(RANGED) - self.ranges.keys() or not all(
            high > 0 for _, high in self.ranges.values()
        ):
            raise ValueError(f"ranges of {', '.join(RANGED)} above 0 are expected")

    @property
    def model(self) -> CostModel:
        """The equations that its constants are of."""
        return cost_model(self.engine)

    @property
    def largest_rows(self) -> float:
        """Rows of the largest table that the constants were fitted to or compared with."""
        return max(self.ranges["rows"][1], self.scored_rows)

    @property
    def indexes(self) -> tuple[str, ...]:
        """Indexes whose tagging it knows, in the order of the equations.

        Where several indexes share an equation, the cells of one may not tell all of what those of
        another do.
        """
        tags = {name: each for name, each in self.equations.items() if name.startswith("tag/")}
        return tuple(
            index
            for name, each in tags.items()
            for index in self.model.indexes_of(name)
            if self._amounts_of_tag(index, each) <= set(each.amounts)
        )

    def _amounts_of_tag(self, index: str, fitted: FittedEquation) -> set[str]:
        mode = TASKS if fitted.knows(TASKS) else THREADS
        return set(self.model.amounts("tag", index, _ANY, mode))

    @property
    def on_store(self) -> bool:
        """Whether a store's latency is in its constants."""
        return self.tables not in ("", DISK)

    @property
    def where(self) -> str:
        """The machine in words, and where the tables lay."""
        made = clean(self.machine.get("processor") or "unknown processor", 60)
        memory = self.machine.get("memory_bytes")
        held = f", {memory / 2**30:.0f} GiB" if isinstance(memory, int) else ""
        place = "a local disk" if self.tables == DISK else clean(self.tables, 10)
        lay = f", tables on {place}" if place else ""
        return f"{self.cores} cores of {made}{held}{lay}"

    def to_json(self) -> str:
        """The document, one line for each equation."""
        head = {name: getattr(self, name) for name in _HEAD}
        lines = [
            f"  {json.dumps(name)}: {json.dumps(value)},"
            for name, value in {"schema_version": SCHEMA_VERSION, **head}.items()
        ]
        errors = [f"    {json.dumps(asdict(each))}" for each in self.errors]
        lines += ['  "errors": [', ",\n".join(errors), "  ],"] if errors else []
        made = [
            f"    {json.dumps(name)}: {json.dumps(_document(each), separators=(',', ':'))}"
            for name, each in self.equations.items()
        ]
        return "\n".join(["{", *lines, '  "equations": {', ",\n".join(made), "  }", "}", ""])


def can_fit(engine: str) -> bool:
    """Whether there is a cost model of an engine."""
    return engine == NATIVE or hudi_name(engine) is not None


def shipped() -> dict[str, Path]:
    """The calibrations that the package brings, by engine: Keymark's own first, then Hudi's."""
    hudis = [path.stem for path in FOLDER.glob("hudi@*.json") if hudi_name(path.stem)]
    ordered = sorted(hudis, key=hudi_order)
    return {NATIVE: DEFAULT, **{engine: FOLDER / f"{engine}.json" for engine in ordered}}


def calibrating(engine: str) -> str:
    """The command that measures what a calibration of an engine is fitted to."""
    if engine == NATIVE:
        return "keymark run calibrate"
    return f"keymark run calibrate_hudi --engine {engine}"


def load_for(engine: str | None, path: Path | None = None) -> Calibration:
    """The calibration of an engine.

    Args:
        engine: its name; None: that of the file, or else Hudi's newest release that has one.
        path: a saved fit; None: one that the package brings.

    Raises:
        ReportError: it cannot be read, is of another engine, or there is none.
    """
    if path is not None:
        found = load(path)
        if engine not in (None, found.engine):
            raise ReportError(f"{path} is a calibration of {found.engine}, not of {engine}")
        return found
    brought = shipped()
    wanted = engine or list(brought)[-1]
    if wanted not in brought:
        raise ReportError(
            f"there is no calibration of {clean(wanted)} ({', '.join(brought)} have one); "
            f"`{calibrating(clean(wanted))}` measures one, and --calibration RUN takes it"
        )
    return load(brought[wanted])


def load(path: Path = DEFAULT) -> Calibration:
    """Read a calibration; constants of Keymark's below the least that a kernel takes are raised.

    Raises:
        ReportError: it cannot be read, is damaged, or of another version.
    """
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise ReportError(f"the calibration {path} cannot be read: {error}") from error
    version = document.get("schema_version") if isinstance(document, dict) else None
    if version != SCHEMA_VERSION:
        raise ReportError(
            f"{path} has schema version {clean(version)}, this release knows "
            f"{SCHEMA_VERSION}: fit its runs again (plan --calibration RUN --save {path})"
        )
    try:
        found = TypeAdapter(Calibration).validate_python(
            {**document, "name": "default" if path in shipped().values() else path.name}
        )
    except ValidationError as error:
        raise ReportError(f"{path} is no calibration: {clean(wrong_keys(error))}") from error
    return replace(
        found,
        equations={
            name: each if found.model.of_hudi else _raised(name, each)
            for name, each in found.equations.items()
            if name in found.model.equation_names()
        },
    )


def _raised(name: str, equation: FittedEquation) -> FittedEquation:
    least = [floor(name, amount) for amount in equation.amounts]
    values, *draws = (
        tuple(map(max, constants, least)) for constants in (equation.values, *equation.draws)
    )
    return replace(equation, values=values, draws=tuple(draws))


def _document(equation: FittedEquation) -> dict[str, Any]:
    """Numbers of five digits: more say nothing."""
    return {
        "amounts": equation.amounts,
        "values": [float(f"{value:.5g}") for value in equation.values],
        "draws": [[float(f"{value:.5g}") for value in draw] for draw in equation.draws],
        "spread": float(f"{equation.spread:.5g}"),
        "cells": equation.cells,
        "limits": [float(f"{value:.5g}") for value in equation.limits],
    }
