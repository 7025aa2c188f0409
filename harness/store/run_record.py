"""The content of `run.json`: what a run was asked for, where it ran and what came of it. A leaf.

The harness writes it and `reports` reads it. Runs of earlier versions lack fields, which then have
their defaults; keys that this version does not know are kept as they are. A value of another type
is damage, and a newer schema is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, PlainValidator, ValidationError

from keymark.harness.errors import RunFolderError
from keymark.harness.store.results import LOAD_STEPS, SCHEMA_VERSION

RUNNING, COMPLETE = "running", "complete"


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError("must be a text")  # noqa: TRY004 - what pydantic turns into its own
    return value


Text = Annotated[str, PlainValidator(_text)]
"""A text, which may be no valid Unicode: command lines and names of files are not always."""


class Recorded(BaseModel):
    """A part of `run.json`: frozen, checked strictly, with unknown keys kept."""

    model_config = ConfigDict(frozen=True, extra="allow", strict=True)

    @property
    def document(self) -> dict[str, Any]:
        """What was said, in JSON's types; fields that were not set are left out."""
        return self.model_dump(exclude_unset=True)


class SourceRecord(Recorded):
    """Where rows of the user's own came from."""

    path: Text = ""


class DatasetRecord(Recorded):
    """The rows and how they change, as the scenario planned them; 0 where it does not say."""

    name: Text = ""
    rows: int = 0
    sizes: list[int] = Field(default_factory=list)
    seed: int = 0
    partitions: int = 0
    payload_bytes: int = 0
    batch_rows: int = 0
    batches: list[int] = Field(default_factory=list)
    update_share: float | None = None
    delete_rows: int = 0
    settings: dict[Text, Any] = Field(default_factory=dict)
    # A shape whose name looks like that of a secret is redacted, and a text.
    shapes: dict[Text, dict[Text, Any] | Text] = Field(default_factory=dict)
    source: SourceRecord | None = None

    def settings_of(self, shape: str) -> dict[Text, Any]:
        """The settings of the data with a shape."""
        own = self.shapes.get(shape, {})
        return {**self.settings, **(own if isinstance(own, dict) else {})}


class TableRecord(Recorded):
    """What the tables started from, and the URL of their store; None: they were on a disk."""

    source: Text | None = None
    location: Text | None = None
    mappings: bool = False


class WorkloadRecord(Recorded):
    """The steps of a repetition, as the scenario names them."""

    build_index: bool = False
    rounds: int = 0
    null_columns: list[Text] = Field(default_factory=list)
    delete: bool | Literal["once"] = False
    delete_latest: bool = False
    purge: bool = False
    lookup_present: int = 0
    lookup_absent: int = 0
    lookup_again: bool = False
    lookup_few: int = 0
    point_query: bool = False
    column_query: Text = ""
    range_query: Text = ""
    cold: bool = False
    read_every: int = 0
    spread_batch: list[Text] = Field(default_factory=list)
    merge_on_read: list[Text] = Field(default_factory=list)
    model_keys: list[int] = Field(default_factory=list)

    @property
    def lookup_keys(self) -> int:
        """Keys that a lookup asks for."""
        return self.lookup_present + self.lookup_absent

    @property
    def load_steps(self) -> frozenset[str]:
        """Steps that load or build a table, and so are of no repetition."""
        return LOAD_STEPS - {"build_index"} if self.build_index else LOAD_STEPS


class ScheduleRecord(Recorded):
    """How often everything was planned to be measured."""

    repetitions: int = 0
    warmups: int | None = None
    loads: int = 1


class SparkRecord(Recorded):
    """The Spark that was asked for."""

    master: Text = ""


class ScenarioRecord(Recorded):
    """The resolved scenario, without secrets."""

    name: Text | None = None
    description: Text = ""
    engines: list[Text] = Field(default_factory=list)
    indexes: list[Text] = Field(default_factory=list)
    dataset: DatasetRecord = Field(default_factory=DatasetRecord)
    table: TableRecord = Field(default_factory=TableRecord)
    workload: WorkloadRecord = Field(default_factory=WorkloadRecord)
    schedule: ScheduleRecord = Field(default_factory=ScheduleRecord)
    spark: SparkRecord = Field(default_factory=SparkRecord)


class CellRecord(Recorded):
    """A cell that was planned.

    Attributes:
        cell: its id.
        index: its index.
        options: of its table, without secrets.
        rows: that its table is loaded with; 0 where an earlier version did not say.
        shape: name of its keys' shape; empty without.
        batch: rows of each change batch; 0 where the scenario has one size of them.
    """

    cell: Text
    index: Text = ""
    options: dict[Text, Text] = Field(default_factory=dict)
    rows: int = 0
    shape: Text = ""
    batch: int = 0


