"""Names of the engines without Spark: `deltalake@VERSION` and `pyiceberg@VERSION`.

The versions that can be installed are those with a file of pins beside this module.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from keymark.harness.engines.format_dialect import CODEC, FILE_SIZE
from keymark.harness.engines.formats import (
    BY_Z_ORDER,
    MERGE_PARTITIONS,
    OF_BATCH,
    ROW_ORDER,
)

LIBRARIES = ("deltalake", "pyiceberg")
LIBRARY_FORM = rf"({'|'.join(LIBRARIES)})@([0-9]{{1,4}}\.[0-9]{{1,4}}\.[0-9]{{1,4}})"
"""Regular expression of the names, in the words that JSON Schema has as well."""

_WORDS = {
    "deltalake": {CODEC: "writer.compression", FILE_SIZE: "write.target_file_size"},
    "pyiceberg": {
        CODEC: "write.parquet.compression-codec",
        FILE_SIZE: "write.target-file-size-bytes",
    },
}
BY_PARTITION = "merge.by_partition"
"""Setting of a merge that looks for keys in the batch's partitions alone."""

Z_ORDER = "optimize.z_order"
"""Setting of a load and a compaction that put rows along a Z-order curve of the key."""

_ORDERS: dict[str, tuple[str, ...]] = {"deltalake": (BY_Z_ORDER,), "pyiceberg": ()}
_UNORDERED = {
    "deltalake": f"deltalake sorts no rows: {ROW_ORDER} = {BY_Z_ORDER} orders them by its z_order",
    "pyiceberg": "pyiceberg rewrites no files: rows lie as they come; iceberg@VERSION orders them",
}

_OURS = ("hoodie.", "keymark.", "spark.")
_LIBRARY = re.compile(LIBRARY_FORM)
_LIKE_LIBRARY = re.compile(rf"(?i)({'|'.join(LIBRARIES)})\W*v?(\d+\.\d+\.\d+)")
_LOCKS = Path(__file__).parent


class LibraryName(NamedTuple):
    """What the name of an engine without Spark says.

    Attributes:
        library: the package's name.
        version: its version.
    """

    library: str
    version: str

    @property
    def lock(self) -> Path:
        """The file of its pins with their hashes, whether it is there or not."""
        return _LOCKS / f"{self.library}-{self.version}.lock"

    @property
    def orders(self) -> tuple[str, ...]:
        """Orders of rows in files that it can make."""
        return _ORDERS[self.library]

    @property
    def unordered(self) -> str:
        """Why it makes no other, and what to do instead."""
        return _UNORDERED[self.library]

    def settings(self, options: Mapping[str, str]) -> dict[str, str]:
        """The options of a cell in the library's words; its own settings win."""
        words = _WORDS[self.library]
        common = {words[each]: options[each] for each in words if each in options}
        if options.get(MERGE_PARTITIONS) == OF_BATCH:
            common[BY_PARTITION] = "true"
        if options.get(ROW_ORDER) == BY_Z_ORDER:
            common[Z_ORDER] = "true"
        own = {each: value for each, value in options.items() if not each.startswith(_OURS)}
        return common | own


def library_name(name: str) -> LibraryName | None:
    """What the name of an engine without Spark says; None for all other names."""
    match = _LIBRARY.fullmatch(name)
    return LibraryName(match.group(1), match.group(2)) if match else None


def library_mistake(name: str) -> str | None:
    """What is wrong with a name that begins as a library's does; None for all other names."""
    if not name.strip().lower().startswith(LIBRARIES) or _LIBRARY.fullmatch(name):
        return None
    like = _LIKE_LIBRARY.fullmatch(name.strip())
    if like is not None:
        return f"unknown engine {name!r} (did you mean '{like.group(1).lower()}@{like.group(2)}'?)"
    library = next(each for each in LIBRARIES if name.strip().lower().startswith(each))
    newest = pinned(library)[-1]
    return f"engine {name!r} needs a release of three numbers, as in '{library}@{newest}'"


def pinned(library: str) -> tuple[str, ...]:
    """The versions of a library that can be installed, ascending."""
    found = [path.stem.removeprefix(f"{library}-") for path in _LOCKS.glob(f"{library}-*.lock")]
    return tuple(sorted(found, key=lambda text: [int(part) for part in text.split(".")]))
