"""What shape texts have: the random bits in them, their characters, how they spread.

Texts come as a sample of the keys and are looked at as matrices of characters in numpy; none leaves
this module.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import get_args

import numpy as np
import numpy.typing as npt

from keymark.datasets.columns.kind import Shape
from keymark.datasets.columns.kinds import Partition

_SHARDS = 16
_MAX_CHARACTERS = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class TextSample:
    """What a sample of one text column shows.

    Attributes:
        entropy_bits: entropy of each position's characters, summed over the positions. Positions
            may depend on each other, so it is an upper bound of what a key really holds.
        characters: of each class of characters its share and how many different ones there are;
            `hex` is a-f and 0-9, where the texts have all of these letters and no others.
        one_hash: whether different texts all have the same String.hashCode.
    """

    entropy_bits: float
    characters: dict[str, tuple[float, int]]
    one_hash: bool


def look_at(texts: Sequence[str]) -> TextSample:
    """Look at a sample of texts, which must not be empty."""
    cut = [text[:_MAX_CHARACTERS] for text in texts]
    left = _matrix(cut)
    width = left.shape[1]
    right = _matrix([text.rjust(width, "\0") for text in cut])
    hashes = java_hashes(texts)
    return TextSample(
        entropy_bits=min(_entropy(left), _entropy(right)),
        characters=_characters(left[left > 0]),
        one_hash=len(set(texts)) > 1 and bool((hashes == hashes[0]).all()),
    )


def largest_shard(texts: Sequence[str]) -> float:
    """Share of keys in the fullest of 16 shards of the record index; even is 1/16."""
    return float(np.bincount(np.abs(java_hashes(texts)) % _SHARDS).max() / len(texts))


def java_hashes(texts: Sequence[str]) -> npt.NDArray[np.int64]:
    """Java's String.hashCode of each text, over UTF-16 units."""
    units = [np.frombuffer(text.encode("utf-16-le", "surrogatepass"), "<u2") for text in texts]
    sizes = np.array([len(each) for each in units])
    matrix = np.zeros((len(units), sizes.max(initial=0)), np.uint32)
    matrix[np.arange(matrix.shape[1]) < sizes[:, None]] = np.concatenate(units)
    hashes = np.zeros(len(units), np.uint32)
    for place in range(matrix.shape[1]):
        open_ = sizes > place
        hashes[open_] = hashes[open_] * np.uint32(31) + matrix[open_, place]
    return hashes.view(np.int32).astype(np.int64)


def rank_correlation(first: Sequence[object], second: Sequence[object]) -> float | None:
    """Spearman's coefficient of two samples of comparable values; None where one is constant."""
    ranks = np.array([_ranks(first), _ranks(second)])
    if not ranks.size or not np.ptp(ranks, axis=1).all():
        return None
    return float(np.corrcoef(ranks)[0, 1])


def gini(sizes: npt.NDArray[np.int64]) -> float:
    """Gini coefficient of sizes: 0 where all are alike, near 1 where one has nearly all."""
    ascending = np.sort(sizes).astype(np.float64)
    places = np.arange(1, len(ascending) + 1)
    total = ascending.sum() * len(ascending)
    return float(((2 * places - len(ascending) - 1) * ascending).sum() / total)


def fitted(sizes: npt.NDArray[np.int64] | npt.NDArray[np.float64]) -> tuple[str, float]:
    """The name of the partition sizes that are nearest, and the share of rows that lie elsewhere.

    Args:
        sizes: rows of each partition, in the order of their values.
    """
    shape = Shape(seed=0, date_partitions=len(sizes), date_format="yyyy-MM-dd", payload_bytes=1)
    shares = sizes / sizes.sum()
    distances = {}
    for name in get_args(Partition.model_fields["sizes"].annotation):
        lots = Partition(kind="partition", sizes=name).lots(shape)
        _, counts = np.unique(lots, return_counts=True)
        model, real = counts / counts.sum(), shares
        if name == "zipf":  # the order of its days is its own
            model, real = np.sort(model), np.sort(shares)
        distances[name] = float(np.abs(model - real).sum() / 2)
    nearest = min(distances, key=lambda name: distances[name])
    return nearest, distances[nearest]


def _matrix(texts: Sequence[str]) -> npt.NDArray[np.uint32]:
    """Code points, a row for each text, 0 where it has ended."""
    array = np.array(texts, dtype=np.str_)
    width = max(array.dtype.itemsize // 4, 1)
    return array.astype(f"<U{width}").view(np.uint32).reshape(len(texts), width)


def _entropy(matrix: npt.NDArray[np.uint32]) -> float:
    total = 0.0
    for place in range(matrix.shape[1]):
        _, counts = np.unique(matrix[:, place], return_counts=True)
        shares = counts / counts.sum()
        total -= float((shares * np.log2(shares)).sum())
    return abs(total)


def _characters(points: npt.NDArray[np.uint32]) -> dict[str, tuple[float, int]]:
    """Share and number of the characters of each class."""
    values, counts = np.unique(points, return_counts=True)
    letters = {chr(value) for value in values.tolist() if chr(value).isalpha()}
    hexes = letters == set("abcdef")
    classes: dict[str, list[int]] = {}
    for place, value in enumerate(values.tolist()):
        classes.setdefault(_class(chr(value), hexes=hexes), []).append(place)
    total = max(int(counts.sum()), 1)
    return {
        name: (float(counts[places].sum() / total), len(places)) for name, places in classes.items()
    }


def _class(character: str, *, hexes: bool) -> str:
    width = len(character.encode("utf-8", "surrogatepass"))
    if width > 1:
        return f"{width} bytes"
    if not character.isalnum():
        return "other ASCII"
    if hexes:
        return "hex"
    return "0-9" if character.isdigit() else "a-z" if character.islower() else "A-Z"


def _ranks(values: Sequence[object]) -> npt.NDArray[np.float64]:
    """Ranks of values, equal ones with the mean of theirs."""
    array = np.array(values, dtype=object)
    _, inverse, counts = np.unique(array, return_inverse=True, return_counts=True)
    ends = np.cumsum(counts)
    return np.asarray(((ends - counts) + (ends - 1))[inverse] / 2.0)
