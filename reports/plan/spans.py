"""Numbers that are not known exactly: `1e9..4e9` on the command line."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Self

import typer

_MARK = ".."


@dataclass(frozen=True, slots=True)
class Span:
    """A range of values with both of its ends; a number is a range of one value."""

    low: float
    high: float

    @classmethod
    def of(cls, value: float) -> Self:
        """A number."""
        return cls(value, value)

    @property
    def is_single(self) -> bool:
        """Whether it is a number."""
        return self.low == self.high

    @property
    def middle(self) -> float:
        """The value that is as many times the low end as the high end is of it."""
        if self.is_single:
            return self.low
        return math.sqrt(self.low * self.high) if self.low > 0 else (self.low + self.high) / 2

    def points(self, count: int) -> list[float]:
        """`count` values from end to end, each the same multiple of the one before."""
        if self.is_single:
            return [self.low]
        steps = [step / (count - 1) for step in range(count)]
        if self.low > 0:
            return [self.low * (self.high / self.low) ** step for step in steps]
        return [self.low + (self.high - self.low) * step for step in steps]


def read_span(text: str | Span, read: Callable[[str], float | None], what: str) -> Span:
    """The number or range that a text says.

    Args:
        text: `5e6`, or `1e6..5e6`; a range that was read stays, as typer reads defaults, too.
        read: reads one number; None where it is none that is allowed.
        what: the number in words, with examples.

    Raises:
        typer.BadParameter: it says none, or its ends are the wrong way round.
    """
    if isinstance(text, Span):
        return text
    first, mark, second = text.partition(_MARK)
    low, high = read(first), read(second if mark else first)
    if low is None or high is None:
        raise typer.BadParameter(f"{text!r} is no {what}")
    if low > high:
        raise typer.BadParameter(f"{text!r} goes the wrong way round: write {second}..{first}")
    return Span(float(low), float(high))
