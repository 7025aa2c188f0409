"""TOML to a frozen, fully resolved Scenario; every mistake is found at once, before Spark starts.

A scenario is a built-in name (`quickstart`, `ci`) or a TOML file, which may include others
(`includes.py`); `--set key=value` overrides are laid over it (`documents.py`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from pydantic import Field, ValidationError, field_validator
from pydantic_core import ErrorDetails

from keymark.datasets.errors import DatasetError
from keymark.datasets.generate.mappings import Mappings
from keymark.datasets.specs.spec import DatasetSpec
from keymark.harness.engines import (
    BARE,
    NATIVE,
    engine_mistake,
    is_native,
    is_without_spark,
    own_master,
    version_mistake,
)
from keymark.harness.engines.formats import MERGE_PARTITIONS, ROW_ORDER, ROW_ORDERS
from keymark.harness.engines.hudi_releases import AUTO_UPGRADE, WRITE_VERSION
from keymark.harness.errors import HarnessError, ScenarioError
from keymark.harness.scenario import documents, includes
from keymark.harness.scenario.dataset_section import DatasetSection
from keymark.harness.scenario.documents import builtin_names, nearest
from keymark.harness.scenario.fields import Names, Section, name_mistake, refuse
from keymark.harness.scenario.table_section import TableSection
from keymark.harness.scenario.workload_section import (
    ScheduleSection,
    SparkSection,
    WorkloadSection,
)
from keymark.harness.store.store import is_run_name
from keymark.harness.tables import independent
from keymark.indexes.installed import measured_specs, of_partition
from keymark.table.errors import TableError
from keymark.table.properties.options import EVENT_TIME_PAYLOAD, PAYLOAD_CLASS, check_options

_RECORD_INDEX = "record_index"


def default_indexes() -> tuple[str, ...]:
    """The indexes of scenarios that name none."""
    return tuple(spec.name for spec in measured_specs().values() if spec.is_compared)


class Scenario(Section):
    """A resolved scenario: all defaults filled in, nothing left to look up.

    Attributes:
        name: how the run is called.
        description: one sentence for `scenarios`.
        engines: engines under test.
        indexes: indexes under test; cells are engines x indexes in this order.
        engine_indexes: by the name of an engine the only indexes that it is measured with.
    """

    name: str
    description: str = ""
    engines: Names = (NATIVE,)
    indexes: Names = Field(default_factory=default_indexes)
    engine_indexes: dict[str, Names] = Field(default_factory=dict)
    dataset: DatasetSection = Field(default_factory=DatasetSection)
    table: TableSection = Field(default_factory=TableSection)
    workload: WorkloadSection = Field(default_factory=WorkloadSection)
    schedule: ScheduleSection = Field(default_factory=ScheduleSection)
    spark: SparkSection = Field(default_factory=SparkSection)

    @field_validator("name")
    @classmethod
    def _name(cls, value: str) -> str:
        if not is_run_name(value):
            raise ValueError("must be fit for the name of a folder: printable, without / and \\")
        return value

    @field_validator("engines")
    @classmethod
    def _engines(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        refuse([*_list_mistakes(value), *(engine_mistake(name) for name in value)])
        return value

    @field_validator("indexes")
    @classmethod
    def _indexes(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        unknown = (name_mistake("index", name, measured_specs()) for name in value)
        refuse([*_list_mistakes(value), *unknown])
        return value

    @field_validator("engine_indexes")
    @classmethod
    def _engine_indexes(cls, value: dict[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
        refuse(engine_mistake(name) for name in value)
        refuse(
            name_mistake("index", index, measured_specs())
            for only in value.values()
            for index in only
        )
        return value

    def indexes_of(self, engine: str) -> tuple[str, ...]:
        """The indexes that an engine is measured with."""
        only = self.engine_indexes.get(engine, self.indexes)
        return tuple(index for index in self.indexes if index in only)


def load(
    name: str,
    *,
    sets: Sequence[str] = (),
    overrides: Mapping[str, object] | None = None,
) -> Scenario:
    """Read a built-in scenario or a TOML file and resolve it.

    Args:
        name: built-in name, or path of a TOML file.
        sets: `key=value` with dotted keys, laid over the file; values are TOML, or else text.
        overrides: dotted keys with values that came from other options; strongest.

    Raises:
        ScenarioError: with every mistake found.
    """
    document = includes.read(name)
    mistakes = list(document.mistakes)
    given: list[tuple[str, object]] = []
    for text in sets:
        key, equals, value = text.partition("=")
        if not equals or not key:
            mistakes.append(f"--set {text}: expected key=value")
            continue
        given.append((key, documents.toml_value(value)))
    for key, setting in [*given, *(overrides or {}).items()]:
        mistakes += documents.put(document.values, key, setting)
        document.origins[key] = ""
    try:
        scenario = Scenario.model_validate(document.values)
    except ValidationError as error:
        for detail in error.errors():
            place = ".".join(str(part) for part in detail["loc"])
            mistakes.append(document.placed(f"{place}: {_explain(detail)}"))
        raise ScenarioError(name, mistakes) from None
    with suppress(DatasetError):  # the next line reports it
        scenario = scenario.model_copy(update={"dataset": scenario.dataset.filled()})
    mistakes += map(document.placed, _meaning_mistakes(scenario))
    if mistakes:
        raise ScenarioError(name, mistakes)
    return scenario


def _list_mistakes(values: Sequence[str]) -> list[str]:
    empty = [] if values else ["must name at least one"]
    return empty + [
        f"{name!r} is named twice" for name in {v for v in values if values.count(v) > 1}
    ]


def _explain(detail: ErrorDetails) -> str:
    """One sentence about a pydantic error."""
    if detail["type"] == "extra_forbidden":
        *sections, last = detail["loc"]
        return f"unknown key{nearest(str(last), _keys(sections))}"
    message = str(detail["msg"]).removeprefix("Value error, ")
    if detail["type"] in ("value_error", "missing"):
        return message[0].lower() + message[1:]
    return f"{message[0].lower()}{message[1:]}, not {detail['input']!r}"


def _keys(sections: Sequence[object]) -> list[str]:
    model: Any = Scenario
    for section in sections:
        model = model.model_fields[section].annotation
    return [*model.model_fields, *([] if sections else [includes.INCLUDE])]


def _meaning_mistakes(scenario: Scenario) -> list[str]:
    """What is well-formed and yet cannot be run."""
    found = [*_cell_mistakes(scenario), *_option_mistakes(scenario)]
    found += [*_source_mistakes(scenario), *_mapping_mistakes(scenario)]
    found += [*_axis_mistakes(scenario), *_step_mistakes(scenario), *_variant_mistakes(scenario)]
    found += [*_location_mistakes(scenario), *_session_mistakes(scenario)]
    specs, wrong = scenario.dataset.specs()
    found += wrong
    try:
        if scenario.table.mappings:
            for spec in specs:
                Mappings(spec, scenario.table.file_rows)
    except DatasetError as error:
        found.append(f"dataset.name: {error}")
    found += [mistake for spec in specs for mistake in _stream_mistakes(scenario, spec)]
    return list(dict.fromkeys(found))


def _axis_mistakes(scenario: Scenario) -> list[str]:
    """Axes of a dataset that cannot have them."""
    data = scenario.dataset
    fixed = scenario.table.source or data.source or scenario.workload.model_keys
    axes = {"sizes": data.sizes, "shapes": data.shapes, "batches": data.batches}
    found = [
        f"dataset.{axis}: neither with a source nor with workload.model_keys"
        for axis, values in axes.items()
        if values and fixed
    ]
    found += data.said_twice
    if data.batches and not scenario.workload.rounds:
        found.append("dataset.batches: needs workload.rounds")
    return found


def _cell_mistakes(scenario: Scenario) -> list[str]:
    """What is not measured with all engines and indexes."""
    found = [
        f"dataset.shape_indexes: index {index!r} has no shape left"
        for index in scenario.indexes
        if not scenario.dataset.points_of(index)
    ]
    record = of_partition(_RECORD_INDEX).name
    if scenario.workload.model_keys and set(scenario.indexes) != {record}:
        found.append(f"workload.model_keys: the lookup model is about the index {record} only")
    if scenario.workload.model_keys and set(scenario.engines) != {NATIVE}:
        found.append("workload.model_keys: the lookup model is about the engine native only")
    return found


def _variant_mistakes(scenario: Scenario) -> list[str]:
    """Names of nothing, and indexes without any variant."""
    table, variants = scenario.table, tuple(scenario.table.variants)
    named = {
        "table.variant_indexes": table.variant_indexes,
        "table.variant_engines": table.variant_engines,
        "workload.merge_on_read": scenario.workload.merge_on_read,
        "workload.upkeep": scenario.workload.upkeep,
    }
    wrong = [
        (key, name_mistake("variant", name, variants))
        for key, names in named.items()
        for name in names
    ]
    wrong += [
        ("table.variant_indexes", name_mistake("index", index, measured_specs()))
        for indexes in table.variant_indexes.values()
        for index in indexes
    ]
    wrong += [
        ("table.variant_indexes", f"index {index!r} has no variant left")
        for index in scenario.indexes
        if not any(table.variants_of(engine, index) for engine in scenario.engines)
    ]
    return [f"{key}: {mistake}" for key, mistake in wrong if mistake]


def _step_mistakes(scenario: Scenario) -> list[str]:
    """Steps that lack what they work on, or work on another index or engine."""
    work, record = scenario.workload, of_partition(_RECORD_INDEX).name
    nulled = bool(work.null_columns)
    wrong = {
        f"build_index: the index {record} only": work.build_index and scenario.indexes != (record,),
        "null_columns: needs dataset.delete_rows": nulled and not scenario.dataset.delete_rows,
        "purge: needs workload.delete": work.purge and work.delete is not True,
        "purge: Hudi has none": work.purge and not all(map(is_native, scenario.engines)),
        "delete_latest: needs workload.delete and workload.rounds": work.delete_latest
        and not (work.delete and work.rounds),
        "upkeep: needs upkeep_every, and the other way round": bool(work.upkeep)
        != bool(work.upkeep_every),
        "read_every: needs point_query or range_query": work.read_every
        and not (work.point_query or work.range_query),
        "cold: needs point_query or range_query": work.cold
        and not (work.point_query or work.range_query),
        "cold: of tables and a spark.master on this machine only": work.cold
        and (scenario.table.location is not None or not scenario.spark.master.startswith("local")),
        "lookup_again: needs lookup_present or lookup_absent": work.lookup_again
        and not work.lookup_present + work.lookup_absent,
        "lookup_few: at most lookup_present and lookup_absent together": work.lookup_few
        > work.lookup_present + work.lookup_absent,
    }
    if work.delete_latest or work.spread_batch:
        fixed = bool(scenario.dataset.source or scenario.table.source)
        wrong |= {
            "delete_latest, spread_batch: of generated rows only": fixed,
            "delete_latest, spread_batch: not with purge or null_columns": work.purge or nulled,
        }
    return [f"workload.{what}" for what, is_so in wrong.items() if is_so]


def _nulled_mistakes(scenario: Scenario, spec: DatasetSpec) -> list[str]:
    """Columns that are not there to be nulled or queried, or must not be nulled."""
    names = [name for name, _ in spec.flat_columns()]
    fixed = {*spec.record_key, *spec.partition_path, spec.ordering}
    work = scenario.workload
    asked, queries = work.null_columns, {"column_query": work.column_query}
    queries["range_query"] = work.range_query
    found = [name_mistake("column", name, names) for name in asked]
    found += [
        f"column {name!r} is of the key, the partition or the order"
        for name in asked
        if name in fixed
    ]
    unknown = {key: name_mistake("column", name, names) for key, name in queries.items() if name}
    return [
        *(f"workload.null_columns: {mistake}" for mistake in found if mistake),
        *(f"workload.{key}: {mistake}" for key, mistake in unknown.items() if mistake),
    ]


def _stream_mistakes(scenario: Scenario, spec: DatasetSpec) -> list[str]:
    """Options without which a table would not be what its dataset says."""
    found = [] if scenario.dataset.source else _nulled_mistakes(scenario, spec)
    table, rounds = scenario.table, scenario.workload.rounds
    if 0 < spec.delete_every < rounds:
        why = f"a run deletes once, after all of its {rounds} rounds (workload.rounds)"
        found.append(f"dataset.settings.delete_every: {why}")
    for index in scenario.indexes:
        options = table.options | table.index_options.get(index, {})
        if spec.count(spec.late) and options.get(PAYLOAD_CLASS) != EVENT_TIME_PAYLOAD:
            found.append(f"dataset.settings.late: needs {PAYLOAD_CLASS} = {EVENT_TIME_PAYLOAD}")
        if measured_specs()[index].in_formats:
            # An update of the partition column moves the row, if it is found.
            given = (*table.engine_options.values(), *table.variants.values(), options)
            if spec.count(spec.moves) and any(MERGE_PARTITIONS in each for each in given):
                found.append(f"dataset.settings.moves: not with {MERGE_PARTITIONS}")
            continue
        move = measured_specs()[index].move_option
        if spec.count(spec.moves) and move is None:
            found.append(
                f"dataset.settings.moves: index {index!r} looks for a key in its own partition, so "
                "that a row which moves would be there twice"
            )
        elif spec.count(spec.moves) and options.get(str(move)) != "true":
            found.append(f"dataset.settings.moves: index {index!r} needs {move} = true")
    return list(dict.fromkeys(found))


def _mapping_mistakes(scenario: Scenario) -> list[str]:
    """What needs rows where there are keys alone."""
    work, table = scenario.workload, scenario.table
    record = of_partition(_RECORD_INDEX).name
    wrong = {
        "engines: native only": scenario.engines != (NATIVE,),
        f"indexes: {record} only": scenario.indexes != (record,),
        "table.source: none": table.source,
        "table.location: none": table.location,
        "dataset.source: none": scenario.dataset.source,
        "schedule.loads: 1": scenario.schedule.loads > 1,
        "dataset.batches: none": scenario.dataset.batches,
        "workload.rounds: 0": work.rounds,
        "workload.build_index: false": work.build_index,
        "workload.null_columns: none": work.null_columns,
        "workload.delete: false": work.delete,
        "workload.purge: false": work.purge,
        "workload.lookup_again: false": work.lookup_again,
        "workload.lookup_few: 0": work.lookup_few,
        "workload.point_query: false": work.point_query,
        "workload.column_query: none": work.column_query,
        "workload.range_query: none": work.range_query,
        "workload.model_keys: none": work.model_keys,
        "workload.lookup_present: at least 1": not work.lookup_present,
    }
    return [
        f"{what}, with table.mappings" for what, is_so in wrong.items() if table.mappings and is_so
    ]


def _location_mistakes(scenario: Scenario) -> list[str]:
    """A place that is no store."""
    location = scenario.table.location
    if location is None:
        return []
    scheme, mark, rest = location.partition("://")
    if mark and scheme not in ("file", "memory") and rest:
        return []
    return [f"table.location: {location} is not the URL of a store, such as s3://bucket/folder"]


def _session_mistakes(scenario: Scenario) -> list[str]:
    """Sessions that would wait for each other: a standalone cluster gives the first all cores."""
    spark = scenario.spark
    beside = [name for name in scenario.engines if name not in (NATIVE, BARE)]
    beside = [name for name in beside if own_master(name) is None and not is_without_spark(name)]
    shared = {"spark.cores.max", "spark.dynamicAllocation.enabled"} & spark.conf.keys()
    if not spark.master.startswith("spark://") or not beside or shared:
        return []
    sessions = ", ".join(["the run", *beside])
    waits = f"a session takes all cores of {spark.master} until it ends, and {sessions} have one"
    return [f"spark.conf: {waits} each: set spark.cores.max to what each may have"]


def _option_mistakes(scenario: Scenario) -> list[str]:
    table, engines = scenario.table, scenario.engines
    # Options that only Hudi gets are Hudi's to judge.
    natives = set(filter(is_native, engines))
    sections = {"options": table.options}
    groups = {
        "index_options": table.index_options,
        "engine_options": {k: v for k, v in table.engine_options.items() if k == NATIVE},
        "variants": {
            name: options
            for name, options in table.variants.items()
            if natives & set(table.variant_engines.get(name, engines))
        },
    }
    for name, group in groups.items():
        sections |= {f"{name}.{key}": options for key, options in group.items()}
    versions = _version_mistakes(scenario)
    found = [f"table.{section}: {mistake}" for section, mistake in versions]
    contradicted = {section for section, _ in versions}
    for section, options in sections.items():
        for name, value in options.items():
            if name == ROW_ORDER:
                continue  # a run leaves the cell out, and says why
            if section in contradicted and name in (WRITE_VERSION, AUTO_UPGRADE):
                continue  # it is known, and the other line says what is wrong
            try:
                check_options({name: value})
            except TableError as error:
                found.append(f"table.{section}: {error}")
    return [*found, *_order_mistakes(table)]


def _version_mistakes(scenario: Scenario) -> list[tuple[str, str]]:
    """Sections of options that contradict the table version of an engine's name, and how."""
    table = scenario.table
    given = [("options", engine, table.options) for engine in scenario.engines]
    given += [
        (f"index_options.{index}", engine, options)
        for index, options in table.index_options.items()
        for engine in scenario.engines
        if index in scenario.indexes_of(engine)
    ]
    given += [(f"engine_options.{name}", name, each) for name, each in table.engine_options.items()]
    given += [
        (f"variants.{name}", engine, options)
        for name, options in table.variants.items()
        for engine in table.variant_engines.get(name, scenario.engines)
    ]
    return [
        (section, mistake)
        for section, engine, options in given
        if (mistake := version_mistake(engine, options)) is not None
    ]


