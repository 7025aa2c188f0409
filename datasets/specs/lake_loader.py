"""Specifications in the words of lake-loader's change data generator: the section `[lake_loader]`.

Its parameters (onehouseinc/lake-loader, `ChangeDataGenerator.generateWorkload`, as of commit
7f39622) are translated into ours; what stands beside the section wins. docs/lake_loader.md has
them all, with what differs. A parameter that has no equivalent is refused, never ignored.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated, Any, Literal, Self

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from keymark.datasets.errors import DatasetError, nearest
from keymark.datasets.profiles.shapes import fitted

SECTION = "lake_loader"

_NO_EQUIVALENT = {
    "outputPath": "`data write --out` says where rows go",
    "datagenFileSize": "`data write --set partitions=N` says how many files there are",
    "skipIfExists": "`data write` never writes into a folder that holds something",
    "startRound": "`--set round=N` makes any round by itself",
}
_ALIASES = {"keyType": "primaryKeyType", "targetDataFileSize": "datagenFileSize"}
_KEY, _PARTITION, _ROUND, _TS = "key", "partition", "round", "ts"
_FIXED_COLUMNS = 4
_TEXTS, _CYCLE = 5, 10
_LONG = {"kind": "long", "low": -(2**61), "high": 2**61 - 1}
_NUMBERS: dict[int, tuple[str, dict[str, Any]]] = {
    5: ("longField1", _LONG),
    6: ("decimalField", {"kind": "float", "low": 0, "high": 1}),
    7: ("longField2", _LONG),
    8: ("longField3", _LONG),
    9: ("intField1", {"kind": "int", "low": -(2**31), "high": 2**31 - 1}),
}
_SHARES_MAX = 100
_NEAR = 0.01

_Share = Annotated[float, Field(ge=0, le=1)]
_Row = Annotated[tuple[_Share, ...], Field(min_length=1)]


class _Parameters(BaseModel):
    """Lake-loader's parameters with its defaults."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    rounds: int = Field(default=10, ge=1, alias="numRounds")
    records: tuple[Annotated[int, Field(ge=1)], ...] = Field(
        default=(1_000_000,), min_length=1, alias="roundsDistribution"
    )
    columns: int = Field(default=10, ge=5, le=1_000, alias="numColumns")
    record_size: int = Field(default=1024, ge=1, le=1_000_000, alias="recordSize")
    update_ratio: _Share = Field(default=0.5, alias="updateRatio")
    partitions: int = Field(default=-1, ge=-1, le=20_000, alias="totalPartitions")
    matrix: tuple[_Row, ...] = Field(default=(), alias="partitionDistributionMatrixOpt")
    key: Literal["Random", "TemporallyOrdered"] = Field(default="Random", alias="primaryKeyType")
    pattern: Literal["Uniform", "Zipf"] = Field(default="Uniform", alias="updatePatterns")
    updated_partitions: int = Field(default=-1, ge=-1, alias="numPartitionsToUpdate")
    shape: float = Field(default=2.93, gt=0, le=20, alias="zipfianShape")

    @model_validator(mode="after")
    def _fits(self) -> Self:
        problems = list(self._problems())
        if problems:
            raise ValueError("; ".join(problems))
        return self

    def _problems(self) -> Iterator[str]:
        if len(set(self.records[1:])) > 1:
            yield "roundsDistribution: rounds after the load must all have the same size here"
        if self.updated_partitions > self.days:
            yield f"numPartitionsToUpdate: {self.updated_partitions} of {self.days} partitions"
        if self.updated_partitions <= 0 < self.update_ratio and self.asks_for_updates:
            yield (
                "numPartitionsToUpdate: say how many partitions are updated; without it "
                "lake-loader makes no updates, whatever its updateRatio"
            )
        if _SHARES_MAX < self.updated_partitions < self.days or (
            self.pattern == "Zipf" and self.updated_partitions > _SHARES_MAX
        ):
            yield f"numPartitionsToUpdate: at most {_SHARES_MAX} here, unless all uniformly"
        yield from self._matrix_problems()

    @property
    def asks_for_updates(self) -> bool:
        """Whether anything about updates was said."""
        return bool({"update_ratio", "pattern", "shape"} & self.model_fields_set)

    def _matrix_problems(self) -> Iterator[str]:
        name = "partitionDistributionMatrixOpt"
        if not self.matrix:
            return
        if len(self.matrix) != self.rounds:
            yield f"{name}: {len(self.matrix)} rows for {self.rounds} rounds (numRounds)"
        wrong = {len(row) for row in self.matrix} - {self.days}
        if wrong:
            yield f"{name}: rows of {min(wrong)} shares for {self.days} partitions"
        if any(abs(sum(row) - 1) > 1e-5 for row in self.matrix):
            yield f"{name}: each row must add up to 1"
        if len(set(self.matrix[1:])) > 1:
            yield f"{name}: rounds after the load must all be spread alike here"
        if len(_without_zeros(self.matrix[-1])) > _SHARES_MAX and self.spreads_inserts:
            yield f"{name}: inserts go to the {_SHARES_MAX} newest partitions at most here"
        if not wrong and fitted(_sizes(self.matrix[0]))[1] > _NEAR:
            yield f"{name}: the load is spread like none of flat, zipf and recent"

    @property
    def days(self) -> int:
        """Number of partitions; 1 stands for none."""
        if self.matrix and self.partitions == -1:
            return len(self.matrix[0])
        return max(self.partitions, 1)

    @property
    def spreads_inserts(self) -> bool:
        """Whether rounds are spread over partitions in another way than the load."""
        return len(self.matrix) > 1 and self.matrix[1] != self.matrix[0]


