"""The prices that ship with the planner: machines and stores of the large clouds, a file a cloud.

A file of `prices/` holds list prices of one region. Each names one of the file's sources: the page
where it was read, and the date of that list. What was not read on such a page is left out; a price
file of the user's own gives it. Prices change: the date says how old an amount is.
"""

from __future__ import annotations

import datetime as dt
import functools
import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from keymark.harness.store.results import wrong_keys
from keymark.reports.errors import ReportError
from keymark.reports.render.text import clean

FOLDER = Path(__file__).parent / "prices"
MONTH_HOURS = 24 * 365.25 / 12
_GB_IN_GIB = (1 << 30) / 1e9
_FACTORS = MappingProxyType({
    "hour": 1.0,
    "1000 requests": 1.0,
    "GiB month": 1 / _GB_IN_GIB,
    "GiB hour": MONTH_HOURS / _GB_IN_GIB,
})  # fmt: skip
"""By unit, what makes an amount one for an hour, 1000 requests, or a GB (1e9 bytes) and month."""

RequestKind = Literal["get", "head", "list", "put", "delete"]
REQUEST_KINDS: tuple[RequestKind, ...] = ("get", "head", "list", "put", "delete")

_Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
_Amount = Annotated[float, Field(ge=0, allow_inf_nan=False)]
_Page = Annotated[str, Field(pattern=r"^https://\S+$")]


class _Strict(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class _Source(_Strict):
    page: _Page
    date: dt.date
    note: str


class _Machine(_Strict):
    name: str
    cores: Annotated[int, Field(ge=1)]
    memory_gib: _Positive
    amount: _Positive
    unit: Literal["hour"]
    source: str
    sizes: str


class _Price(_Strict):
    of: list[Literal["storage"] | RequestKind]
    amount: _Amount
    unit: Literal["GiB month", "GiB hour", "1000 requests"]
    source: str

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if ("storage" in self.of) == (self.unit == "1000 requests") or not self.of:
            raise ValueError("storage has a price of a GiB month or GiB hour, requests of 1000")
        return self


class _List(_Strict):
    """One file."""

    cloud: str
    region: str
    currency: str
    machines: list[_Machine]
    prices: list[_Price]
    sizes: dict[str, _Page]
    sources: dict[str, _Source]

    @model_validator(mode="after")
    def _named(self) -> Self:
        named = [machine.source for machine in self.machines]
        named += [price.source for price in self.prices]
        for source in named:
            if source not in self.sources:
                raise ValueError(f"there is no source {source!r}")
        for machine in self.machines:
            if machine.sizes not in self.sizes:
                raise ValueError(f"there is no page of sizes {machine.sizes!r}")
        return self


@dataclass(frozen=True, slots=True, kw_only=True)
class Quote:
    """A price as its list has it.

    Attributes:
        of: what is paid for: `executor` (a machine), `storage`, or a kind of requests.
        amount, currency, unit: as listed.
        region: of the cloud.
        date: of the list.
        page: where it was read.
    """

    of: str
    amount: float
    currency: str
    unit: str
    region: str
    date: dt.date
    page: str

    @property
    def planned(self) -> float:
        """The amount for an hour, for 1000 requests, or for a GB (1e9 bytes) and month."""
        return self.amount * _FACTORS[self.unit]


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """A machine type with its price, and those of its cloud's store.

    Attributes:
        name: as its cloud names it.
        cloud: whose it is.
        cores: virtual CPUs, which Spark takes as cores.
        memory_bytes: of one machine.
        sizes_page: where cores and memory were read.
        quotes: what it costs, and what storage and requests cost in its region.
    """

    name: str
    cloud: str
    cores: int
    memory_bytes: float
    sizes_page: str
    quotes: tuple[Quote, ...]

    @property
    def currency(self) -> str:
        """The currency of all its prices."""
        return self.quotes[0].currency


@functools.cache
def machines() -> dict[str, Machine]:
    """All machine types whose price ships, by name.

    Raises:
        ReportError: a file is damaged.
    """
    lists = [read(path) for path in sorted(FOLDER.glob("*.toml"))]
    return {each.name: each for found in lists for each in found}


def machine(name: str) -> Machine:
    """A machine type; how its name is spelled in capitals does not matter.

    Raises:
        ReportError: no price of it ships; the text names those that do.
    """
    known = machines()
    for each in known.values():
        if each.name.casefold() == name.casefold():
            return each
    raise ReportError(
        f"no price list has the machine {clean(name)} (they have {', '.join(known)}); give your "
        "own prices with --prices FILE, and the cores of an executor with --cores"
    )


def read(path: Path) -> tuple[Machine, ...]:
    """The machines of a price list.

    Raises:
        ReportError: it cannot be read, or says anything but what a list has; its text names where.
    """
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
        found = _List.model_validate(document)
    except ValidationError as error:
        wrong = clean(wrong_keys(error))
        raise ReportError(f"the price list {path} is damaged: {wrong}") from error
    except (OSError, ValueError, RecursionError) as error:
        raise ReportError(f"the price list {path} cannot be read: {error}") from error
    store = tuple(_quotes(found, found.prices))
    return tuple(
        Machine(
            name=each.name,
            cloud=found.cloud,
            cores=each.cores,
            memory_bytes=each.memory_gib * (1 << 30),
            sizes_page=found.sizes[each.sizes],
            quotes=(*_quotes(found, [each]), *store),
        )
        for each in found.machines
    )


def _quotes(found: _List, prices: Iterable[_Machine | _Price]) -> Iterable[Quote]:
    for each in prices:
        source = found.sources[each.source]
        paid: Sequence[str] = ["executor"] if isinstance(each, _Machine) else each.of
        for of in paid:
            yield Quote(
                of=of,
                amount=each.amount,
                currency=found.currency,
                unit=each.unit,
                region=found.region,
                date=source.date,
                page=source.page,
            )
