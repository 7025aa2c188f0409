"""Prices, and what an index costs a month: those of a machine type that ship, and a price file's.

A price file says what the user pays; where a machine is named, the prices that ship stand in for
what the file leaves out:

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
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, PlainValidator, ValidationError

from keymark.reports.errors import PriceError, ReportError
from keymark.reports.plan.predict import NOTHING, Estimate
from keymark.reports.plan.price_list import (
    MONTH_HOURS,
    REQUEST_KINDS,
    Machine,
    Quote,
    RequestKind,
)
from keymark.reports.render.text import clean

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

_DAYS = 365.25 / 12
WRITES_PER_DAY = 24.0
"""How often a batch is written where a machine is named and no interval: every hour."""


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
    requests_1000: dict[RequestKind, Price] = {}

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
        kept += self.service_hour.get(index, 0.0) * MONTH_HOURS
        whole = hours.times(executors * self.executor_hour).plus(Estimate(kept, kept, kept))
        for kind, price in self.requests_1000.items():
            asked = of.get(f"{kind}_requests", NOTHING)
            whole = whole.plus(asked.times(self.writes_per_day * _DAYS * price / 1000))
        return whole


@dataclass(frozen=True, slots=True, kw_only=True)
class Bill:
    """What a month is reckoned with.

    Attributes:
        prices: all of them.
        machine: an executor; None where the user names no machine type.
        quotes: the prices that ship and are used.
        without_storage: no price of storage is known, so that keeping the index costs nothing here.
    """

    prices: Prices
    machine: Machine | None = None
    quotes: tuple[Quote, ...] = ()
    without_storage: bool = False


def load(
    path: Path | None, machine: Machine | None = None, writes_per_day: float | None = None
) -> Bill:
    """The prices of a file, of a machine type, or of both: then the file's come first.

    Args:
        path: a price file.
        machine: an executor. Its price and those of its cloud's store stand in for what the file
            leaves out. It or a file is given.
        writes_per_day: instead of the file's.

    Raises:
        ReportError: the file cannot be read, is no TOML, or leaves prices out and is in another
            currency than the machine's.
        PriceError: with every mistake found.
    """
    values: dict[str, Any] = {} if path is None else _document(path)
    if writes_per_day is not None:
        values["writes_per_day"] = writes_per_day
    if machine is None:
        return Bill(prices=_checked(values, path))
    values = {"currency": machine.currency, "writes_per_day": WRITES_PER_DAY} | values
    ship = {quote.of: quote for quote in machine.quotes}
    needed = {"executor_hour": "executor", "storage_gb_month": "storage"}
    absent = {key: of for key, of in needed.items() if key not in values}
    if values["currency"] != machine.currency:
        if absent:
            raise ReportError(
                f"the price file {path} is in {clean(values['currency'], 12)} and the price of "
                f"{machine.name} in {machine.currency}: the file needs {', '.join(absent)}, too"
            )
        ship = {}
    used = [ship[of] for of in absent.values() if of in ship]
    filled = {key: ship[of].planned if of in ship else 0.0 for key, of in absent.items()}
    prices = _checked(values | filled, path)
    kinds = [kind for kind in REQUEST_KINDS if kind in ship and kind not in prices.requests_1000]
    requests = prices.requests_1000 | {kind: ship[kind].planned for kind in kinds}
    return Bill(
        prices=prices.model_copy(update={"requests_1000": requests}),
        machine=machine,
        quotes=(*used, *(ship[kind] for kind in kinds)),
        without_storage="storage_gb_month" in absent and "storage" not in ship,
    )


def _document(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise ReportError(f"the price file {path} cannot be read: {error}") from error


def _checked(document: Mapping[str, Any], path: Path | None) -> Prices:
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
        return f"{key}: kinds of requests are {', '.join(REQUEST_KINDS)}"
    if key in ("service_hour", "requests_1000"):
        return f"{key}: expected a table of numbers that are not negative"
    if detail["type"] == "missing":
        return f"{key}: expected a number that is not negative"
    return f"{key}: {detail['msg'].removeprefix('Value error, ')}"
