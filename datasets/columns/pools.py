"""Pools of realistic texts, made once per seed by Faker and then indexed by hash."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Literal, get_args

from keymark.datasets.generate.hashing import derive

PoolName = Literal[
    "name",
    "first_name",
    "last_name",
    "email",
    "phone",
    "job",
    "company",
    "city",
    "country",
    "country_code",
    "street",
    "postcode",
    "device",
    "address",
    "browser",
    "word",
    "sentence",
    "paragraph",
]
POOL_NAMES: tuple[str, ...] = get_args(PoolName)
_FAKERS = {
    "email": "ascii_safe_email",
    "phone": "phone_number",
    "street": "street_address",
    "device": "mac_address",
    "address": "ipv4",
    "browser": "user_agent",
}
"""What Faker calls those that have another name there."""


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
    make: Callable[[], str] = getattr(fake, _FAKERS.get(name, name))
    return tuple(make().replace("\n", " ") for _ in range(size))


@lru_cache(maxsize=64)
def country_codes(seed: int) -> tuple[str, ...]:
    """Return the codes of all countries that Faker has (ISO 3166, two letters), in an order."""
    from faker.providers.address import Provider  # noqa: PLC0415 - as above

    codes = sorted(set(Provider.alpha_2_country_codes))
    return tuple(sorted(codes, key=lambda code: derive(seed, "country", code)))