class MachineRecord(Recorded):
    """The machine as its system tells it; 0 or empty where it does not say."""

    system: Text = ""
    release: Text = ""
    architecture: Text = ""
    processor: Text = ""
    cores: int = 0
    memory_bytes: int = 0
    load_1m: float = 0.0
    megahertz: int = 0
    governor: Text = ""
    disk: dict[Text, Any] = Field(default_factory=dict)


class MeasuredRecord(Recorded):
    """Sizes that were really measured: those of a source are not the scenario's."""

    rows: int
    batch_updates: int
    batch_inserts: int
    deletes: int
    lookup_keys: int


class RunRecord(Recorded):
    """Everything that `run.json` says.

    Attributes:
        schema_version: of the file.
        run_id: name of the run; None where it is not named.
        started: time of the begin, ISO 8601.
        sessions: processes that took part of it: one more with each resumption.
        command: the command line, without secrets.
        scenario: what was asked for.
        cells: that were planned; None from harnesses with one for each engine and index.
        indexes: the specs of the indexes under test, by name, as `keymark.indexes.spec` keeps them.
        seeds: of what was drawn at random.
        machine: where it ran.
        status: `running` until the end, then `complete`.
        skipped: engines, and indexes of engines, that were not there, with the reason.
        versions: of everything that a number may depend on.
        synced: what each engine makes survive a power cut.
        spark_conf: options of the run's Spark session.
        measured: sizes; None until they are known.
        processes: Spark options and versions of each engine with a process of its own.
        seeded_ids: engines that name files from a seed, so that sizes of indexes repeat.
        finished: time of the end.
        repetitions: taken of each cell; 0 until the end.
        notes: what a reader must know.
        failed: reasons by cell.
        ended: by cell the step and the limit of memory or time at which it ended; a result.
        digest: SHA-256 by file of what the run left, of `run.json` of all else that it says; empty
            until the end, and of runs that earlier versions ended.
    """

    schema_version: int = SCHEMA_VERSION
    run_id: Text | None = None
    started: Text = ""
    sessions: int = 1
    command: list[Text] = Field(default_factory=list)
    scenario: ScenarioRecord = Field(default_factory=ScenarioRecord)
    cells: list[CellRecord] | None = None
    indexes: dict[Text, dict[Text, Any]] = Field(default_factory=dict)
    seeds: dict[Text, int] = Field(default_factory=dict)
    machine: MachineRecord = Field(default_factory=MachineRecord)
    status: Text = ""
    skipped: dict[Text, Text] = Field(default_factory=dict)
    versions: dict[Text, Text] = Field(default_factory=dict)
    synced: dict[Text, Text] = Field(default_factory=dict)
    spark_conf: dict[Text, Text] = Field(default_factory=dict)
    measured: MeasuredRecord | None = None
    processes: dict[Text, dict[Text, Any]] = Field(default_factory=dict)
    seeded_ids: list[Text] = Field(default_factory=list)
    finished: Text = ""
    repetitions: int = 0
    notes: list[Text] = Field(default_factory=list)
    failed: dict[Text, Text] = Field(default_factory=dict)
    ended: dict[Text, Text] = Field(default_factory=dict)
    digest: dict[Text, Text] = Field(default_factory=dict)

    @property
    def is_running(self) -> bool:
        """Whether the run has not come to its end."""
        return self.status == RUNNING

    def but(self, **values: object) -> Self:
        """The same record with other values of some fields.

        Raises:
            ValueError: a field is not known, or the value is of another type.
        """
        unknown = values.keys() - type(self).model_fields.keys()
        if unknown:
            raise ValueError(f"run.json has no {', '.join(sorted(unknown))}")
        return type(self).model_validate({**self.document, **values})

    @classmethod
    def parse(cls, document: object, source: str) -> Self:
        """The record in a JSON document.

        Args:
            document: what the file holds.
            source: how the file is named in errors.

        Raises:
            RunFolderError: it describes no run, is of a newer schema, or a value is damaged.
        """
        version = document.get("schema_version") if isinstance(document, Mapping) else None
        if not isinstance(document, Mapping) or type(version) is not int:
            raise RunFolderError(f"{source} is not the description of a run")
        if version > SCHEMA_VERSION:
            raise RunFolderError(
                f"{source} has schema version {version}, newer than {SCHEMA_VERSION}{_by(document)}"
            )
        try:
            return cls.model_validate(document)
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            key = ".".join(map(str, first["loc"]))
            wrong = f"{key}: {first['msg'].lower()}{_by(document)}"
            raise RunFolderError(f"{source} cannot be read: {wrong}") from error


def _by(document: Mapping[str, object]) -> str:
    """Which version wrote a document, where it says so."""
    versions = document.get("versions")
    written = versions.get("keymark") if isinstance(versions, Mapping) else None
    return f"; Keymark {written} wrote it" if isinstance(written, str) else ""
