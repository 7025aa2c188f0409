"""What a few files tell about all: footers of base files, and trailers of the record index."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import mean

from keymark.table.errors import TableError
from keymark.table.format.bloom.filter import DYNAMIC
from keymark.table.format.bloom.text import BloomText
from keymark.table.format.hfile.reader import HFileReader
from keymark.table.format.parquet.base_file import BaseFileFooter, read_footer
from keymark.table.storage.storage import RangeReader, ReadsRanges, Storage, WindowReader
from keymark.table.survey.listing import ListedFile
from keymark.table.survey.model import FilterFacts, KeyFacts

FOOTERS = 5
SHARDS = 3

_UUID = re.compile(r"(?i)[0-9a-f]{8}-[0-9a-f]{4}-([0-9a-f])[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}")
_UUID_VERSIONS = ("4", "7")
_NUMBER = re.compile(r"[0-9]{1,38}")
_APART = 2 / 3


@dataclass(frozen=True, slots=True)
class SampledFile:
    """A base file with what its footer says."""

    file: ListedFile
    footer: BaseFileFooter

    @property
    def filter_bytes(self) -> int:
        """Bytes of its bloom filter, as the footer has it."""
        return len(self.footer.bloom_text or b"")


def spread(files: Sequence[ListedFile], count: int) -> list[ListedFile]:
    """The largest file and others, evenly spread over the paths."""
    ordered = sorted(files, key=lambda file: file.path)
    if len(ordered) <= count:
        return ordered
    chosen = {max(ordered, key=lambda file: file.size)}
    steps = count - len(chosen)
    chosen.update(
        ordered[place * (len(ordered) - 1) // max(steps - 1, 1)] for place in range(steps)
    )
    return sorted(chosen, key=lambda file: file.path)


def opened(storage: Storage, file: ListedFile) -> RangeReader:
    """A file for ranged reads, without a request for the size that its listing tells."""
    if isinstance(storage, ReadsRanges):
        return WindowReader(file.path, file.size, storage.read_range)
    return storage.open(file.path)


def read_footers(
    storage: Storage, files: Sequence[ListedFile], problems: list[str]
) -> list[SampledFile]:
    """The footers of some base files; what cannot be read becomes a problem."""
    found = []
    for file in spread(files, FOOTERS):
        try:
            found.append(SampledFile(file, read_footer(opened(storage, file), misplaced=True)))
        except (TableError, FileNotFoundError) as error:
            problems.append(f"a base file was left out: {error}")
    return found


def key_facts(fields: Sequence[str], sampled: Sequence[SampledFile]) -> KeyFacts:
    """The record keys, by the smallest and the largest of each sampled file."""
    ranges = sorted(
        (each.footer.min_key, each.footer.max_key)
        for each in sampled
        if each.footer.min_key is not None and each.footer.max_key is not None
    )
    keys = [key for pair in ranges for key in pair]
    after = list(pairwise(ranges))
    apart = sum(first[1] < second[0] for first, second in after)
    return KeyFacts(
        fields=tuple(fields),
        mean_bytes=mean(len(key.encode()) for key in keys) if keys else None,
        shape=_shape(keys),
        ordered=apart >= _APART * len(after) if after else None,
    )


def _shape(keys: Sequence[str]) -> str:
    versions = {match[1] if (match := _UUID.fullmatch(key)) else "" for key in keys}
    if versions and "" not in versions:
        version = versions.pop() if len(versions) == 1 else ""
        return f"uuid{version}" if version in _UUID_VERSIONS else "uuid"
    if keys and all(_NUMBER.fullmatch(key) for key in keys):
        return "number"
    return "text" if keys else "unknown"


def filter_facts(sampled: Sequence[SampledFile], problems: list[str]) -> FilterFacts | None:
    """The fullest bloom filter of the sampled files; None where they have none."""
    found = []
    for each in sampled:
        text = each.footer.bloom_text
        if text is None or not each.footer.num_rows:
            continue
        try:
            parsed = BloomText.parse(text, each.footer.bloom_type, each.file.path)
        except TableError as error:
            problems.append(f"a bloom filter was left out: {error}")
            continue
        found.append(
            FilterFacts(
                type_code=each.footer.bloom_type,
                bytes=len(text),
                rows=each.footer.num_rows,
                false_positives=_passed(parsed, each.footer),
            )
        )
    return max(found, key=lambda each: each.false_positives, default=None)


def _passed(filter_: BloomText, footer: BaseFileFooter) -> float:
    """The share of absent keys that a filter lets pass: (1 - e^(-k*n/m))^k for each of its rows.

    A filter of type DYNAMIC_V0 has rows of bits, among which the keys are dealt out; a key passes
    when it passes one of them.
    """
    bits, hashes = filter_.shape
    rows = len(filter_.starts) if footer.bloom_type == DYNAMIC else 1
    filled = -math.expm1(-hashes * footer.num_rows / rows / bits)
    return float(1 - (1 - filled**hashes) ** rows)


def entry_bytes(storage: Storage, files: Sequence[ListedFile], problems: list[str]) -> float | None:
    """Bytes of an entry of the record index, by the trailers of some of its base files."""
    entries = size = 0
    for file in spread(files, SHARDS):
        try:
            entries += HFileReader(opened(storage, file)).entry_count
            size += file.size
        except (TableError, FileNotFoundError) as error:
            problems.append(f"a shard of the record index was left out: {error}")
    return size / entries if entries else None
