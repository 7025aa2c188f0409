"""Which versions of a file group may go. Source: CleanPlanner of Hudi 0.15.

KEEP_LATEST_COMMITS         what the last n commits can need: versions from the earliest of them
                            on, and the one that was the latest before it
KEEP_LATEST_FILE_VERSIONS   the last n versions
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from keymark.table.layout.model import Instant
from keymark.table.properties.options import Options


@dataclass(frozen=True, slots=True, kw_only=True)
class Retention:
    """What stays: versions since `earliest`, or the last `versions` where that is None."""

    policy: str
    earliest: Instant | None
    versions: int

    @classmethod
    def of(cls, options: Options, commits: Sequence[Instant]) -> Retention | None:
        """The retention that options ask for; None while there are too few commits to drop any."""
        policy = options.text("hoodie.cleaner.policy")
        versions = options.integer("hoodie.cleaner.fileversions.retained")
        if policy == "KEEP_LATEST_FILE_VERSIONS":
            return cls(policy=policy, earliest=None, versions=versions)
        return cls.since(commits, options.integer("hoodie.cleaner.commits.retained"))

    @classmethod
    def since(cls, commits: Sequence[Instant], retained: int) -> Retention | None:
        """What the last `retained` of the commits can need; None while there are not more."""
        if len(commits) <= retained:
            return None
        earliest = commits[len(commits) - retained]
        return cls(policy="KEEP_LATEST_COMMITS", earliest=earliest, versions=0)

    def outdated(self, times: Sequence[str]) -> set[str]:
        """The versions (instant times) of a file group that may be removed; never the latest."""
        newest_first = sorted(times, reverse=True)
        if self.earliest is None:
            return set(newest_first[self.versions :])
        before = [time for time in newest_first if time < self.earliest.time]
        # The first of them is what a reader as of the earliest commit sees.
        return set(before[1:]) - set(newest_first[:1])

    def forgets(self, replaced: str) -> bool:
        """Whether a file group that was replaced at that instant may go as a whole."""
        return self.earliest is None or replaced < self.earliest.time
