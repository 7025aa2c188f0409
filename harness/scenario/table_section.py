"""The section `table` of a scenario: the table under test, and the options of its cells."""

from __future__ import annotations

from pydantic import Field, field_validator

from keymark.datasets.generate.mappings import FILE_ROWS
from keymark.harness.engines import engine_mistake
from keymark.harness.scenario.fields import (
    NAME,
    Names,
    Positive,
    Section,
    TextGroups,
    Texts,
    name_mistake,
    refuse,
)
from keymark.indexes.installed import measured_specs


class TableSection(Section):
    """The table under test.

    Attributes:
        source: a table to start from instead of generated rows; it is copied, never touched.
        shared_load: whether Keymark loads rows once for all tables that can start from its base
            files; an index that decides where rows are, or keeps entries elsewhere, loads its own.
        shared_index: whether tables of Hudi's that share the load also share the record index that
            Keymark built upon it, instead of building their own.
        location: URL of a folder on an object store, as `s3://bucket/runs`, for the tables under
            test; each run makes a folder of its own there and deletes it at its end. Default: the
            run folder.
        mappings: a record index of the keys alone instead, without base files; only lookups.
        file_rows: rows of a file group of mappings.
        options: `hoodie.*` options that all cells get, so that they are compared on equal terms.
        index_options: options of single indexes, by index name.
        engine_options: options of single engines, by engine name; those of Hudi may be any.
        variants: further options, by the name of a variant: each index is measured with each.
        variant_indexes: by the name of a variant the only indexes that it is measured with.
        variant_engines: by the name of a variant the only engines that it is measured with. Where
            all that remain are Hudi's, its options may be any.
        ask_refused: whether engines of Hudi are asked for indexes, too, that their release does not
            have, so that the run holds Hudi's own answer.
    """

    source: str | None = None
    shared_load: bool = False
    shared_index: bool = False
    location: str | None = None
    mappings: bool = False
    file_rows: Positive = FILE_ROWS
    options: Texts = Field(default_factory=dict)
    index_options: TextGroups = Field(default_factory=dict)
    engine_options: TextGroups = Field(default_factory=dict)
    variants: TextGroups = Field(default_factory=dict)
    variant_indexes: dict[str, Names] = Field(default_factory=dict)
    variant_engines: dict[str, Names] = Field(default_factory=dict)
    ask_refused: bool = False

    def variants_of(self, engine: str, index: str) -> tuple[str, ...]:
        """The variants that an index is measured with; one without a name where there are none."""
        indexes, engines = self.variant_indexes, self.variant_engines
        return tuple(
            name
            for name in self.variants or ("",)
            if index in indexes.get(name, (index,)) and engine in engines.get(name, (engine,))
        )

    @field_validator("variant_engines")
    @classmethod
    def _engines_of_variants(cls, value: dict[str, Names]) -> dict[str, Names]:
        refuse(engine_mistake(name) for names in value.values() for name in names)
        return value

    @field_validator("index_options")
    @classmethod
    def _known(cls, value: dict[str, dict[str, str]]) -> dict[str, dict[str, str]]:
        refuse(name_mistake("index", name, measured_specs()) for name in value)
        return value

    @field_validator("engine_options")
    @classmethod
    def _engines(cls, value: dict[str, dict[str, str]]) -> dict[str, dict[str, str]]:
        refuse(engine_mistake(name) for name in value)
        return value

    @field_validator("variants")
    @classmethod
    def _named(cls, value: dict[str, dict[str, str]]) -> dict[str, dict[str, str]]:
        wrong = [name for name in value if not NAME.fullmatch(name)]
        refuse(f"{name!r} is not a name of letters, digits, - and _" for name in wrong)
        return value
