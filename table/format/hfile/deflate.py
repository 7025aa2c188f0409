"""Deflate for data blocks, which uses what is known of cells.

The cells of an index block have the same lengths, sorted keys, and values of which there are few.
So the places worth a match are known without a search: a cell's value is at most 32 KiB back, in
the last cell that had it, and a key starts as the one before. What is left of the keys is literals,
in codes made for the block's own letters. Blocks of a record index take 7 to 8 % less space than a
general compressor makes of them, and are inflated faster. Any inflater reads them (RFC 1951).

A block that does not look so is left to a general compressor.
"""

from __future__ import annotations

import struct
import threading
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from isal import isal_zlib
from numba.cpython.unsafe.numbers import trailing_zeros

from keymark.table.format.hashes.digest import load_word
from keymark.table.format.hfile.huffman import PAIR, PAIR_BITS, code_lengths, codes_of, pairs_of
from keymark.table.format.kernels.compiled import inlined, kernel, maker

_Bytes = npt.NDArray[np.uint8]
_Ints = npt.NDArray[np.int32]
_Words = npt.NDArray[np.uint64]

# Smaller blocks are not worth a code table of their own; larger ones hold a few huge cells.
_BLOCK_BYTES_MIN, _BLOCK_BYTES_MAX = 1 << 15, 1 << 22

_WINDOW = 1 << 15
_FAR = 1 << 30
_MATCH_MIN, _MATCH_MAX = 4, 258
# Bytes of a cell before its row, of its key beside the row, behind the row beside the value.
_CELL_HEAD, _KEY_REST, _TAIL = 10, 12, 11
# A share of literals above this: keys too long, or values too different.
_LITERALS_MAX = 0.4
# As many bytes an average step covers at least. With literals as few as that, and 13 bits for each
# of them and 44 for a match, the stream stays shorter than the block.
_STEP_BYTES_MIN = 24
_SYMBOLS, _DISTANCES = 286, 30
_END = 256
# The first _COUNTED of every _EVERY steps are counted before codes are made; fewer literals are no
# key's.
_EVERY, _COUNTED = 128, 16
_SHORT = 16
_ONE, _TWO, _FOUR = np.uint64(1), np.uint64(2), np.uint64(4)
_SLOT_BITS = 12
_SLOT_MASK = (1 << _SLOT_BITS) - 1
_CELL_BYTES_MIN = 22
# With this many steps a cell the values have too many letters for a sample to be sure.
_STEPS_MANY = 2
# Values that start with as many of the same bytes are worth comparing.
_ALIKE = 40
_FACTOR = np.uint64(0x9E3779B97F4A7C15)
_GZIP_HEAD = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff"
# The order in which the lengths of code lengths are written.
_LENGTH_CODES = 19


def _table(base: list[int], size: int) -> _Ints:
    """For each value the last row of `base` that does not exceed it."""
    return (np.searchsorted(np.array(base), np.arange(size), side="right") - 1).astype(np.int32)


# RFC 1951, 3.2.5: lowest length and distance of each symbol, and their extra bits.
_LENGTH_BITS = np.array([0] * 8 + [n for n in range(1, 6) for _ in range(4)] + [0], np.int32)
_LENGTH_BASE = np.concatenate(([3], 3 + np.cumsum(1 << _LENGTH_BITS[:-1]))).astype(np.int32)
_LENGTH_BASE[-1] = _MATCH_MAX
_DISTANCE_BITS = np.array([0, 0] + [n for n in range(14) for _ in range(2)], np.int32)
_DISTANCE_BASE = np.concatenate(([1], 1 + np.cumsum(1 << _DISTANCE_BITS[:-1]))).astype(np.int32)
_LENGTH_SYMBOL = _table(_LENGTH_BASE.tolist(), _MATCH_MAX + 1)
_DISTANCE_SYMBOL = _table(_DISTANCE_BASE.tolist(), _WINDOW + 1).astype(np.uint8)


