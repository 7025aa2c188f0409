"""What the commands of tables print."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping

import pyarrow as pa
import rich.table
from rich import box

from keymark import terminal

_HALVES = re.compile("[\ud800-\udfff]")


def answer(document: Mapping[str, object], *, as_json: bool) -> None:
    """Print a document: as JSON, or a line a field."""
    if as_json:
        print_json(document)
        return
    width = max(len(name) for name in document)
    for name, value in document.items():
        if isinstance(value, list | tuple):
            print(f"{name:<{width}}  {len(value)}")
            for item in value:
                print(f"{'':<{width}}  {visible(_line(item))}")
        else:
            print(f"{name:<{width}}  {visible(_line(value))}")


def print_rows(rows: pa.Table) -> None:
    """Print rows as a table that fits the terminal, long values cut; one row as a line a column."""
    if not rows.num_rows:
        return
    shown = rich.table.Table(box=box.SIMPLE_HEAD, show_edge=False, padding=(0, 1, 0, 0))
    texts = {name: [visible(str(v)) for v in rows[name].to_pylist()] for name in rows.column_names}
    if rows.num_rows == 1:
        answer({name: text for name, (text,) in texts.items()}, as_json=False)
        return
    for name in texts:
        numeric = pa.types.is_integer(rows[name].type) or pa.types.is_floating(rows[name].type)
        shown.add_column(
            visible(name), justify="right" if numeric else "left", no_wrap=True, max_width=36
        )
    for row in zip(*texts.values(), strict=True):
        shown.add_row(*row)
    terminal.console().print(shown)


def print_json(document: Mapping[str, object]) -> None:
    """Print one JSON document; numbers that JSON does not have, NaN and infinities, are null."""
    text = json.dumps(_plain(document), ensure_ascii=False, default=str, allow_nan=False)
    # The name of a file need not be UTF-8: the bytes that are not come as halves of a pair, which
    # can be printed escaped only.
    print(_HALVES.sub(lambda half: f"\\u{ord(half[0]):04x}", text))


def _plain(value: object) -> object:
    if isinstance(value, Mapping):
        return {name: _plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def visible(text: str) -> str:
    """Text for a terminal: control characters, which could steer it, are shown escaped."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def _line(value: object) -> str:
    if isinstance(value, dict):
        return "  ".join(f"{name} {_line(item)}" for name, item in value.items())
    return f"{value:.4g}" if isinstance(value, float) else str(value)
