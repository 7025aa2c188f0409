"""Canonical Huffman codes of limited length, as Deflate wants them (RFC 1951, 3.2.2)."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from keymark.table.format.kernels.compiled import maker

# Deflate allows 15. With 13, the codes of four literals fit the 57 bits that are free at a time.
CODE_MAX = 13
# A code, or two, and above them their length in bits.
PAIR_BITS = np.uint64(26)
PAIR = np.uint64((1 << 26) - 1)


@maker
def _depths(weights: npt.NDArray[np.int64], depths: npt.NDArray[np.int32]) -> None:
    """How deep leaves lie in a Huffman tree; weights ascend, and have room for the inner nodes."""
    count = len(depths)
    parents = np.zeros(2 * count, np.int32)
    below = np.zeros(2 * count, np.int32)
    leaf, inner = 0, count
    # Inner nodes come out in the order of their weights, too.
    for made in range(count, 2 * count - 1):
        weights[made] = 0
        for _ in range(2):
            if inner >= made or (leaf < count and weights[leaf] <= weights[inner]):
                child = leaf
                leaf += 1
            else:
                child = inner
                inner += 1
            weights[made] += weights[child]
            parents[child] = made
    for node in range(2 * count - 3, -1, -1):
        below[node] = below[parents[node]] + 1
    depths[:] = below[:count]


@maker
def code_lengths(counts: npt.NDArray[np.int64], lengths: npt.NDArray[np.int32]) -> None:
    """Lengths of Huffman codes of limited length; 0 where a symbol does not occur.

    Two symbols occur at least.
    """
    order = np.argsort(counts)
    order = order[np.searchsorted(counts[order], 1) :]
    weights = np.empty(2 * len(order), np.int64)
    weights[: len(order)] = counts[order]
    depths = np.empty(len(order), np.int32)
    _depths(weights, depths)
    of_length = np.zeros(CODE_MAX + 1, np.int64)
    total = 0
    for depth in np.minimum(depths, CODE_MAX):
        of_length[depth] += 1
        total += 1 << (CODE_MAX - depth)
    # Codes cut to the limit overfill the tree: move others down until all fit.
    while total > 1 << CODE_MAX:
        length = CODE_MAX - 1
        while not of_length[length]:
            length -= 1
        of_length[length] -= 1
        of_length[length + 1] += 2
        of_length[CODE_MAX] -= 1
        total -= 1
    lengths[:] = 0
    place = 0
    for length in range(CODE_MAX, 0, -1):
        for _ in range(of_length[length]):
            lengths[order[place]] = length
            place += 1


@maker
def codes_of(lengths: npt.NDArray[np.int32]) -> npt.NDArray[np.uint64]:
    """Canonical codes, bits reversed as the stream wants them: code and, 26 bits up, its length."""
    count = np.zeros(CODE_MAX + 1, np.int64)
    for length in lengths:
        count[length] += 1
    count[0] = 0
    first = np.zeros(CODE_MAX + 1, np.int64)
    for length in range(1, CODE_MAX + 1):
        first[length] = (first[length - 1] + count[length - 1]) << 1
    codes = np.zeros(len(lengths), np.uint64)
    for symbol in range(len(lengths)):
        length = lengths[symbol]
        value = first[length]
        first[length] += 1
        reverse = 0
        for bit in range(length):
            reverse |= ((value >> bit) & 1) << (length - 1 - bit)
        codes[symbol] = np.uint64(reverse) | (np.uint64(length) << PAIR_BITS)
    return codes


@maker
def pairs_of(codes: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint32]:
    """The codes of each two literals as one: codes and, 26 bits up, their length; 0 for none."""
    pairs = np.empty((256, 256), np.uint32)
    # Plain numbers of 32 bits in rows: the loop over a row takes many at a time.
    low = (codes[:256] & PAIR).astype(np.uint32)
    lengths = (codes[:256] >> PAIR_BITS).astype(np.uint32)
    for second in range(256):
        after, more = low[second], lengths[second]
        row = pairs[second]
        for first in range(256):
            length = lengths[first]
            both = low[first] | (after << length) | ((length + more) << np.uint32(PAIR_BITS))
            row[first] = both if length and more else np.uint32(0)
    return pairs.reshape(1 << 16)
