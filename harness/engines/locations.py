"""Which engines can have their tables on an object store, and say what they ask it for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from keymark.harness.engines import is_native, library_name, s3a
from keymark.harness.errors import HarnessError

_S3 = ("s3", "s3a")


def location_mistake(engine: str, location: str) -> str | None:
    """Why an engine cannot be measured with tables at a location; None if it can.

    Args:
        engine: its name.
        location: URL of a folder on a store.
    """
    if is_native(engine):
        return None
    if library_name(engine) is not None:
        return f"{engine} does not tell its requests, so its tables are on a disk only"
    if location.partition("://")[0] not in _S3:
        return f"{engine} has no connection to {location}: its client here is that of S3"
    return s3a.missing()


def unreached(
    engines: Iterable[str], location: str | None, skipped: Mapping[str, str]
) -> dict[str, str]:
    """The engines of a run that cannot have their tables at its location, with the reason.

    Args:
        engines: of the scenario.
        location: of the tables; None for the run folder, which all engines reach.
        skipped: engines, and indexes of engines, that are left out for other reasons.

    Raises:
        HarnessError: no engine is left.
    """
    if location is None:
        return {}
    left = [name for name in engines if name not in skipped]
    found = {name: why for name in left if (why := location_mistake(name, location)) is not None}
    if found and len(found) == len(left):
        raise HarnessError("; ".join(dict.fromkeys(found.values())))
    return found
