"""Numbers of rows as people write them: 2000000000, 2_000_000_000, 2e9, 2B, 400k."""

from __future__ import annotations

from decimal import Decimal

_SIZES = {"k": 10**3, "m": 10**6, "b": 10**9}
_MOST = 10**15


def count(text: str) -> int | None:
    """The number that a text says; None where it is no whole number of at most 10^15."""
    plain = text.strip().replace(",", "").lower()
    size = _SIZES.get(plain[-1:], 1)
    try:
        number = Decimal(plain[:-1] if size > 1 else plain) * size
        return int(number) if 0 <= number <= _MOST and number == int(number) else None
    except (ArithmeticError, ValueError):
        return None


def as_count(value: object) -> object:
    """A number that a text or a float such as 2e9 says; anything else as it is."""
    if isinstance(value, str | float):
        number = count(str(value))
        return value if number is None else number
    return value
