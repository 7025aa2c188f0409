"""Literals of Spark's SQL."""

from __future__ import annotations


def quoted(text: str) -> str:
    """A text as a literal."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
