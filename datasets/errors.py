"""The one error of this package: a mistake in what the user asked for."""

from __future__ import annotations

from typing import ClassVar


class DatasetError(Exception):
    """A dataset specification, key or column cannot be used; the text names it in one line."""

    exit_code: ClassVar[int] = 2
