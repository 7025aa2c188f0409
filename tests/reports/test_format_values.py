from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keymark.reports.render.format_values import amount, axis_scale, exact, interval, times

KIB, MIB = 1 << 10, 1 << 20


@pytest.mark.parametrize(
    ("value", "unit", "shown"),
    [
        (0, "s", "0 s"),
        (4.9, "s", "4.90 s"),
        (0.052, "s", "52.0 ms"),
        (0.00052, "s", "520 µs"),
        (0.9994, "s", "999 ms"),
        (0.9996, "s", "1.00 s"),
        (9.996, "s", "10.0 s"),
        (99.96, "s", "100 s"),
        (1234.5, "s", "1,234 s"),
        (0, "B", "0 B"),
        (1023, "B", "1023 B"),
        (840 * KIB, "B", "840 KiB"),
        (1023.7 * KIB, "B", "1.00 MiB"),
        (3.1 * MIB, "B", "3.10 MiB"),
        (12000, "1", "12,000"),
        (12.5, "1", "12.5"),
        (26.34, "B", "26.3 B"),
        (26.0, "B", "26 B"),
        (4213.4, "1/s", "4,213 /s"),
        (0.5, "1/s", "0.500 /s"),
        (0, "1/s", "0 /s"),
    ],
)
def test_amounts_have_three_digits_and_a_unit(value, unit, shown):
    assert amount(value, unit) == shown


@given(st.floats(min_value=1e-6, max_value=1e6))
def test_an_amount_of_time_is_within_half_a_digit(value):
    number, name = amount(value, "s").split()
    back = float(number.replace(",", "")) * {"s": 1, "ms": 1e-3, "µs": 1e-6}[name]
    assert back == pytest.approx(value, rel=0.0051)
    assert "e" not in number


def test_intervals_name_the_unit_once_where_they_can():
    assert interval(3.01, 3.11, "s") == "3.01 to 3.11 s"
    assert interval(0.9, 1.1, "s") == "900 ms to 1.10 s"
    assert interval(5, 7, "1") == "5 to 7"
    assert interval(2.0, 2.001, "s") == ""


def test_ratios():
    shown = [times(ratio) for ratio in (1, 2.345, 54.32, 999.7)]
    assert shown == ["1.00x", "2.35x", "54.3x", "1,000x"]


def test_axes_count_in_what_fits_the_largest_value():
    assert axis_scale("s", 2.0) == (1.0, "seconds")
    assert axis_scale("s", 0.2) == (0.001, "milliseconds")
    assert axis_scale("s", 0) == (1.0, "seconds")
    assert axis_scale("B", 3 * MIB) == (MIB, "MiB")
    assert axis_scale("B", 0) == (1.0, "bytes")
    assert axis_scale("1", 12) == (1.0, "count")


def test_exact_numbers_have_all_digits():
    assert exact(11_880_097_123.0) == "11,880,097,123"
    assert exact(0.125) == "0.125"
