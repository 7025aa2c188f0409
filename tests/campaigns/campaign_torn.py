"""Files of the newest commits are emptied, cut or gone; `table recover` brings the rest back.

Whatever is torn, a read before it ends in a typed error or in a right answer. Afterwards the table
is exactly what it was after some commit, and every commit before the first torn one is in it.
"""

from __future__ import annotations

import random
import shutil
from collections.abc import Sequence
from pathlib import Path

from campaign import Outcome
from table_cases import MOVES, by_hudi_rs, by_listing, create, left_over, rows

from keymark import Table
from keymark.table.errors import TableError

STEPS, TORN_STEPS, CASES = 6, 3, 300
SHAPES = {
    "record": {"index": "record"},
    "bloom": {"index": "global_bloom"},
    "compacted": {"index": "record"},
}
OPTIONS = {
    "record": {MOVES: "true"},
    "bloom": {},
    # Compaction and cleaning happen among the commits that are torn.
    "compacted": {
        "hoodie.metadata.compact.max.delta.commits": "2",
        "hoodie.cleaner.commits.retained": "3",
        "hoodie.metadata.index.column.stats.enable": "true",
    },
}


def build(shape: str, folder: Path) -> list[Path]:
    """A table of six commits, a copy of it after each."""
    table = create(folder / "t", OPTIONS[shape], **SHAPES[shape])
    copies = []
    for step in range(STEPS):
        if step == 0:
            table.bulk_insert(rows(range(9)))
        elif step == 3:
            table.delete(["k2", "k7"])
        else:
            table.upsert(rows(range(step, step + 5), ts=step, value=f"s{step}"))
        copies.append(shutil.copytree(folder / "t", folder / f"after-{step}"))
    return copies


def stored(root: Path) -> dict[str, bytes]:
    """The files of a table without those that nobody has to find again."""
    return {
        str(path.relative_to(root)): path.read_bytes()
        for path in root.rglob("*")
        if path.is_file() and "/.keymark/" not in str(path) and "/.temp/" not in str(path)
    }


def tear(root: Path, name: str, chosen: random.Random) -> None:
    """Empty a file, cut it, fill its end with zeros, or take it away."""
    path = root / name
    if not path.exists():
        return
    data, how = path.read_bytes(), chosen.choice(("empty", "cut", "zeros", "gone"))
    at = chosen.randrange(len(data)) if data else 0
    if how == "gone" and not name.endswith("hoodie.properties"):
        path.unlink()
    else:
        path.write_bytes(data[:at] + (b"\0" * (len(data) - at) if how == "zeros" else b""))
        if how == "empty":
            path.write_bytes(b"")


def answer(root: Path) -> dict[str, str]:
    """Key -> value, as a scan reads the table."""
    found: dict[str, str] = {}
    for part in Table.open(str(root)).scan().tables():
        found.update(zip(part["k"].to_pylist(), part["v"].to_pylist(), strict=True))
    return found


class TornTables:
    """The campaign."""

    seed = 3
    seconds = 120.0
    share = 3

    def cases(self) -> Sequence[str]:
        """Each shape in turn."""
        return [f"{shape}-{number}" for number in range(CASES // 3) for shape in SHAPES]

    def run(self, case: str, folder: Path) -> Outcome:
        """Tear a subset of the files of the last commits, recover, compare with the copies."""
        shape = case.partition("-")[0]
        chosen = random.Random(f"{self.seed} {case}")
        copies, outcome, root = build(shape, folder), Outcome(), folder / "t"
        files = [stored(copy) for copy in copies]
        wanted = [{key: v[3] for key, (_, v) in by_listing(copy).items()} for copy in copies]
        first = STEPS - chosen.randint(1, TORN_STEPS)
        fresh = [n for n, data in files[-1].items() if files[first - 1].get(n) != data]
        fresh = sorted(n for n in fresh if not n.endswith("hoodie.properties"))
        torn = chosen.sample(fresh, chosen.randint(1, len(fresh)))
        for name in torn:
            tear(root, name, chosen)
        try:
            found = answer(root)
            # An instant that is gone was never completed, for all that a reader can know.
            right = found in wanted
            outcome.counts["reads before: right" if right else "reads before: WRONG"] += 1
            if not right:
                outcome.failures.append(f"{case}: the read before is wrong, torn: {torn}")
        except TableError as error:
            outcome.counts["reads before: refused"] += 1
            if "table recover PATH" not in str(error):
                outcome.failures.append(f"{case}: the error names no remedy: {error}")
        report = Table.recover(str(root))
        outcome.counts["metadata " + report.metadata] += 1
        found = answer(root)
        reached = [number for number, rows_then in enumerate(wanted) if rows_then == found]
        if not reached:
            outcome.failures.append(f"{case}: the rows are those of no commit, torn: {torn}")
        elif max(reached) < first - 1:
            outcome.failures.append(f"{case}: it went back further than what is torn: {torn}")
        outcome.counts[f"commits given up: {STEPS - 1 - max(reached, default=0)}"] += 1
        self._check(case, root, outcome)
        return outcome

    def _check(self, case: str, root: Path, outcome: Outcome) -> None:
        """The table is in order, for others too, and can be written to."""
        table = Table.open(str(root))
        if not table.check().ok:
            outcome.failures.append(f"{case}: the check finds {table.check()}")
        if Table.recover(str(root)).done:
            outcome.failures.append(f"{case}: a second recovery finds something to do")
        # An instant whose last file is gone was begun and never completed: writes take it back.
        table.upsert(rows([0, 99], ts=99))
        left = [path for path in left_over(root) if "/.keymark/torn/" not in path]
        if left:
            outcome.failures.append(f"{case}: left over {left}")
        keys = sorted(key for key, _, _ in by_hudi_rs(root))
        if keys != sorted(by_listing(root)) or set(keys) != set(answer(root)):
            outcome.failures.append(f"{case}: hudi-rs reads {keys}")
        outcome.counts["tables recovered"] += 1


CAMPAIGN = TornTables()
