"""Foreign text made safe to show: names, reasons and paths come from files that others wrote.

HTML is escaped by the template engine, which knows nothing of terminals, Markdown, spreadsheets
or of letters that turn the direction of a line; those are the business of this module.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache
from pathlib import PurePosixPath

from keymark.harness.redaction import redact_text

NOTHING = "—"
"""Stands where there is no value."""

LONGEST = 300
"""Characters of one foreign text that a report shows."""

# ECMA-48 control sequences (colours, cursor) and operating system commands (window titles).
_ANSI = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\^_])?")
_UNSHOWABLE = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
_MARKDOWN = re.compile(r"([\\`*_\[\]|~#!])")
# A slash that follows no word and no other slash begins a path; `/s` after a space is a unit, and
# `native@local[1]/record` a cell.
_PATH = re.compile(
    r"(?:\bfile:/{1,3}|(?<![\w/.…*~@%+-])(?<![\d*]\])/(?![/*]))[^\s'\"`,;:()<>|=\[\]{}]{2,}"
)
_APART = re.compile(r"[,;:|=\"'()]|\s[/-]")
_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")


def without_folders(text: str) -> str:
    """A text in which paths of the machine it comes from are their last part: ``…/trips``.

    URLs of stores stay, and so do relative paths.
    """
    alone = text.startswith("/") and not _APART.search(text)
    return f"…/{PurePosixPath(text).name}" if alone else _PATH.sub(_last_part, text)


def _last_part(match: re.Match[str]) -> str:
    kept = match[0].rstrip(".")
    return f"…/{PurePosixPath(kept).name}{match[0][len(kept) :]}"


def clean(text: object, longest: int = LONGEST) -> str:
    r"""Make one line of showable text.

    Secrets (`keymark.harness.redaction`) and terminal sequences are left out. Control characters,
    bidirectional overrides, lone surrogates and other unshowable code points appear as ``\u....``
    so that nothing hides; the rest stays.

    Args:
        text: anything; its ``str`` is taken.
        longest: where to cut, with an ellipsis.
    """
    raw = _ANSI.sub("", redact_text(str(text)[: 4 * longest]))
    shown = raw.replace("\n", " ").replace("\t", " ")
    if not (shown.isascii() and shown.isprintable()):
        shown = "".join(map(_showable, shown))
    return shown if len(shown) <= longest else shown[: longest - 1] + "…"


@lru_cache(maxsize=10_000)
def clean_name(name: str) -> str:
    """`clean` for names of steps and numbers, each of which a run has in every cell."""
    return clean(name)


def markdown(text: object, longest: int = LONGEST) -> str:
    """Escape foreign text for a cell of a Markdown table, where raw HTML counts as well.

    It is cut as `clean` cuts it. Underscores between letters or digits mean nothing in Markdown
    and stay as they are.
    """
    safe = clean(text, longest).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return re.sub(r"(?<=\w)\\_(?=\w)", "_", _MARKDOWN.sub(r"\\\1", safe))


def spreadsheet(text: str) -> str:
    """Keep a text from being run as a formula when a CSV file is opened in a spreadsheet."""
    return f"'{text}" if text.startswith(_FORMULA_STARTS) else text


def listed(words: list[str]) -> str:
    """Join words as a sentence does: ``a``, ``a and b``, ``a, b and c``."""
    if len(words) < 2:
        return "".join(words)
    return f"{', '.join(words[:-1])} and {words[-1]}"


def _showable(letter: str) -> str:
    if unicodedata.category(letter) not in _UNSHOWABLE:
        return letter
    return f"\\u{ord(letter):04x}"
