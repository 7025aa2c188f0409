"""What is true of a format's releases: which fit this Spark, and which jars they are. A leaf."""

from __future__ import annotations

from dataclasses import dataclass

Version = tuple[int, int, int]


def number(version: str) -> Version:
    """The numbers of a release, as in `1.10.0`."""
    major, minor, patch = map(int, version.split("."))
    return major, minor, patch


@dataclass(frozen=True, slots=True, kw_only=True)
class FormatRelease:
    """A format and its releases.

    Attributes:
        name: the word that begins the names of its engines.
        title: how people call it.
        example: name of an engine.
        artifacts: group (as a path) and artifact of each jar, for Spark 3.5 and Scala 2.12.
        first: the first release that has them.
        newest: the newest release that is known to have them.
        end: the first release that no longer has them; None where there is none yet.
        for_later_spark: which builds fit Spark 4, in words.
        untold: what of an upsert is in no phase, in words.
        orders: of rows in files that it can make; see `row_order`.
        unordered: why it makes no other, and what it makes instead; empty where it makes all.
    """

    name: str
    title: str
    example: str
    artifacts: tuple[tuple[str, str], ...]
    first: Version
    newest: Version
    end: Version | None
    for_later_spark: str
    untold: str
    orders: tuple[str, ...]
    unordered: str = ""

    def version_mistake(self, version: str) -> str | None:
        """Why a release cannot be measured; None if it can."""
        asked = number(version)
        if asked < self.first:
            return f"{self.title}'s builds for Spark 3.5 begin with {_text(self.first)}"
        if self.end is not None and asked >= self.end:
            end = _text(self.end)
            return f"{self.title}'s builds for Spark 3.5 end before {end}; {self.for_later_spark}"
        return None

    def known_builds(self, version: str) -> str:
        """Which builds fit, of a release that may have none; empty for one known to have them."""
        if number(version) <= self.newest:
            return ""
        first, newest = _text(self.first), _text(self.newest)
        return f" (known for Spark 3.5 are {first} to {newest}; {self.for_later_spark})"

    def jars_of(self, version: str) -> tuple[tuple[str, str, str], ...]:
        """Maven coordinates of a release: group as a path, artifact, version."""
        return tuple((group, artifact, version) for group, artifact in self.artifacts)


def _text(version: Version) -> str:
    return ".".join(map(str, version))
