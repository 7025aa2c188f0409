"""Data blocks and indexes of HFiles kept decoded, up to a number of bytes."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Hashable
from typing import Any, Protocol


class Part(Protocol):
    """What is kept; numpy arrays are such."""

    @property
    def nbytes(self) -> int:
        """Its bytes in memory."""


class BlockCache:
    """The parts used last; may be shared by the readers and threads of a process.

    A copy that goes to another process starts empty.

    Args:
        capacity: bytes of parts that are kept at most.

    Attributes:
        hits: how often a part was there.
        misses: how often it was not.
        held: bytes of parts that are kept now.
    """

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.hits = 0
        self.misses = 0
        self.held = 0
        self._parts: OrderedDict[Hashable, Part] = OrderedDict()
        self._lock = threading.Lock()

    def __reduce__(self) -> tuple[type[BlockCache], tuple[int]]:
        """Pickle the capacity alone."""
        return BlockCache, (self.capacity,)

    def get(self, key: Hashable) -> Any:
        """The part of that key, None if it is not here; it becomes the one used last."""
        with self._lock:
            part = self._parts.get(key)
            if part is None:
                self.misses += 1
            else:
                self.hits += 1
                self._parts.move_to_end(key)
            return part

    def put(self, key: Hashable, part: Part) -> None:
        """Keep a part in place of those not used for longest, if it fits at all.

        Args:
            key: file and place of the part.
            part: what was decoded; must not change any more.
        """
        if part.nbytes > self.capacity:
            return
        with self._lock:
            if key in self._parts:
                return
            self.held += part.nbytes
            self._parts[key] = part
            while self.held > self.capacity:
                _, oldest = self._parts.popitem(last=False)
                self.held -= oldest.nbytes
