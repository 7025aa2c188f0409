"""A price file, and what an index costs a month.

currency = "USD"
executor_hour = 0.768        an executor, with all its cores
storage_gb_month = 0.023     a GB (1e9 bytes) of storage
writes_per_day = 24
[requests_1000]              a thousand requests to the store: get, head, list, put, delete
get = 0.0004
put = 0.005
[service_hour]               what an index needs beside the table
hbase = 2.30
"""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, PlainValidator, ValidationError

from keymark.reports.errors import PriceError, ReportError
from keymark.reports.plan.predict import NOTHING, Estimate
from keymark.reports.render.text import clean

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

_DAYS = 365.25 / 12
_HOURS = 24 * _DAYS


def _price(value: object) -> float:
    if (
        isinstance(value, bool)
        or not isinstance(value, int | float)
        or not 0 <= value <= sys.float_info.max
    ):
        raise ValueError(f"expected a number that is not negative, not {clean(value)}")
    return float(value)


Price = Annotated[float, PlainValidator(_price)]


class Prices(BaseModel):
    """What is paid for.

    Attributes:
        currency: how prices are named.
        executor_hour: of one executor.
        storage_gb_month: of 1e9 bytes.
        writes_per_day: how often a batch is written.
        service_hour: by index, of what runs beside the table for it.
        requests_1000: by kind, of a thousand requests.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    currency: Annotated[str, BeforeValidator(lambda value: clean(value, 12))] = "USD"
    executor_hour: Price
    storage_gb_month: Price
    writes_per_day: Price
    service_hour: dict[str, Price] = {}
    requests_1000: dict[Literal["get", "head", "list", "put", "delete"], Price] = {}

    def month(self, of: Mapping[str, Estimate], *, index: str, executors: int) -> Estimate:
        """Money for a month of writes with an index, and for keeping the index.

        Args:
            of: what is predicted of the index, by metric.
            index: its name.
            executors: of the writer.
        """
        write_s, index_bytes = of["write_s"], of["index_bytes"].value
        hours = write_s.times(self.writes_per_day * _DAYS / 3600)
        kept = index_bytes / 1e9 * self.storage_gb_month
        kept += self.service_hour.get(index, 0.0) * _HOURS
        whole = hours.times(executors * self.executor_hour).plus(Estimate(kept, kept, kept))
        for kind, price in self.requests_1000.items():
            asked = of.get(f"{kind}_requests", NOTHING)
            whole = whole.plus(asked.times(self.writes_per_day * _DAYS * price / 1000))
        return whole


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
    try:
        return Prices.model_validate(document)
    except ValidationError as error:
        mistakes = [_explain(each) for each in error.errors()]
        raise PriceError(str(path), list(dict.fromkeys(mistakes))) from error


def _explain(detail: ErrorDetails) -> str:
    key = clean(detail["loc"][0])
    if detail["type"] == "extra_forbidden":
        return f"{key}: no such price (there are {', '.join(Prices.model_fields)})"
    if key == "requests_1000" and detail["type"] == "literal_error":
        return f"{key}: kinds of requests are get, head, list, put, delete"
    if key in ("service_hour", "requests_1000"):
        return f"{key}: expected a table of numbers that are not negative"
    if detail["type"] == "missing":
        return f"{key}: expected a number that is not negative"
    return f"{key}: {detail['msg'].removeprefix('Value error, ')}"
