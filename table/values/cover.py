"""How runs cover base files.

The values of a base file follow from a chain of runs: from a slice of its file group whose values
are all there, over the slices after it, to the file. A file that no chain reaches, as after a write
of Hudi's, is not covered.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from keymark.table.layout.model import BaseFile
from keymark.table.values.runs import FilesOfRun, files_of_entries

R = TypeVar("R", bound=FilesOfRun)


@dataclass(frozen=True, slots=True)
class Link:
    """A base file in a chain: the number of the run, and of the file in it."""

    run: int
    file: int
    before: str


@dataclass(frozen=True, slots=True)
class Chains:
    """How runs cover base files.

    `links` has, by partition path and name, the files that a chain leads to.
    """

    links: dict[tuple[str, str], Link]

    @classmethod
    def of(cls, runs: Sequence[FilesOfRun]) -> Chains:
        """The shortest chain of each file that runs cover.

        While a writer replaces runs by one, some of them are gone already and others are there with
        it: then a file has several links, of which not all lead on.
        """
        links: dict[tuple[str, str], Link] = {}
        after: dict[tuple[str, str], list[tuple[tuple[str, str], Link]]] = {}
        for number, run in enumerate(runs):
            for place, file in enumerate(run.files):
                link, key = Link(number, place, file.before), (file.partition_path, file.name)
                if file.before:
                    after.setdefault((file.partition_path, file.before), []).append((key, link))
                else:
                    links.setdefault(key, link)
        reached = list(links)
        # Breadth first: what is reached is appended.
        for before in reached:
            for key, link in after.get(before, ()):
                if key not in links:
                    links[key] = link
                    reached.append(key)
        return cls(links)

    def of_file(self, partition_path: str, name: str) -> tuple[Link, ...]:
        """The links of a base file, the oldest first; none where it is not covered."""
        chain: list[Link] = []
        while (link := self.links.get((partition_path, name))) is not None:
            chain.append(link)
            if not link.before:
                break
            name = link.before
        return tuple(reversed(chain))


@dataclass(frozen=True, slots=True)
class Cover(Generic[R]):
    """How runs cover some files.

    Attributes:
        runs: the runs.
        group: by run, for each of its files the number of the file that it leads to; -1 for none.
        order: by run, for each of its files its place in the chain.
        uncovered: for each of the files whether no chain leads to it.
    """

    runs: Sequence[R]
    group: list[npt.NDArray[np.int64]]
    order: list[npt.NDArray[np.int64]]
    uncovered: npt.NDArray[np.bool_]

    @classmethod
    def of(cls, files: Sequence[BaseFile], runs: Sequence[R]) -> Cover[R]:
        """How runs cover the files of a snapshot."""
        chains = Chains.of(runs)
        group = [np.full(len(run.files), -1) for run in runs]
        order = [np.zeros(len(run.files), np.int64) for run in runs]
        uncovered = np.zeros(len(files), bool)
        for number, file in enumerate(files):
            chain = chains.of_file(file.partition_path, file.name)
            uncovered[number] = not chain
            for place, link in enumerate(chain):
                group[link.run][link.file] = number
                order[link.run][link.file] = place
        return cls(runs, group, order, uncovered)

    def files_of(self, number: int) -> npt.NDArray[np.int64]:
        """The files of a run that lead to one of those covered, by their place in it."""
        return np.flatnonzero(self.group[number] >= 0)

    def placed(self, number: int, entries: pa.Table) -> pa.Table:
        """The entries of a run that count, as `present` takes them."""
        files = files_of_entries(self.runs[number], entries)
        group = self.group[number][files]
        placed = pa.table(
            {
                "group": group,
                "value": entries["value"],
                "order": self.order[number][files],
                "gone": entries["gone"],
            }
        )
        return placed.filter(pa.array(group >= 0))


def no_entries(kind: pa.DataType) -> pa.Table:
    """No entries, as `present` takes them."""
    fields = [("group", pa.int64()), ("value", kind), ("order", pa.int64()), ("gone", pa.bool_())]
    return pa.schema(fields).empty_table()


def present(entries: pa.Table) -> pa.Table:
    """The values that base files hold.

    Args:
        entries: columns group, value, order and gone: entries of the files of each chain, with the
            place of the file in its chain.

    Returns:
        Columns group and value, each pair once.
    """
    if not pc.max(entries["order"]).as_py():
        # All are of files whose values are all there, each of them once.
        return entries.select(["group", "value"])
    # The latest of the entries for one value counts.
    there = pc.cast(pc.invert(entries["gone"]), pa.int64())
    rank = pc.add(pc.multiply(entries["order"], 2), there)
    ranked = pa.table({"group": entries["group"], "value": entries["value"], "rank": rank})
    latest = ranked.group_by(["group", "value"]).aggregate([("rank", "max")])
    held = pc.equal(pc.bit_wise_and(latest["rank_max"], 1), 1)
    return latest.filter(held).select(["group", "value"])
