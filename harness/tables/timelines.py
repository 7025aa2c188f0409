"""Which instants of a table completed, by the names of the files of its timeline.

In version 6 and before these are in `.hoodie`, and an instant that completed is
`<instant>.<action>`. In version 8 and 9 they are in `.hoodie/timeline`, and it is
`<begin>_<end>.<action>`; base files are named after the begin.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

from keymark.harness.tables import hudi_rs

_REPLACE = ".replacecommit"
_COMMITS = (".commit", ".deltacommit", _REPLACE)
_LATER_INSTANT = re.compile(r"(?P<begin>\d+)(?:_(?P<end>\d+))?(?P<action>\..+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Instants:
    """What a timeline says about the files that commits wrote.

    Attributes:
        first: the first active instant; what is older is archived, and so it completed.
        completed: the active instants that completed.
        replaced: the instant that replaced each replaced file group, by partition path and file id.
    """

    first: str
    completed: Collection[str]
    replaced: Mapping[tuple[str, str], str]

    def has_completed(self, instant: str) -> bool:
        """Whether an instant completed."""
        return instant in self.completed or instant < self.first


def read(table: Path) -> Instants:
    """The instants of a table of version 6 or before."""
    active: set[str] = set()
    completed: set[str] = set()
    replaced: dict[tuple[str, str], str] = {}
    for entry in sorted((table / ".hoodie").iterdir()):
        instant = entry.name.partition(".")[0]
        if not instant.isdigit():
            continue
        active.add(instant)
        if entry.suffix in _COMMITS:
            completed.add(instant)
        if entry.suffix == _REPLACE:
            content = json.loads(entry.read_text(encoding="utf-8"))
            replaced |= hudi_rs.replaced_by(content, instant)
    return Instants(first=min(active, default=""), completed=completed, replaced=replaced)


def read_later(table: Path) -> Instants:
    """The instants of a table of version 8 or 9; its commits are Avro, which hudi-rs reads."""
    names = [entry.name for entry in (table / ".hoodie" / "timeline").iterdir()]
    active = [found for name in names if (found := _LATER_INSTANT.fullmatch(name))]
    completed = [each for each in active if each["end"] and each["action"] in _COMMITS]
    has_replaced = any(each["action"] == _REPLACE for each in completed)
    return Instants(
        first=min((each["begin"] for each in active), default=""),
        completed={each["begin"] for each in completed},
        replaced=hudi_rs.replaced(table) if has_replaced else {},
    )
