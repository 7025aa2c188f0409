"""The one error of this package: a mistake in what the user asked for."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import ClassVar


class DatasetError(Exception):
    """A dataset specification, key or column cannot be used; the text names it in one line."""

    exit_code: ClassVar[int] = 2


def nearest(name: str, known: Iterable[str]) -> str:
    """Return ` (did you mean 'x'?)` for the known name most like this one, or nothing."""
    matches = difflib.get_close_matches(name, list(known), n=1, cutoff=0.5)
    return f" (did you mean {matches[0]!r}?)" if matches else ""
