"""JSON lines of the user's. Arrow parses them, after a check of what would exhaust its memory.

Arrow's parser recurses into nested values and ends the process when its stack is full. It also
fills every column that one row names in all other rows. Its errors count rows within a block of the
file; `read_json_lines` names the line.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Collection, Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.json

from keymark.table.errors import InputError

LONGEST_LINE = 4 << 20
DEEPEST = 64
MOST_COLUMNS = 5_000
# Values, absent ones included, for each byte of a file; and some more for small files.
_VALUES_PER_BYTE, _VALUES = 16, 16 << 20
_BLOCK_BYTES = 1 << 20
_BOM = b"\xef\xbb\xbf"
_QUOTE = 2

_Bytes = npt.NDArray[np.uint8]
_Ints = npt.NDArray[np.int64]

_STEPS = np.zeros(256, np.int8)
"""How each byte changes the depth where it is not in a text; quotes and line ends are marked."""
_STEPS[[ord("["), ord("{")]] = 1
_STEPS[[ord("]"), ord("}")]] = -1
_STEPS[ord('"')] = _QUOTE
_ESCAPED = re.compile(rb"\\.", re.DOTALL)
_TEXT = re.compile(rb'"[^"]*"\s*:?')
_LONG_NUMBER = re.compile(rb"\d{309}")


def read_json_lines(path: Path, texts: Collection[str] = ()) -> pa.Table:
    """The rows of a file with one JSON object in each line; NaN and Infinity count as numbers.

    Args:
        path: the file.
        texts: columns that are text, also where their values look like dates.

    Raises:
        InputError: a line is no such object, names a column twice, is too long or nested too
            deeply, or holds a number that no column can hold; the message names the line.
        OSError: the file cannot be read.
    """
    names = _check_shape(path)
    schema = pa.schema([(name, pa.string()) for name in sorted(texts)])
    parse = pyarrow.json.ParseOptions(explicit_schema=schema)
    options = pyarrow.json.ReadOptions(block_size=LONGEST_LINE)
    try:
        table = pyarrow.json.read_json(path, read_options=options, parse_options=parse)
        # Arrow takes escaped lone surrogates as they are.
        table.validate(full=True)
        if "double" in str(table.schema) and _has_long_number(path):
            raise pa.ArrowInvalid("a number has more digits than a column can hold")
    except (pa.ArrowException, UnicodeDecodeError) as error:
        raise InputError(_explained(path, texts) or f"{path} cannot be read: {error}") from error
    # Arrow adds the columns of its schema that no line names.
    absent = [
        name for name in texts if f'"{name}"' not in names and table[name].null_count == len(table)
    ]
    return table.drop_columns(absent)


def _check_shape(path: Path) -> set[str]:
    """The names in quotes; refuses long lines, deep nesting, and columns that most rows lack."""
    names: set[bytes] = set()
    depth, objects = 0, 0
    for line, block in _whole_lines(path):
        if b"\\" in block:
            block = _ESCAPED.sub(b"", block)  # noqa: PLW2901  escapes change nothing that counts
        depth = _deepest(path, line, block, depth)
        names.update(text for text in _TEXT.findall(block) if text.endswith(b":"))
        objects += block.count(b"{")
        if len(names) > MOST_COLUMNS:
            raise InputError(
                f"{path} has more than {MOST_COLUMNS:,} columns, in the lines from {line} on"
            )
    if len(names) * objects > _VALUES_PER_BYTE * path.stat().st_size + _VALUES:
        raise InputError(
            f"{path} names {len(names):,} columns in {objects:,} objects, most of which lack most "
            "of them; write them as Parquet"
        )
    return {name.decode(errors="replace").rstrip(": \t\r\n") for name in names}


def _whole_lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """Blocks of whole lines with the number of their first line.

    Raises:
        InputError: a line is too long.
    """
    line, left = 1, b""
    with path.open("rb") as file:
        if file.read(len(_BOM)) != _BOM:
            file.seek(0)
        while block := file.read(_BLOCK_BYTES):
            block = left + block
            end = block.rfind(b"\n") + 1
            if max(end, len(block) - end) > LONGEST_LINE and _longest(block) > LONGEST_LINE:
                line += list(map(len, block.split(b"\n"))).index(_longest(block))
                raise InputError(
                    f"{path}, line {line} is longer than {LONGEST_LINE:,} bytes, the longest row "
                    "that is read from JSON"
                )
            if end:
                yield line, block[:end]
            line, left = line + block.count(b"\n"), block[end:]
    if left:
        yield line, left


def _longest(block: bytes) -> int:
    return max(map(len, block.split(b"\n")))


def _deepest(path: Path, line: int, block: bytes, depth: int) -> int:
    """Check the nesting of a block without escapes that begins at a depth; the depth at its end.

    Arrow may begin to parse at the start of any line, so each must be in balance by itself.
    """
    found = np.frombuffer(block, np.uint8)
    places = np.flatnonzero(_STEPS[found])
    steps = _STEPS[found[places]]
    quotes = np.cumsum(steps == _QUOTE)
    outside = (quotes % 2 == 0) & (steps != _QUOTE)
    depths = depth + np.cumsum(np.where(outside, steps, 0))
    ends = np.flatnonzero(found == ord("\n"))
    before = np.searchsorted(places, ends)
    open_texts = np.concatenate([[0], quotes])[before] % 2 == 1
    wrong = np.flatnonzero((depths > DEEPEST) | (depths < 0))
    if open_texts.any():
        raise InputError(f"{path}, line {line + int(open_texts.argmax())}: a text has no end")
    if len(wrong):
        line += int(np.searchsorted(ends, places[wrong[0]]))
        what = "a bracket closes nothing"
        if depths[wrong[0]] > DEEPEST:
            what = f"values are nested more than {DEEPEST} levels deep"
        raise InputError(f"{path}, line {line}: {what}")
    stray = _outside_objects(found, places, np.concatenate([[depth], depths]))
    if stray is not None:
        line += int(np.searchsorted(ends, stray))
        raise InputError(f"{path}, line {line}: expected a JSON object")
    return int(depths[-1]) if len(depths) else depth


def _outside_objects(found: _Bytes, places: _Ints, depths: _Ints) -> int | None:
    """The place of what is in no object; Arrow's parser crashes at some of it.

    Args:
        found: the bytes.
        places: of brackets and quotes.
        depths: before the first of them, and after each.
    """
    letters = np.concatenate([[0], np.cumsum(found > ord(" "))])
    stops = np.concatenate([places, [len(found)]])
    starts = np.concatenate([[0], places + 1])
    between = letters[stops] - letters[starts]
    opens_other = np.concatenate([found[places] != ord("{"), [False]])
    stray = np.flatnonzero((depths == 0) & ((between > 0) | opens_other))
    if not len(stray):
        return None
    return int(np.searchsorted(letters, letters[starts[stray[0]]] + 1)) - 1


def _has_long_number(path: Path) -> bool:
    """Whether a number may have so many digits that Arrow would read infinity."""
    return any(_LONG_NUMBER.search(block) for _, block in _whole_lines(path))


def _explained(path: Path, texts: Collection[str]) -> str | None:
    """What is wrong with the first bad line of a file that was refused; None if none is found."""
    kinds: dict[str, type] = {}
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            if not line.strip():
                continue
            try:
                row = json.loads(
                    line.removeprefix(_BOM),
                    object_pairs_hook=_unique,
                    parse_int=_number,
                    parse_float=_number,
                )
                if not isinstance(row, dict):
                    return f"{path}, line {number}: expected a JSON object"
                json.dumps(row, ensure_ascii=False).encode()
            except UnicodeError:
                return f"{path}, line {number}: a text is not valid Unicode"
            except (ValueError, RecursionError) as error:
                return f"{path}, line {number}: {error}"
            for name, value in row.items():
                if name in texts and not isinstance(value, str | None):
                    return f"{path}, line {number}: column {name!r} is text in the table"
                if value is not None and kinds.setdefault(name, type(value)) is not type(value):
                    return f"{path}, line {number}: column {name!r} changes its type"
    return None


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"column {twice!r} is named twice")
    return found


def _number(text: str) -> float:
    value = float(text)
    if math.isinf(value):
        raise ValueError(f"the number {text[:20]}... is too large")
    return value
