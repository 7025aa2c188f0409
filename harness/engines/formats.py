"""The formats other than Hudi whose tables Spark measures: their releases, jars and names.

Only data differ between formats (`delta/release.py`, `iceberg/release.py`). An engine is named
`<format>@VERSION`, and its "indexes" are modes: ways in which the format finds and replaces rows.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from keymark.harness.engines.delta import release as delta
from keymark.harness.engines.format_release import FormatRelease
from keymark.harness.engines.iceberg import release as iceberg

FORMATS = {each.name: each for each in (delta.RELEASE, iceberg.RELEASE)}
"""By the word that begins an engine's name."""

FORMAT_FORM = rf"({'|'.join(FORMATS)})@([0-9]{{1,4}}\.[0-9]{{1,4}}\.[0-9]{{1,4}})"
"""Regular expression of the names, in the words that JSON Schema has as well."""

MERGE_PARTITIONS, OF_BATCH = "keymark.merge.partitions", "batch"
"""Option of a cell, and its value for a MERGE that looks for keys in the batch's partitions alone.

Guides recommend such a condition. It is right only where no row goes to another partition.
"""

ROW_ORDER, BY_KEY, BY_Z_ORDER = "keymark.row.order", "key", "zorder"
"""Option of a cell, and its values; see `row_order`. Without it rows lie as they came."""

ROW_ORDERS = (BY_KEY, BY_Z_ORDER)

_NAME = re.compile(FORMAT_FORM)


class FormatName(NamedTuple):
    """What the name of an engine of another format says."""

    release: FormatRelease
    version: str


def format_name(name: str) -> FormatName | None:
    """What the name `<format>@VERSION` says; None for what is no such engine."""
    match = _NAME.fullmatch(name)
    return FormatName(FORMATS[match.group(1)], match.group(2)) if match else None


def format_mistake(name: str) -> str | None:
    """What is wrong with a name that begins like one of a format's engine; None if nothing is."""
    named = format_name(name)
    if named is not None:
        mistake = named.release.version_mistake(named.version)
        return f"engine {name!r}: {mistake}" if mistake else None
    word = re.split(r"\W", name.strip(), maxsplit=1)[0].lower()
    if word not in FORMATS:
        return None
    example = FORMATS[word].example
    return f"engine {name!r} needs a release of three numbers, as in {example!r}"
