"""A hundred drawn tables through Keymark and Hudi: resumed where they stopped, failures by seed.

    python tests/interop/run_generated.py --tables 100 --minutes 60
    python tests/interop/run_generated.py --only 7
    python tests/interop/run_generated.py --tables 100 --hudi 1.2.0

The odd tables are judged by one release, the even ones by the other, side by side; with --hudi all
by one. Figures so far are in the file that --state names; the same command resumes from there.
"""

# ruff: noqa: T201

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parents[2]
for folder in ("tests/interop", "tests/table", "tests", "."):
    sys.path.insert(0, str(ROOT / folder))

from generated_tables import Figures, run_table  # noqa: E402  after the path to it
from hudi_judge import VERSIONS, Hudi  # noqa: E402

from keymark.harness.engines.jars import bundle  # noqa: E402


@dataclass
class State:
    """What a run has done; `done` are the numbers of its tables, `failed` number -> differences."""

    seed: int
    commit: str
    versions: list[str]
    seconds: float = 0.0
    done: list[int] = field(default_factory=list)
    failed: dict[str, list[str]] = field(default_factory=dict)
    figures: Figures = field(default_factory=Figures)

    @classmethod
    def load(cls, path: Path, seed: int, versions: list[str]) -> State:
        """The state of that seed, commit and releases of Hudi, or a new one."""
        new = cls(seed, commit(), versions)
        if not path.exists():
            return new
        found = json.loads(path.read_text())
        asked = ("seed", "commit", "versions")
        if [found.get(name) for name in asked] != [getattr(new, name) for name in asked]:
            return new
        counts = {name: Counter(found["figures"].pop(name)) for name in ("steps", "shapes")}
        return cls(**{**found, "figures": Figures(**found["figures"], **counts)})

    def save(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        beside = path.with_suffix(".new")
        beside.write_text(json.dumps(vars(self) | {"figures": vars(self.figures)}))
        beside.replace(path)

    def add(self, number: int, figures: Figures, differences: list[str]) -> None:
        """Take over what a table gave."""
        self.done.append(number)
        if differences:
            self.failed[str(number)] = differences
        for name in ("tables", "rows", "keys_in_index", "comparisons", "secondary"):
            setattr(self.figures, name, getattr(self.figures, name) + getattr(figures, name))
        self.figures.steps.update(figures.steps)
        self.figures.shapes.update(figures.shapes)


def commit() -> str:
    """The commit that is tested, with a + where files differ from it."""
    asked = ["git", "-C", str(ROOT), "describe", "--always", "--dirty=+"]
    return subprocess.run(asked, capture_output=True, text=True, check=False).stdout.strip()


def one(hudi: Hudi, seed: int, number: int) -> tuple[Figures, list[str]]:
    """Make one table; its figures and its differences, of which an exception is one."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            return run_table(hudi, f"{seed}/{number}", Path(folder))
        except Exception:  # noqa: BLE001  whatever it is, it is the finding
            return Figures(tables=1), [traceback.format_exc()]


def run(state: State, path: Path, *, wanted: list[int], until: float) -> None:
    """Make the wanted tables that are not done yet, all releases at the same time."""
    turn = threading.Lock()

    def take(number: int, version: str, seconds: float, given: tuple[Figures, list[str]]) -> None:
        with turn:
            state.add(number, *given)
            state.seconds += seconds
            state.save(path)
            verdict = "\n".join(given[1]) or "no difference"
            print(f"{number} hudi {version} {seconds:.0f} s: {verdict}", flush=True)

    def ask(version: str) -> None:
        count, at = len(state.versions), state.versions.index(version)
        left = [n for n in wanted if n % count == at and n not in state.done]
        if not left:
            return
        with tempfile.TemporaryDirectory() as folder:
            hudi = Hudi(version, bundle(version), Path(folder))
            for number in left:
                if time.monotonic() > until:
                    break
                begun = time.monotonic()
                given = one(hudi, state.seed, number)
                take(number, version, time.monotonic() - begun, given)
                if given[1]:
                    # It may have died of it.
                    hudi.close()
                    hudi = Hudi(version, bundle(version), Path(folder))
            hudi.close()

    with ThreadPoolExecutor(len(state.versions)) as threads:
        list(threads.map(ask, state.versions))


def main() -> int:
    """The command line; 1 if there are differences."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tables", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", type=int)
    parser.add_argument("--hudi", nargs="+", default=list(VERSIONS), help="releases that judge")
    parser.add_argument("--minutes", type=float, default=24 * 60)
    parser.add_argument("--state", type=Path, default=ROOT / "runs/generated.json")
    given = parser.parse_args()
    state = State.load(given.state, given.seed, given.hudi)
    wanted = list(range(given.tables))
    if given.only is not None:
        wanted, state = [given.only], State(given.seed, commit(), given.hudi)
        given.state = given.state.with_suffix(".only.json")
    run(state, given.state, wanted=wanted, until=time.monotonic() + 60 * given.minutes)
    print(json.dumps(vars(state) | {"figures": vars(state.figures)}, indent=1))
    return 1 if state.failed else 0


if __name__ == "__main__":
    sys.exit(main())
