"""Base-unit values for readers: three significant digits, zeros kept, so that columns line up."""

from __future__ import annotations

from math import floor, log10

from keymark.harness.store.units import Unit

_SCALES = {
    Unit.SECONDS.value: ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs")),
    Unit.BYTES.value: (
        (float(1 << 40), "TiB"),
        (float(1 << 30), "GiB"),
        (float(1 << 20), "MiB"),
        (float(1 << 10), "KiB"),
        (1.0, "B"),
    ),
    Unit.RATE.value: ((1.0, "/s"),),
}


def digits(value: float) -> str:
    """Print three significant digits, whole parts in full: ``0.0520``, ``4.90``, ``1,234``."""
    rounded = float(f"{value:.3g}")
    if rounded == 0:
        return "0"
    if abs(rounded) >= 1000:
        return f"{value:,.0f}"
    return f"{rounded:.{max(0, 2 - floor(log10(abs(rounded))))}f}"


def amount(value: float, unit: str) -> str:
    """Print a value with the unit that suits its size: ``1.23 s``, ``4.90 MiB``, ``12,000``."""
    number, name = _scaled(value, unit)
    return f"{number} {name}".rstrip()


def exact(value: float) -> str:
    """Print a value with all its digits: ``11,880,097,000``."""
    return f"{value:,.0f}" if float(value).is_integer() else f"{value:,.10g}"


def interval(low: float, high: float, unit: str) -> str:
    """Print ``3.01 to 3.11 s``; empty when both ends look the same."""
    (first, first_unit), (second, second_unit) = _scaled(low, unit), _scaled(high, unit)
    if (first, first_unit) == (second, second_unit):
        return ""
    start = first if first_unit == second_unit else f"{first} {first_unit}"
    return f"{start} to {second} {second_unit}".rstrip()


def times(ratio: float) -> str:
    """Print a ratio: ``1.25x``."""
    return f"{digits(ratio)}x"


def axis_scale(unit: str, largest: float) -> tuple[float, str]:
    """Choose what an axis counts in, for the largest value on it: (base units in one, name)."""
    scales = _SCALES.get(unit, ((1.0, "count"),))
    size, name = next((each for each in scales if largest >= each[0]), scales[-1])
    long_names = {"s": "seconds", "ms": "milliseconds", "µs": "microseconds", "B": "bytes"}
    if largest == 0 and unit == Unit.SECONDS:
        size, name = scales[0]
    return size, long_names.get(name, name)


def _scaled(value: float, unit: str) -> tuple[str, str]:
    scales = _SCALES.get(unit)
    if scales is None:
        return (f"{value:,.0f}" if value == int(value) else digits(value)), ""
    if value == 0:
        return "0", "B" if unit == Unit.BYTES else scales[0][1]
    for place, (size, name) in enumerate(scales):
        if abs(value) >= size or place == len(scales) - 1:
            # Only bytes per key come in parts.
            whole = name == "B" and value == int(value)
            shown = f"{value:.0f}" if whole else digits(value / size)
            larger = scales[place - 1][0] / size if place else float("inf")
            if float(shown.replace(",", "")) >= larger:
                return digits(value / scales[place - 1][0]), scales[place - 1][1]
            return shown, name
    raise AssertionError("the smallest unit takes every value")
