"""Every number that is published is derived again from the samples, and compared.

What `summary.json` says must be what this version makes of the samples; what it does not say, since
an earlier version wrote it, is not missed.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from typing import Any

from keymark.harness.errors import RunFolderError
from keymark.harness.store.contents import content
from keymark.reports.gate.summary import rename_steps
from keymark.reports.model.projection import Run
from keymark.reports.published.run import CANARY, SUMMARY, Finding, in_file
from keymark.reports.render.text import clean
from keymark.reports.sections import parts
from keymark.reports.sections.parts import Parts

_NEEDED = ("run_id", "verified", "cells")
_NAMES = ("run_id", "cell", "step", "phase", "metric", "load", "measure", "kind")
# What another version of numpy may make of the same samples.
_ROUNDING = 1e-9


def summary(run: Run, sections: Parts) -> dict[str, Any]:
    """What `summary.json` says about a run, in JSON's types."""
    text = json.dumps(parts.summary([run], sections), allow_nan=False)
    document: dict[str, Any] = json.loads(text)
    return document


def derived_findings(run: Run, sections: Parts) -> Iterator[Finding]:
    """Each number that the samples do not give.

    Args:
        run: the samples of a published folder.
        sections: of its report.
    """
    given = summary(run, sections)
    if "noise" not in given:
        yield in_file(CANARY, "", "has too few beats to say how noisy the machine was")
    try:
        published = json.loads(content(run.folder / SUMMARY))
    except (ValueError, RecursionError, RunFolderError) as error:
        yield in_file(SUMMARY, "", f"is no JSON: {error}")
        return
    if not isinstance(published, dict) or not published.keys() >= set(_NEEDED):
        yield in_file(SUMMARY, "", f"does not say {', '.join(_NEEDED)}")
        return
    rename_steps(published)
    for place, what in _differences(published, given, ""):
        yield in_file(SUMMARY, place, what)


def _differences(published: object, given: object, place: str) -> Iterator[tuple[str, str]]:
    """(where, what is said and what the samples give) of all that differs."""
    if isinstance(published, Mapping) and isinstance(given, Mapping):
        for key, value in published.items():
            if key in given and _is_equal(value, given[key]):
                continue
            inside = f"{place}.{key}" if place else str(key)
            if key not in given:
                yield inside, f"is {_short(value)}; the samples give nothing of the kind"
            else:
                yield from _differences(value, given[key], inside)
    elif isinstance(published, list) and isinstance(given, list):
        if len(published) != len(given):
            yield place, f"has {len(published):,} entries; the samples give {len(given):,}"
            return
        for number, (one, other) in enumerate(zip(published, given, strict=True)):
            if not _is_equal(one, other):
                yield from _differences(one, other, f"{place}[{_named(other, number)}]")
    elif not _is_equal(published, given):
        yield place, f"is {_short(published)}; the samples give {_short(given)}"


def _is_equal(published: object, given: object) -> bool:
    """Whether two values are equal; False for lists and objects, whose entries are compared."""
    numbers = (int, float)
    if isinstance(published, bool) or isinstance(given, bool):
        return published is given
    if isinstance(published, numbers) and isinstance(given, numbers):
        return math.isclose(published, given, rel_tol=_ROUNDING)
    return isinstance(published, str | None) and published == given


def _named(item: object, number: int) -> str:
    """How an entry of a list is named: by what it is about, or by its place."""
    if not isinstance(item, Mapping):
        return str(number)
    words = [item[name] for name in _NAMES if isinstance(item.get(name), str)]
    return " ".join(words) or str(number)


def _short(value: object) -> str:
    return clean(json.dumps(value, ensure_ascii=False), 80)
