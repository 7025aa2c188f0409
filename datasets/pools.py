"""Pools of realistic texts, made once per seed by Faker and then indexed by hash."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Literal, get_args

from datasets.hashing import derive

PoolName = Literal["city", "name", "company", "country", "email", "job", "street", "device"]
POOL_NAMES: tuple[str, ...] = get_args(PoolName)


@lru_cache(maxsize=64)
def pool(name: PoolName, size: int, seed: int) -> tuple[str, ...]:
    """Return ``size`` texts of one kind, the same for the same seed and Faker release.

    Args:
        name: what the texts are, one of ``POOL_NAMES``.
        size: number of texts; the same text may come more than once.
        seed: the dataset's seed.
    """
    from faker import Faker  # noqa: PLC0415 - half a second that datasets without pools save

    fake = Faker("en_US")
    fake.seed_instance(derive(seed, "pool", name))
    makers: dict[str, Callable[[], str]] = {
        "city": fake.city,
        "name": fake.name,
        "company": fake.company,
        "country": fake.country,
        "email": fake.ascii_safe_email,
        "job": fake.job,
        "street": fake.street_address,
        "device": fake.mac_address,
    }
    make = makers[name]
    return tuple(make().replace("\n", " ") for _ in range(size))
