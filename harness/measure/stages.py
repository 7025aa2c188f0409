"""The names of Spark's stages.

A stage is named by what it does, so that two revisions of the code have the same name for it: the
call that started its job (Spark's name of the stage, without line number and without the folder
of the code), what Hudi says about the job without the files that it names, and the operators in it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from keymark.harness.store.results import without_paths

_LINE = re.compile(r":\d+$")
_OURS = re.compile(r"^.*/(?=(?:table|indexes|datasets|harness)/)")
_FOLDERS = re.compile(r"^.*/")
# The table's name follows it, which is another one in each repetition.
_SCAN = "BatchScan"
# In nearly every stage, and numbered by Spark.
_PLAIN = ("WholeStageCodegen", "mapPartitionsInternal", "map", "mapPartitions")


def stage_name(info: Mapping[str, object], description: str = "") -> str:
    """The name of a stage.

    Args:
        info: `Stage Info` of Spark's event log.
        description: what the job says about itself.
    """
    call, at, place = str(info.get("Stage Name") or "").partition(" at ")
    place = _LINE.sub("", place)
    inside = _OURS.sub("", place)
    place = inside if inside != place else _FOLDERS.sub("", place)
    run = sorted(set(operators(info)))
    description = without_paths(description)
    parts = [description, call + at + place, f"({', '.join(run)})" if run else ""]
    return " ".join(part for part in parts if part)


def operators(info: Mapping[str, Any]) -> Iterator[str]:
    """The operators of Spark's plan that run in a stage, but those that are in nearly every one."""
    for rdd in info.get("RDD Info") or ():
        try:
            name = str(json.loads(rdd["Scope"])["name"]).strip()
        except (KeyError, TypeError, ValueError):
            continue  # made by no operator
        if not name.startswith(_PLAIN):
            yield _SCAN if name.startswith(f"{_SCAN} ") else name
