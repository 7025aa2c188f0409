"""The one door to chance in names of files, so that measurements can repeat it.

File ids lie in every entry of a record index, and how well they compress is chance: an index of
equal rows came out up to 6 % larger. Who compares bytes makes the ids of both sides from a seed.
"""

from __future__ import annotations

import hashlib
import uuid
from dataclasses import dataclass
from typing import Protocol


class Ids(Protocol):
    """Makes the UUIDs that files are named by."""

    def uuid(self, *place: object) -> str:
        """A UUID (version 4) that no other file has.

        Args:
            place: what tells the file from all others of one write.
        """

    def of_write(self) -> Ids:
        """The ids of the next write; picklable, tasks make names with it."""


@dataclass(frozen=True, slots=True)
class RandomIds:
    """New random ids."""

    def uuid(self, *place: object) -> str:
        """A random UUID, whatever the place."""
        del place
        return _even(uuid.uuid4().int)

    def of_write(self) -> RandomIds:
        """The same."""
        return self


RANDOM = RandomIds()


class SeededIds:
    """Deterministic ids: the same seed gives the same ids. For measurements.

    A handle counts its writes. Two handles that open file groups of one table need two seeds:
    with one, they would name two groups alike.
    """

    def __init__(self, seed: str) -> None:
        self._seed = seed
        self._writes = 0

    def uuid(self, *place: object) -> str:
        """The UUID of a place in a write."""
        text = "\0".join([self._seed, *map(str, place)])
        digest = hashlib.blake2b(text.encode(), digest_size=16).digest()
        return _even(uuid.UUID(bytes=digest, version=4).int)

    def of_write(self) -> SeededIds:
        """The ids of the next write."""
        self._writes += 1
        return SeededIds(f"{self._seed}\0{self._writes}")


def _even(bits: int) -> str:
    """A UUID that every record index entry holds in as many bytes.

    The index keeps its halves as Avro longs. Three bits are not left to chance, so that the first
    half always takes nine bytes (the second takes ten in any UUID): entries that differ in length
    compress worse by 6 %, and by chance.
    """
    top = bits >> 127
    fixed = (0b110 if top else 0b001) << 125
    return str(uuid.UUID(int=bits & ((1 << 125) - 1) | fixed))
