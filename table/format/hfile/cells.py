"""Byte strings and cells as the kernels take them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt


class Strings(NamedTuple):
    """String `i` is `data[offsets[i]:offsets[i + 1]]`; both arrays are read-only.

    Attributes:
        data: the bytes.
        offsets: one longer than there are strings.
    """

    data: npt.NDArray[np.uint8]
    offsets: npt.NDArray[np.int64]

    def part(self, first: int, last: int) -> Strings:
        """Strings `first` to `last`, exclusive."""
        return Strings(self.data, self.offsets[first : last + 1])

    def size(self, first: int, last: int) -> int:
        """Bytes of strings `first` to `last`, exclusive."""
        return int(self.offsets[last] - self.offsets[first])

    def item(self, index: int) -> bytes:
        """One string."""
        return bytes(self.data[self.offsets[index] : self.offsets[index + 1]].tobytes())


class Cells(NamedTuple):
    """Keys, ascending, with a value each."""

    keys: Strings
    values: Strings
