"""Literals and names of Spark's SQL."""

from __future__ import annotations


def quoted(text: str) -> str:
    """A text as a literal."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def named(name: str) -> str:
    """A name of a column or table as an identifier."""
    escaped = name.replace("`", "``")
    return f"`{escaped}`"
