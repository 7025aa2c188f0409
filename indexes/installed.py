"""The specs of the installed indexes, found by the entry points of their packages.

An index is a class under the entry-point group `keymark.indexes`; its attribute `spec` is its spec.
A spec that the group `keymark.index_specs` names is loaded without importing the class. The group
`keymark.hudi_index_specs` names specs of indexes that Hudi has and Keymark has not, and the group
`keymark.format_mode_specs` those of the modes in which other formats find and replace rows.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Mapping
from importlib.metadata import entry_points
from types import MappingProxyType

from keymark.indexes.spec import UNKNOWN, IndexSpec, KeyRuns, spec_from

GROUP = "keymark.indexes"
SPEC_GROUP = "keymark.index_specs"
HUDI_SPEC_GROUP = "keymark.hudi_index_specs"
FORMAT_SPEC_GROUP = "keymark.format_mode_specs"


@functools.cache
def specs() -> Mapping[str, IndexSpec]:
    """The specs of all indexes that Keymark can use here, by name, in their order."""
    found = {entry.name: entry.load() for entry in entry_points(group=SPEC_GROUP)}
    for entry in entry_points(group=GROUP):
        if entry.name not in found:
            # What an index needs may be missing; asking for that index says so.
            with contextlib.suppress(ImportError):
                found[entry.name] = spec_of_class(entry.name, entry.load())
    return _ordered(found)


@functools.cache
def measured_specs() -> Mapping[str, IndexSpec]:
    """The specs of all that an engine can be measured with: indexes, and modes of other formats."""
    others = {
        entry.name: entry.load()
        for group in (HUDI_SPEC_GROUP, FORMAT_SPEC_GROUP)
        for entry in entry_points(group=group)
    }
    return _ordered({**others, **specs()})


def _ordered(found: Mapping[str, IndexSpec]) -> Mapping[str, IndexSpec]:
    ordered = sorted(found.values(), key=lambda spec: (spec.order, spec.name))
    return MappingProxyType({spec.name: spec for spec in ordered})


def spec_of_class(name: str, index: type) -> IndexSpec:
    """The spec of an index class; one that has none is known by its protocol only."""
    spec = getattr(index, "spec", None)
    if isinstance(spec, IndexSpec):
        return spec
    return IndexSpec(
        name=name,
        table_type=name.upper(),
        is_global=bool(getattr(index, "is_global", False)),
        is_exact=bool(getattr(index, "is_exact", False)),
    )


def spec_of(name: str) -> IndexSpec:
    """The spec of an index.

    Raises:
        KeyError: there is no such index here.
    """
    return specs()[name]


def kept_specs(data: object) -> dict[str, IndexSpec]:
    """What a run folder keeps of specs, by index; what is damaged or missing is left out."""
    found = {}
    for name, each in data.items() if isinstance(data, Mapping) else ():
        with contextlib.suppress(KeyError, TypeError, ValueError, AttributeError):
            found[str(name)] = spec_from(each)
    return found


def of_partition(partition: str) -> IndexSpec:
    """The index that looks keys up in a partition of the metadata table.

    Raises:
        LookupError: there is none here.
    """
    for spec in specs().values():
        if spec.metadata_partition == partition:
            return spec
    raise LookupError(f"no index looks keys up in {partition}")


def of_key_runs(runs: KeyRuns) -> IndexSpec:
    """The index that looks keys up in runs which hold that.

    Raises:
        LookupError: there is none here.
    """
    for spec in specs().values():
        if runs and spec.key_runs == runs:
            return spec
    raise LookupError(f"no index looks keys up in runs of {runs or 'nothing'}")


def color_of(name: str) -> str:
    """The colour of an index on charts, in every engine."""
    return measured_specs().get(name, UNKNOWN).color


def default_index() -> IndexSpec:
    """The index of new tables where nothing is said."""
    return next(spec for spec in specs().values() if spec.is_default)


def finders() -> tuple[IndexSpec, ...]:
    """The indexes that find the keys of any table, the simplest one first."""
    return tuple(spec for spec in specs().values() if spec.needs_base_files_only)
