"""Who made a published run, and whether the maintainers have repeated it.

That is not for a run to say about itself. The maintainers keep it in `results/provenance.toml`:

    [runs.20261125T144830-at_size]
    from = "maintainers"

    [runs.20270110T081500-growth]
    from = "contributed"
    by = "how the contributor wants to be named"
    repeated = "20270201T093000-growth"

A run that is not named there is contributed, and nobody has repeated it.
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from keymark.reports.errors import ProvenanceError
from keymark.reports.render.text import clean

FILE = "provenance.toml"


class Provenance(BaseModel):
    """Where a run comes from.

    Attributes:
        origin: whose run it is.
        by: who contributed it; may be empty.
        repeated: id of the maintainers' run of the same scenario; empty where there is none.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    origin: Literal["maintainers", "contributed"] = Field(default="contributed", alias="from")
    by: str = ""
    repeated: str = ""

    @property
    def label(self) -> str:
        """What a page says about the run."""
        if self.origin == "maintainers":
            return "the maintainers' run"
        of = f" by {clean(self.by, 60)}" if self.by else ""
        return f"contributed{of}, {'' if self.repeated else 'not '}repeated by the maintainers"


class _Document(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    runs: dict[str, Provenance] = {}


def read(folder: Path) -> dict[str, Provenance]:
    """The provenance of the runs in a folder, by id; none where the folder does not say it.

    Raises:
        ProvenanceError: the file cannot be used; every mistake is named.
    """
    path = folder / FILE
    try:
        text = path.read_text(encoding="utf-8")
        found = _Document.model_validate(tomllib.loads(text)).runs
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise ProvenanceError(clean(path), [f"cannot be read: {error.strerror}"]) from error
    except ValidationError as error:
        mistakes = [
            f"{'.'.join(map(str, each['loc']))}: {each['msg'][0].lower()}{each['msg'][1:]}"
            for each in error.errors()
        ]
        raise ProvenanceError(clean(path), [clean(each) for each in mistakes]) from error
    except (ValueError, RecursionError) as error:
        raise ProvenanceError(clean(path), [f"not TOML: {clean(error)}"]) from error
    unknown = [
        f"runs.{name}: repeated: {each.repeated} is no run of the maintainers'"
        for name, each in found.items()
        if each.repeated
        if each.repeated not in found or found[each.repeated].origin != "maintainers"
    ]
    if unknown:
        raise ProvenanceError(clean(path), [clean(each) for each in unknown])
    return found
