"""A price file, and what an index costs a month.

currency = "USD"
executor_hour = 0.768        an executor, with all its cores
storage_gb_month = 0.023     a GB (1e9 bytes) of storage
writes_per_day = 24
[service_hour]               what an index needs beside the table
hbase = 2.30
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from reports.errors import PriceError, ReportError
from reports.plan.predict import Estimate
from reports.text import clean

_DAYS = 365.25 / 12
_HOURS = 24 * _DAYS
_NUMBERS = ("executor_hour", "storage_gb_month", "writes_per_day")


@dataclass(frozen=True, slots=True, kw_only=True)
class Prices:
    """What is paid for.

    Attributes:
        currency: how prices are named.
        executor_hour: of one executor.
        storage_gb_month: of 1e9 bytes.
        writes_per_day: how often a batch is written.
        service_hour: by index, of what runs beside the table for it.
    """

    currency: str
    executor_hour: float
    storage_gb_month: float
    writes_per_day: float
    service_hour: Mapping[str, float] = field(default_factory=dict)

    def month(self, index: str, write_s: Estimate, index_bytes: float, executors: int) -> Estimate:
        """Money for a month of writes with an index, and for keeping the index."""
        hours = write_s.times(self.writes_per_day * _DAYS / 3600)
        kept = index_bytes / 1e9 * self.storage_gb_month
        kept += self.service_hour.get(index, 0.0) * _HOURS
        return hours.times(executors * self.executor_hour).plus(Estimate(kept, kept, kept))


def load(path: Path) -> Prices:
    """Read a price file.

    Raises:
        ReportError: it cannot be read or is no TOML.
        PriceError: with every mistake found.
    """
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise ReportError(f"the price file {path} cannot be read: {error}") from error
    mistakes = [
        f"{clean(key)}: no such price (there are currency, {', '.join(_NUMBERS)}, service_hour)"
        for key in document
        if key not in ("currency", "service_hour", *_NUMBERS)
    ]
    mistakes += [
        f"{name}: expected a number that is not negative, not {clean(document.get(name))}"
        for name in _NUMBERS
        if not _is_price(document.get(name))
    ]
    services = document.get("service_hour", {})
    if not isinstance(services, dict) or not all(map(_is_price, services.values())):
        mistakes.append("service_hour: expected a table of numbers that are not negative")
    if mistakes:
        raise PriceError(str(path), mistakes)
    return Prices(
        currency=clean(document.get("currency", "USD"), 12),
        service_hour={str(name): float(value) for name, value in services.items()},
        **{name: float(document[name]) for name in _NUMBERS},
    )


def _is_price(value: Any) -> bool:
    """Whether a value of TOML is a finite number from zero on."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return is_number and math.isfinite(value) and value >= 0