class _Scratch(threading.local):
    """Room that the blocks of a thread use in turn: fresh memory costs more than filling it."""

    def __init__(self) -> None:
        self._size = -1
        self._steps = self._out = np.empty(0)
        self.tables = np.empty((3, 1 << _SLOT_BITS), np.int32)

    def room(self, size: int) -> tuple[Any, Any]:
        """Steps and output for a block, by its bytes."""
        if self._size < size:
            self._size = size
            self._steps = np.empty((size // _STEP_BYTES_MIN + 2, 3), np.int32)
            self._out = np.empty(size + 1024, np.uint8)
        return self._steps, self._out


_SCRATCH = _Scratch()


class Marks(NamedTuple):
    """What is known of the value of each cell: int32 numbers, the same where values are.

    Attributes:
        values: of the value as a whole.
        kinds: of how it starts.
    """

    values: _Ints
    kinds: _Ints


def deflate_cells(block: bytes | _Bytes, marks: Marks | None = None) -> bytes | None:
    """A gzip member of the cells of a data block.

    Args:
        block: the payload, bytes or a uint8 array: cells with an MVCC byte each.
        marks: of the cells; looked up by hashes where they are not given.

    Returns:
        None where a general compressor does better.
    """
    data = np.frombuffer(block, np.uint8)
    data.flags.writeable = False
    if not _BLOCK_BYTES_MIN <= len(data) <= _BLOCK_BYTES_MAX:
        return None
    if marks is None:
        marks = _marks(data)
        if marks is None:
            return None
    steps, out = _SCRATCH.room(len(data))
    _SCRATCH.tables.fill(-1)
    used = int(_plan(data, marks, steps, _SCRATCH.tables))
    if not used:
        return None
    words = np.ndarray(len(out) - 7, "<u8", out.data, 0, (1,))
    every = used > _STEPS_MANY * len(marks.values)
    size = _coded(data, steps[:used], words, (_COUNTED, every))
    if size < 0:
        size = _coded(data, steps[:used], words, (_EVERY, False))
    check = isal_zlib.crc32(data)
    return b"".join((_GZIP_HEAD, out[:size].data, struct.pack("<II", check, len(data))))


def _coded(data: _Bytes, steps: _Ints, words: _Words, sample: tuple[int, bool]) -> int:
    """Write the stream in codes of its own: its size in bytes, -1 if a literal has no code."""
    # A few lengths and distances are worth more than a look at what does not occur.
    symbols, distances = np.ones(_SYMBOLS, np.int64), np.ones(_DISTANCES, np.int64)
    _count(data, steps, sample, symbols, distances)
    return int(_write(data, steps, words, _codes(symbols, distances)))


@inlined
def _common(data: _Bytes, left: Any, right: Any, end: Any) -> Any:
    """How many bytes from `left` on are those from `right` on; `right` is the later place."""
    at = right
    back = right - left
    while at + 8 <= end:
        differ = load_word(data, at - back) ^ load_word(data, at)
        if differ:
            return at - right + np.int64(trailing_zeros(differ) >> np.uint64(3))
        at += 8
    while at < end and data[np.uint64(at - back)] == data[np.uint64(at)]:
        at += 1
    return at - right


@inlined
def _slots(data: _Bytes, start: int, end: int) -> Any:
    """Hashes of at least eight bytes and of the first of them, as rows of tables."""
    part = np.uint64(0)
    at = start
    while at + 8 <= end and at < start + _ALIKE:
        part = (part ^ load_word(data, at)) * _FACTOR
        part ^= part >> np.uint64(29)
        at += 8
    # The last eight bytes count wherever the words before them end.
    state = load_word(data, end - 8) * _FACTOR
    while at + 8 <= end:
        state = (state ^ load_word(data, at)) * _FACTOR
        state ^= state >> np.uint64(29)
        at += 8
    shift = np.uint64(64 - _SLOT_BITS)
    return np.int64((state + part) * _FACTOR >> shift), np.int64(part * _FACTOR >> shift)


@inlined
def _big(data: _Bytes, at: int, width: int) -> Any:
    value: Any = 0
    for byte in range(width):
        value = value << 8 | np.int64(data[np.uint64(at + byte)])
    return value


@inlined
def _parts(data: _Bytes, cell: int, end: int) -> Any:
    """Where the rest of a cell behind its row starts and ends; the end is 0 if it is no cell."""
    if cell + _CELL_HEAD + _KEY_REST > end:
        return 0, 0
    row = _big(data, cell + 8, 2)
    tail = cell + _CELL_HEAD + row
    after = tail + _TAIL + _big(data, cell + 4, 4)
    whole = after <= end and _big(data, cell, 4) == row + _KEY_REST
    return tail, after if whole else 0


def _marks(data: _Bytes) -> Marks | None:
    """Marks by hashes; None if the bytes are no cells."""
    marks = np.empty((2, len(data) // _CELL_BYTES_MIN + 1), np.int32)
    count = int(_mark(data, marks))
    return Marks(marks[0, :count], marks[1, :count]) if count else None


@kernel
def _mark(data: _Bytes, marks: _Ints) -> int:
    """Number values by their hashes: how many cells there are, 0 if the bytes are no cells."""
    end = len(data)
    cell = count = 0
    while cell < end:
        tail, after = _parts(data, cell, end)
        if not after:
            return 0
        marks[0, count], marks[1, count] = _slots(data, tail, after)
        count += 1
        cell = after
    return count


@inlined
def _model(tables: _Ints, mark: Any, tail: int, before: int) -> int:
    """The distance back to a tail that this one is likely to repeat; remembers it."""
    seen, alike = tables[0], tables[1]
    slot, part = mark[0] & _SLOT_MASK, mark[1] & _SLOT_MASK
    found, near = seen[slot], alike[part]
    seen[slot] = alike[part] = tail
    if found < 0 or tail - found > _WINDOW:
        found = near
    if found < 0 or tail - found > _WINDOW:
        found = before
    return tail - found if found >= 0 else _FAR


@kernel
def _elsewhere(data: _Bytes, tables: _Ints, at: int, back: int) -> int:
    """How far back another tail had to go on like this, else `back`; remembers the place."""
    if at + 8 > len(data):
        return back
    words = tables[2]
    slot = np.int64(load_word(data, at) * _FACTOR >> np.uint64(64 - _SLOT_BITS))
    found = words[slot]
    words[slot] = at
    return at - found if found >= 0 else back


@inlined
def _reach(data: _Bytes, at: int, back: int, limit: int) -> int:
    """How many bytes are as they were so far back; 0 if that is out of reach."""
    return _common(data, at - back, at, min(limit, at + _MATCH_MAX)) if back <= _WINDOW else 0


@inlined
def _goes_on(data: _Bytes, at: int, back: int, end: int) -> bool:
    """Whether eight bytes from `at` on are as they were so far back."""
    if back > _WINDOW or at + 8 > end:
        return False
    return bool(load_word(data, at) == load_word(data, at - back))


@inlined
def _step(steps: _Ints, used: Any, literals: int, match: Any) -> Any:
    """Add a step; how many there are."""
    steps[used, 0] = literals
    steps[used, 1], steps[used, 2] = match
    return used + 1


@kernel
def _plan(data: _Bytes, marks: Marks, steps: _Ints, tables: _Ints) -> int:
    """Find the matches: steps of (literals, length of the match behind them, its distance).

    Returns:
        Steps; 0 if there are too many, or too many literals.
    """
    end = len(data)
    literals_max = int(_LITERALS_MAX * end)
    at = used = literals = done = cell = 0
    before, before_cell = -1, -_FAR
    for number in range(len(marks.values)):
        tail, after = _parts(data, cell, end)
        model = _model(tables, (marks.values[number], marks.kinds[number]), tail, before)
        if at < tail:
            # Head and key are as the cell before has them.
            length = _reach(data, at, cell - before_cell, tail)
            if length >= _MATCH_MIN:
                literals += at - done
                used = _step(steps, used, at - done, (length, cell - before_cell))
                done = at + length
            at = tail
        # The rest is as its model has it.
        length = _reach(data, at, model, end)
        while at < after:
            if length < _MATCH_MIN:
                # Behind a match, the model may differ in one byte only.
                if at == done and _goes_on(data, at + 1, model, end):
                    at += 1
                    length = _reach(data, at, model, end)
                    continue
                back = _elsewhere(data, tables, at, tail - before if before >= 0 else _FAR)
                length = _reach(data, at, back, end)
                if length < _MATCH_MIN:
                    at += 1
                    length = _reach(data, at, model, end)
                    continue
                model = back
            if used + 2 > len(steps):
                return 0
            literals += at - done
            used = _step(steps, used, at - done, (length, model))
            at += length
            done = at
            length = 0
        # Room is kept for two steps more, that of the next key and the last one.
        if literals + at - done > literals_max or used + 3 > len(steps):
            return 0
        before, before_cell, cell = tail, cell, after
    return int(_step(steps, used, end - done, (0, 0)))


@inlined
def _add(code: Any, bits: Any, filled: Any) -> Any:
    """Append a code."""
    return bits | ((code & PAIR) << filled), filled + (code >> PAIR_BITS)


@kernel
def _count(
    data: _Bytes,
    steps: _Ints,
    sample: tuple[int, int],
    symbols: npt.NDArray[np.int64],
    distances: npt.NDArray[np.int64],
) -> None:
    """About how often symbols occur; lengths and distances once at least.

    Literals between values are all counted. Of keys, which are long and alike, and of matches some
    are enough; where they were not, the writer finds a symbol without a code, unless every one was
    given a code.
    """
    counted, every = sample
    weight = _EVERY // counted
    for letter in range(_END):
        symbols[letter] = every
    at = 0
    for step in range(len(steps)):
        literals, length = steps[step, 0], steps[step, 1]
        chosen = step & (_EVERY - 1) < counted
        one = 1 if literals < _SHORT and not every else weight
        if chosen or one == 1:
            for place in range(np.uint64(at), np.uint64(at + literals)):
                symbols[data[place]] += one
        if chosen and length:
            symbols[_END + 1 + _LENGTH_SYMBOL[length]] += weight
            distances[_DISTANCE_SYMBOL[steps[step, 2]]] += weight
        at += literals + length


@inlined
def _flush(words: _Words, at: Any, bits: Any, filled: Any) -> Any:
    """Write the whole bytes among the bits; what is left."""
    words[at] = bits
    whole = filled & ~np.uint64(7)
    return at + (filled >> np.uint64(3)), bits >> whole, filled & np.uint64(7)


@inlined
def _head(words: _Words, symbols: _Ints, distances: _Ints) -> Any:
    """Write the head of the one block, which holds the lengths of all codes."""
    at, bits, filled = np.uint64(0), np.uint64(0), np.uint64(0)
    # The last block; codes of its own; how many there are of each kind.
    fields: Any = ((1, 1), (2, 2), (_SYMBOLS - 257, 5), (_DISTANCES - 1, 5), (_LENGTH_CODES - 4, 4))
    for value, width in fields:
        bits |= np.uint64(value) << filled
        filled += np.uint64(width)
    # Lengths are written in four bits each: of the codes for them, the three repeats have none.
    for code in range(_LENGTH_CODES):
        bits |= np.uint64(4 if code > 2 else 0) << filled
        at, bits, filled = _flush(words, at, bits, filled + np.uint64(3))
    for lengths in (symbols, distances):
        for length in lengths:
            for bit in range(4):
                one = (np.uint64(length) >> np.uint64(bit)) & np.uint64(1)
                bits |= one << (filled + np.uint64(3 - bit))
            at, bits, filled = _flush(words, at, bits, filled + np.uint64(4))
    return at, bits, filled


@inlined
def _letter(data: _Bytes, codes: _Words, at: Any, stop: Any) -> Any:
    """The code of a letter, 0 behind the end; whether it has none."""
    inside = np.uint64(at < stop)
    code = codes[data[at]]
    return code & (np.uint64(0) - inside), np.uint64(code == 0) & inside


@inlined
def _pair(data: _Bytes, pairs: npt.NDArray[np.uint32], at: Any) -> Any:
    return np.uint64(pairs[np.uint64(data[at]) | (np.uint64(data[at + _ONE]) << np.uint64(8))])


@inlined
def _put_literals(data: _Bytes, tables: Any, place: Any, state: Any) -> Any:
    """Write literals; three bytes behind them are there, too.

    Args:
        data: the block.
        tables: codes, pairs of them, and the words to write to.
        place: the first literal and what is behind the last.
        state: where to write, bits not yet written and how many, whether a code was missing.
    """
    codes, pairs, words = tables
    at, stop = place
    out, bits, filled, missing = state
    while at + _FOUR <= stop:
        first, second = _pair(data, pairs, at), _pair(data, pairs, at + _TWO)
        missing |= np.uint64(first == 0) | np.uint64(second == 0)
        width = first >> PAIR_BITS
        bits |= ((first & PAIR) | ((second & PAIR) << width)) << filled
        out, bits, filled = _flush(words, out, bits, filled + width + (second >> PAIR_BITS))
        at += _FOUR
    # Up to three are left: no branch depends on how many, since it could not be predicted.
    for ahead in (np.uint64(0), _ONE, _TWO):
        code, lost = _letter(data, codes, at + ahead, stop)
        missing |= lost
        bits, filled = _add(code, bits, filled)
    out, bits, filled = _flush(words, out, bits, filled)
    return out, bits, filled, missing


@maker
def _lengths(codes: _Words) -> _Words:
    """The codes of all lengths of matches, their extra bits included."""
    found = np.zeros(_MATCH_MAX + 1, np.uint64)
    for length in range(_MATCH_MIN, _MATCH_MAX + 1):
        symbol = _LENGTH_SYMBOL[length]
        code = codes[_END + 1 + symbol]
        width = code >> PAIR_BITS
        extra = np.uint64(length - _LENGTH_BASE[symbol]) << width
        wide = (width + np.uint64(_LENGTH_BITS[symbol])) << PAIR_BITS
        found[length] = (code & PAIR) | extra | wide
    return found


@maker
def _codes(symbols: npt.NDArray[np.int64], distances: npt.NDArray[np.int64]) -> Any:
    """Codes: their lengths, those of symbols, of two literals, of lengths, of distances."""
    widths = np.empty(_SYMBOLS, np.int32), np.empty(_DISTANCES, np.int32)
    code_lengths(symbols, widths[0])
    code_lengths(distances, widths[1])
    codes = codes_of(widths[0])
    return widths, codes, pairs_of(codes), _lengths(codes), codes_of(widths[1])


@kernel
def _write(data: _Bytes, steps: _Ints, words: _Words, coded: Any) -> Any:
    """Write the stream: its size in bytes, -1 if a literal has no code.

    `words` is the eight bytes from each place on, `coded` comes from `_codes`.
    """
    widths, codes, pairs, lengths, far = coded
    tables = codes, pairs, words
    out, bits, filled = _head(words, widths[0], widths[1])
    at: Any = np.uint64(0)
    missing: Any = np.uint64(0)
    last = len(steps) - 1
    for step in range(last):
        stop = at + np.uint64(steps[step, 0])
        state = out, bits, filled, missing
        out, bits, filled, missing = _put_literals(data, tables, (at, stop), state)
        length, distance = steps[step, 1], steps[step, 2]
        at = stop + np.uint64(length)
        bits, filled = _add(lengths[length], bits, filled)
        symbol = _DISTANCE_SYMBOL[distance]
        bits, filled = _add(far[symbol], bits, filled)
        bits |= np.uint64(distance - _DISTANCE_BASE[symbol]) << filled
        filled += np.uint64(_DISTANCE_BITS[symbol])
        out, bits, filled = _flush(words, out, bits, filled)
    for _ in range(steps[last, 0]):
        code = codes[data[at]]
        missing |= np.uint64(code == 0)
        bits, filled = _add(code, bits, filled)
        out, bits, filled = _flush(words, out, bits, filled)
        at += _ONE
    if missing:
        return -1
    bits, filled = _add(codes[_END], bits, filled)
    words[out] = bits
    return np.int64(out + ((filled + np.uint64(7)) >> np.uint64(3)))
