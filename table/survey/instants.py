"""The instants of a timeline of any table version, from the names of its files.

    version 6       .hoodie/<time>.<action>[.<requested|inflight>]
    version 8, 9    .hoodie/timeline/<time>_<completion time>.<action>, pending ones as in version 6

A completed clustering is a replace commit; a completed compaction a commit.
Source: InstantFileNameGeneratorV1 and V2 of Hudi 1.1.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace

from keymark.table.errors import CorruptFileError
from keymark.table.layout.naming import HOODIE
from keymark.table.timeline.instant_name import instant_millis

TIMELINE = f"{HOODIE}/timeline"
"""The folder of the timeline from table version 8 on."""
WRITES = ("commit", "deltacommit", "replacecommit")

_NAME = re.compile(r"(\d{14,17})(?:_(\d{14,17}))?\.([a-z]+)(?:\.(requested|inflight))?")
_COMPLETES_AS = {
    "inflight": "commit",  # <time>.inflight
    "compaction": "commit",
    "logcompaction": "deltacommit",
    "clustering": "replacecommit",
}
_ACTIONS = frozenset({
    *WRITES, "compaction", "logcompaction", "clustering", "clean", "rollback", "restore",
    "indexing", "savepoint", "inflight",
})  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class SurveyInstant:
    """One instant in its furthest state.

    Attributes:
        time: when it was requested.
        action: what it is; of a completed one what it completed as.
        completed: whether it came to its end.
        path: of the file that says so, relative to the table.
        completion: when it was completed; None where the file's name does not tell.
        compacts: whether it was planned as a compaction. A bulk insert completes as a commit, too,
            in a merge-on-read table of Hudi 1.2.
    """

    time: str
    action: str
    completed: bool
    path: str
    completion: str | None = None
    compacts: bool = False

    @property
    def seconds(self) -> float | None:
        """From the request to the completion."""
        if self.completion is None:
            return None
        try:
            took = instant_millis(self.completion, None) - instant_millis(self.time, None)
        except (CorruptFileError, OverflowError):
            return None
        return took / 1000 if took >= 0 else None


def instants(paths: Iterable[str], folder: str) -> tuple[SurveyInstant, ...]:
    """The instants that the files of a timeline folder stand for, ordered by time."""
    furthest: dict[tuple[str, str], SurveyInstant] = {}
    planned: set[str] = set()
    for path in paths:
        parent, _, name = path.rpartition("/")
        match = _NAME.fullmatch(name) if parent == folder else None
        if match is None or match[3] not in _ACTIONS:
            continue
        time, completion, action, state = match.groups()
        if action == "compaction":
            planned.add(time)
        done = state is None and action != "inflight"
        key = (time, _COMPLETES_AS.get(action, action))
        known = furthest.get(key)
        if known is None or (done and not known.completed):
            furthest[key] = SurveyInstant(
                time=time,
                action=key[1] if done else action.replace("inflight", "commit"),
                completed=done,
                path=path,
                completion=completion if done else None,
            )
    found = (replace(each, compacts=each.time in planned) for each in furthest.values())
    return tuple(sorted(found, key=lambda each: (each.time, each.action)))