def expand(settings: dict[str, Any]) -> dict[str, Any]:
    """Translate the section, if there is one, into settings of a specification.

    Args:
        settings: a specification as TOML has it.

    Raises:
        DatasetError: a parameter is unknown, wrong or has no equivalent; all of them are named.
    """
    if SECTION not in settings:
        return settings
    beside = {key: value for key, value in settings.items() if key != SECTION}
    return _translated(_checked(settings[SECTION])) | beside


def _checked(section: object) -> _Parameters:
    if not isinstance(section, dict):
        raise DatasetError(f"{SECTION}: must be a section")
    given = {_ALIASES.get(name, name): value for name, value in section.items()}
    problems = [
        f"{SECTION}.{name}: has no equivalent: {_NO_EQUIVALENT[name]}"
        for name in given
        if name in _NO_EQUIVALENT
    ]
    known = {str(field.alias) for field in _Parameters.model_fields.values()}
    unknown = [str(name) for name in given if name not in known | _NO_EQUIVALENT.keys()]
    problems += [
        f"{SECTION}.{name}: unknown parameter{nearest(name, sorted(known))}" for name in unknown
    ]
    records = given.get("roundsDistribution")
    if isinstance(records, int):
        given["roundsDistribution"] = [records]
    try:
        parameters = _Parameters.model_validate({k: v for k, v in given.items() if k in known})
    except ValidationError as error:
        for detail in error.errors():
            place = ".".join(map(str, (SECTION, *detail["loc"])))
            problems.append(f"{place}: {detail['msg'].removeprefix('Value error, ')}")
        raise DatasetError("; ".join(problems)) from error
    if problems:
        raise DatasetError("; ".join(problems))
    return parameters


def _translated(asked: _Parameters) -> dict[str, Any]:
    load, batch = asked.records[0], asked.records[min(1, len(asked.records) - 1)]
    # lake-loader cuts where it must divide, and so does this
    updates = int(asked.update_ratio * batch) if asked.updated_partitions > 0 else 0
    text = max(asked.record_size // asked.columns, 1)
    settings: dict[str, Any] = {
        "name": SECTION,
        "rows": load,
        "record_key": [_KEY],
        "partition_path": [] if asked.days == 1 else [_PARTITION],
        "ordering": _TS,
        "date_partitions": asked.days,
        "payload_bytes": text + (text - 1) // 2,
        "updates": updates,
        "inserts": batch - updates,
        "deletes": 0,
        "columns": _columns(asked),
    }
    choice = _choice(asked) if updates else {}
    if choice:
        settings["update_choice"] = choice
    if asked.spreads_inserts:
        settings["insert_shares"] = _without_zeros(asked.matrix[1])
    return settings


def _columns(asked: _Parameters) -> dict[str, dict[str, Any]]:
    """Lake-loader's columns under its names: four fixed ones, then five texts and five numbers."""
    sizes = fitted(_sizes(asked.matrix[0]))[0] if asked.matrix else "flat"
    columns: dict[str, dict[str, Any]] = {
        _KEY: {"kind": "uuid" if asked.key == "Random" else "uuid7"},
        _PARTITION: {"kind": "partition", "sizes": sizes},
        _ROUND: {"kind": "version"},
        _TS: {"kind": "ordering"},
    }
    for number in range(asked.columns - _FIXED_COLUMNS):
        place = number % _CYCLE
        if place < _TEXTS:
            columns[f"textField{place + 1}{number}"] = {"kind": "payload"}
        else:
            name, kind = _NUMBERS[place]
            columns[f"{name}{number}"] = kind
    return columns


def _choice(asked: _Parameters) -> dict[str, Any]:
    """Updates go to the newest partitions: alike, or by rank to the power of -zipfianShape."""
    count = asked.updated_partitions
    if asked.pattern == "Uniform" and count == asked.days:
        return {}
    if asked.days == 1:
        return {}
    power = asked.shape if asked.pattern == "Zipf" else 0.0
    weights = np.arange(1, count + 1, dtype=np.float64) ** -power
    return {"kind": "partitions", "shares": (weights / weights.sum()).tolist()}


def _sizes(newest_first: Sequence[float]) -> npt.NDArray[np.float64]:
    """Shares of partitions in the order of their days."""
    return np.array(newest_first[::-1])


def _without_zeros(shares: Sequence[float]) -> list[float]:
    """The shares up to the last that is not 0."""
    kept = max((place for place, share in enumerate(shares, 1) if share), default=0)
    return list(shares[:kept])
