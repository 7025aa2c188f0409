"""What runs of hashes say about keys: the base files that may hold them.

The compact index relies on it. So does the record index, where such runs stand beside it: keys that
certainly are in no file need not be looked for in its shards.
"""

from __future__ import annotations

from functools import partial

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from keymark.indexes.installed import of_key_runs
from keymark.indexes.shared.damage import warn_of_damage
from keymark.indexes.shared.key_proof import KeyCandidates
from keymark.table.errors import CorruptFileError
from keymark.table.format.compact.kernels import PAGE
from keymark.table.format.compact.writer import hashes_of
from keymark.table.index.protocol import IndexContext
from keymark.table.values.cover import Cover
from keymark.table.values.hash_runs import HashSearch, find_hashes, load_hash_runs
from keymark.table.values.runs import ask_again

# Some ten milliseconds of a core.
_HASHES_PER_TASK = 1 << 16

_Numbers = npt.NDArray[np.int64]


def candidates(keys: pa.Array, context: IndexContext) -> tuple[KeyCandidates, _Numbers] | None:
    """The base files that may hold keys, and the numbers of those that no run covers.

    Returns:
        None where the runs are damaged, with a warning once, or were replaced at each look.
    """
    try:
        return ask_again(partial(_ask_runs, keys, context))
    except CorruptFileError as error:
        warn_of_damage(of_key_runs("hashes").name, error, context)
        return None


def rows_that_may_be_there(keys: pa.Array, context: IndexContext) -> _Numbers | None:
    """The rows of keys that have a candidate, ascending.

    Returns:
        None where the table keeps no runs of hashes, or they do not cover every file.
    """
    found = candidates(keys, context) if context.config.key_runs == "hashes" else None
    if found is None or len(found[1]):
        return None
    rows: _Numbers = np.unique(found[0].rows)
    return rows


def _ask_runs(keys: pa.Array, context: IndexContext) -> tuple[KeyCandidates, _Numbers]:
    """The answer of `candidates`.

    Raises:
        CorruptFileError: a run is damaged.
        FileNotFoundError: a writer deleted one meanwhile.
    """
    files = context.snapshot.files
    runs = load_hash_runs(context.storage)
    cover = Cover.of(files, runs)
    hashes = hashes_of(keys)
    order = np.argsort(hashes)
    hashes = hashes[order]
    searches = [
        (number, start)
        for number in range(len(runs))
        if (cover.group[number] >= 0).any()
        for start in range(0, len(hashes), _HASHES_PER_TASK)
    ]
    works = [
        HashSearch(context.storage, runs[number].path, hashes[start : start + _HASHES_PER_TASK])
        for number, start in searches
    ]
    weights = [
        min(runs[number].size, PAGE * len(work.hashes))
        for (number, _), work in zip(searches, works, strict=True)
    ]
    answers = context.runner.run(find_hashes, works, weights=weights)
    context.stats.shards_read += len({number for number, _ in searches})
    pairs, stretches = [np.empty(0, np.int64)], [np.empty(0, np.int32)]
    for (number, start), answer in zip(searches, answers, strict=True):
        rows, places = order[start + answer.rows], cover.group[number][answer.groups]
        # What the run says about a file that is not current does not count.
        pairs.append((rows * len(files) + places)[places >= 0])
        stretches.append(answer.stretches[places >= 0])
    joined = np.concatenate(pairs), np.concatenate(stretches)
    return KeyCandidates.of_pairs(*joined, len(files)), np.flatnonzero(cover.uncovered)
