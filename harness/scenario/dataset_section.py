"""The section `dataset` of a scenario: rows, and the axes along which one run varies them."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any

from pydantic import AfterValidator, Field, ValidationInfo, field_validator

from keymark.counts import as_count
from keymark.datasets.errors import DatasetError
from keymark.datasets.specs.spec import DatasetSpec, built_in_names, load_spec
from keymark.harness.run.own_data import SourceSection
from keymark.harness.scenario.fields import (
    NAME,
    Names,
    Natural,
    Numbers,
    Positive,
    Section,
    Share,
    name_mistake,
    refuse,
)
from keymark.harness.store.data_point import DataPoint
from keymark.indexes.installed import measured_specs

_OWN_KEYS = ("rows", "updates", "inserts")
_SHARE = "update_share"

Setting = str | int | float | bool | list[int | float]


def _ascending(value: tuple[int, ...]) -> tuple[int, ...]:
    if list(value) != sorted(set(value)) or len(value) == 1:
        raise ValueError("must be at least two numbers of rows, ascending")
    return value


def _is_share(value: Setting) -> bool:
    """Whether it is a number from 0 to 1. Python takes True for one."""
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= 1


Ascending = Annotated[Numbers, AfterValidator(_ascending)]


class DatasetSection(Section):
    """What rows the table holds and how they change.

    With `table.source` or `dataset.source` the rows come from there; batches and deletes are sized
    by this section. What it leaves open, the file of a dataset of the user's own decides.

    Attributes:
        name: built-in dataset, or the path of a TOML file that specifies one.
        rows: rows that the table is loaded with.
        sizes: several numbers of rows instead, ascending: each cell is measured with each.
        seed: of every row, key and choice.
        partitions: days that partition columns spread over.
        payload_bytes: size of each payload value.
        batch_rows: rows of each change batch.
        batches: several numbers of them instead, ascending; they share the loaded table.
        update_share: share of a batch that changes existing keys; the rest are new keys.
        delete_rows: keys that the delete step removes.
        settings: further keys of the dataset's specification, dotted: `columns.uuid.kind`,
            `update_choice.kind`.
        shapes: further ones, by the name of a shape: each cell is measured with each. A shape may
            have an `update_share` of its own.
        shape_indexes: by the name of a shape the only indexes that it is measured with.
        source: rows of the user's own instead of generated ones.
        load_files: whether the rows of a load are written as Parquet files before its clock starts.
            Without, the tasks that load a table make them, on its clock; Keymark's loads only.
    """

    name: str = "trips"
    rows: Positive = 200_000
    sizes: Ascending = ()
    seed: Natural = 1
    partitions: Positive = 20
    payload_bytes: Positive = 100
    batch_rows: Positive = 10_000
    batches: Ascending = ()
    update_share: Share = 0.5
    delete_rows: Natural = 2_000
    settings: dict[str, Setting] = Field(default_factory=dict)
    shapes: dict[str, dict[str, Setting]] = Field(default_factory=dict)
    shape_indexes: dict[str, Names] = Field(default_factory=dict)
    source: SourceSection | None = None
    load_files: bool = True

    @field_validator("shapes")
    @classmethod
    def _named(cls, value: dict[str, dict[str, Setting]]) -> dict[str, dict[str, Setting]]:
        wrong = [
            f"{name!r} is not a name of letters, digits, - and _"
            for name in value
            if not NAME.fullmatch(name)
        ]
        wrong += [
            f"{name}.{key}: it is said by dataset itself"
            for name, settings in value.items()
            for key in _OWN_KEYS
            if key in settings
        ]
        wrong += [
            f"{name}.{_SHARE}: {settings[_SHARE]!r} is not a number from 0 to 1"
            for name, settings in value.items()
            if not _is_share(settings.get(_SHARE, 0))
        ]
        if wrong:
            raise ValueError("; ".join(wrong))
        return value

    @field_validator("shape_indexes")
    @classmethod
    def _known(cls, value: dict[str, Names], info: ValidationInfo) -> dict[str, Names]:
        shapes = tuple(info.data.get("shapes", ()))
        indexes = {index for only in value.values() for index in only}
        refuse(
            [
                *(name_mistake("shape", name, shapes) for name in value),
                *(name_mistake("index", name, measured_specs()) for name in sorted(indexes)),
            ]
        )
        return value

    @property
    def points(self) -> tuple[DataPoint, ...]:
        """The product shapes x sizes x batches, in the scenario's order."""
        return tuple(
            DataPoint(rows=rows, shape=shape, batch=batch)
            for shape in self.shapes or ("",)
            for rows in self.sizes or (self.rows,)
            for batch in self.batches or (0,)
        )

    @property
    def said_twice(self) -> list[str]:
        """Settings that say otherwise than the section does, which sizes cells and names them."""
        found = [
            f"dataset.settings.{key}: not with dataset.batches, which says it"
            for key in _OWN_KEYS[1:]
            if self.batches and key in self.settings
        ]
        rows = as_count(self.settings.get("rows", self.rows))
        if rows != self.rows or ("rows" in self.settings and self.sizes):
            found.append("dataset.settings.rows: dataset.rows says it, or dataset.sizes")
        return found

    def points_of(self, index: str) -> tuple[DataPoint, ...]:
        """The points that an index is measured at."""
        only = self.shape_indexes
        return tuple(data for data in self.points if index in only.get(data.shape, (index,)))

    def changes(self, batch: int = 0, shape: str = "") -> tuple[int, int]:
        """(existing keys, new keys) of a batch of `batch` rows; 0: of `batch_rows`."""
        rows = batch or self.batch_rows
        own = self.shapes.get(shape, {}).get(_SHARE)
        updates = round(rows * (own if isinstance(own, int | float) else self.update_share))
        return updates, rows - updates

    def filled(self) -> DatasetSection:
        """This section with the numbers of a dataset's own file where it has none."""
        if self.name in built_in_names():
            return self
        rows = {"rows": self.rows} if "rows" in self.model_fields_set else {}
        own = load_spec(self.name, {**rows, **self.settings})
        updates, inserts = own.count(own.updates), own.count(own.inserts)
        known: dict[str, int | float] = {
            "rows": own.rows,
            "seed": own.seed,
            "partitions": own.date_partitions,
            "payload_bytes": own.payload_bytes,
            "delete_rows": own.count(own.deletes),
        }
        if updates + inserts:
            known["batch_rows"] = updates + inserts
            known["update_share"] = updates / (updates + inserts)
        update = {key: value for key, value in known.items() if key not in self.model_fields_set}
        return self.model_copy(update=update)

    def spec(self, data: DataPoint) -> DatasetSpec:
        """What the table of a point is made of; DatasetError lists what is wrong."""
        updates, inserts = self.changes(data.batch, data.shape)
        amounts: dict[str, Any] = {
            "rows": data.rows,
            "seed": self.seed,
            "date_partitions": self.partitions,
            "payload_bytes": self.payload_bytes,
            "updates": updates,
            "inserts": inserts,
            "deletes": self.delete_rows,
        }
        shape = dict(self.shapes.get(data.shape, {}))
        shape.pop(_SHARE, None)
        return load_spec(self.name, {**amounts, **self.settings, **shape})

    def specs(self) -> tuple[list[DatasetSpec], list[str]]:
        """The specification of every point, and what is wrong with those that have none."""
        made, mistakes = [], []
        for data in self.points:
            try:
                made.append(self.spec(data))
            except DatasetError as error:
                mistakes.append(f"dataset.{self._place(data, error)}: {error}")
        return made, list(dict.fromkeys(mistakes))

    def _place(self, data: DataPoint, error: DatasetError) -> str:
        """The key with a mistake: the shape's, unless it is there without the shape, too."""
        try:
            self.spec(replace(data, shape=""))
        except DatasetError as plain:
            if str(plain) == str(error):
                return "name"
        return f"shapes.{data.shape}"