def _order_mistakes(table: TableSection) -> list[str]:
    """Orders of rows that there are not."""
    groups = {
        "index_options": table.index_options,
        "engine_options": table.engine_options,
        "variants": table.variants,
    }
    sections = {"options": table.options} | {
        f"{name}.{key}": options for name, group in groups.items() for key, options in group.items()
    }
    return [
        f"table.{section}: {ROW_ORDER} is {order!r}, and not {' or '.join(ROW_ORDERS)}"
        for section, options in sections.items()
        if (order := options.get(ROW_ORDER)) is not None and order not in ROW_ORDERS
    ]


def _source_mistakes(scenario: Scenario) -> list[str]:
    source, own = scenario.table.source, scenario.dataset.source
    found = [own.mistake] if own and own.mistake else []
    if source and own:
        found.append("dataset.source: not with table.source")
    if source == "":
        found.append("table.source: an empty path")
    if source and not (Path(source) / ".hoodie" / "hoodie.properties").is_file():
        found.append(
            f"table.source: {source} is not a Hudi table (it has no .hoodie/hoodie.properties); "
            "tables of other formats are named by dataset.source"
        )
    elif source:
        try:
            independent.source_facts(Path(source))
        except HarnessError as error:
            found.append(f"table.source: {error}")
    return found


__all__ = [
    "DatasetSection",
    "Scenario",
    "ScheduleSection",
    "SparkSection",
    "TableSection",
    "WorkloadSection",
    "builtin_names",
    "load",
    "name_mistake",
    "nearest",
]
