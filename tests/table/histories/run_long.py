"""Thousands of random histories: resumed where they stopped, every failure with its seed.

    python tests/table/histories/run_long.py --histories 3000 --minutes 20
    python tests/table/histories/run_long.py --seed 1 --only 73
    python tests/table/histories/run_long.py --histories 60 --index compact
    python tests/table/histories/run_long.py --histories 500 --everything

Figures so far are in the file that --state names; the same command resumes from there.
"""

# ruff: noqa: T201

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
import traceback
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass, field
from multiprocessing import get_context
from pathlib import Path

ROOT = Path(__file__).parents[3]
for folder in ("tests/table/histories", "tests/table", "tests", "."):
    sys.path.insert(0, str(ROOT / folder))

from history_run import Figures, run_history  # noqa: E402  after the path to it

_SAVED_SECONDS = 10


@dataclass
class State:
    """What a run has done; `done` are the numbers of its histories, `failed` number -> error.

    `index` is that of all tables; each history chooses one if it is empty. `everything` is as
    `run_history` takes it.
    """

    seed: int
    commit: str
    index: str = ""
    everything: bool = False
    seconds: float = 0.0
    done: list[int] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)
    figures: Figures = field(default_factory=Figures)

    @classmethod
    def load(cls, path: Path, given: argparse.Namespace) -> State:
        """The state of what is asked and of this commit, or a new one."""
        new = cls(given.seed, commit(), given.index, given.everything)
        if not path.exists():
            return new
        found = json.loads(path.read_text())
        asked = ("seed", "commit", "index", "everything")
        if [found.get(name) for name in asked] != [getattr(new, name) for name in asked]:
            return new
        figures = Figures()
        figures.histories = found["figures"]["histories"]
        for name in ("steps", "events", "checks"):
            getattr(figures, name).update(found["figures"][name])
        return cls(**{**found, "figures": figures})

    def save(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        beside = path.with_suffix(".new")
        beside.write_text(json.dumps(vars(self) | {"figures": vars(self.figures)}))
        beside.replace(path)


def commit() -> str:
    """The commit that is tested, with a + where files differ from it."""
    asked = ["git", "-C", str(ROOT), "describe", "--always", "--dirty=+"]
    return subprocess.run(asked, capture_output=True, text=True, check=False).stdout.strip()


def one(seed: int, number: int, index: str, everything: bool) -> tuple[int, Figures | None, str]:
    """Run one history; its figures, or what went wrong."""
    try:
        return number, run_history(f"{seed}/{number}", index=index, everything=everything), ""
    except BaseException:  # noqa: BLE001  whatever it is, it is the finding
        return number, None, traceback.format_exc()


def finished(state: State, numbers: Iterator[int], workers: int, until: float) -> Iterator[None]:
    """Run histories until none is left or time is up; yields after each."""
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        running: set[Future] = set()
        while True:
            while len(running) < 2 * workers and time.monotonic() < until:
                number = next(numbers, None)
                if number is None:
                    break
                asked = (state.seed, number, state.index, state.everything)
                running.add(pool.submit(one, *asked))
            if not running:
                return
            ended, running = wait(running, return_when=FIRST_COMPLETED)
            for future in ended:
                number, figures, error = future.result()
                state.done.append(number)
                if figures is None:
                    state.failed[str(number)] = error
                    print(f"\nFAILED {number}: {error}\n  again: {again(state, number)}")
                else:
                    state.figures.add(figures)
                yield


def again(state: State, number: int) -> str:
    command = f"TZ=UTC .venv/bin/python {Path(__file__).relative_to(ROOT)}"
    index = f" --index {state.index}" if state.index else ""
    index += " --everything" if state.everything else ""
    return f"{command} --seed {state.seed}{index} --only {number}"


def run(state: State, path: Path, given: argparse.Namespace) -> None:
    done = set(state.done)
    numbers = iter([n for n in range(given.histories) if n not in done])
    started = saved = time.monotonic()
    before = state.seconds
    until = started + given.minutes * 60 if given.minutes else float("inf")
    for made, _ in enumerate(finished(state, numbers, given.workers, until), 1):
        now = time.monotonic()
        state.seconds = before + now - started
        if now - saved > _SAVED_SECONDS:
            saved = now
            state.save(path)
            rate = made / (now - started)
            left = min((given.histories - len(state.done)) / rate, until - now)
            print(
                f"{len(state.done)}/{given.histories} histories, {len(state.failed)} failed, "
                f"{rate:.1f}/s, {left / 60:.0f} min left",
                flush=True,
            )
    state.save(path)


def report(state: State, workers: int) -> str:
    """The figures as Markdown."""
    figures = state.figures
    minutes, steps = state.seconds / 60, sum(figures.steps.values())
    checks = sum(figures.checks.values())
    lines = [
        f"- seed {state.seed}, commit {state.commit}, {workers} processes, {minutes:.1f} minutes",
        f"- **{len(state.done):,} histories, {len(state.failed)} failed**",
        f"- {steps:,} steps, {checks:,} checks",
        "",
    ]
    for title in ("steps", "events", "checks"):
        lines += [f"| {title} | |", "|---|---:|"]
        lines += [
            f"| {name} | {count:,} |" for name, count in getattr(figures, title).most_common()
        ]
        lines.append("")
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--histories", type=int, default=3000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=0, help="stop then; 0 for no limit")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--only", type=int, help="run this one history, in this process")
    parser.add_argument("--index", default="", help="of all tables; by default each draws one")
    parser.add_argument(
        "--everything",
        action="store_true",
        help="longer histories, in which re-shardings and secondary indexes come often",
    )
    parser.add_argument("--state", type=Path, default=ROOT / "runs/histories.json")
    given = parser.parse_args()
    if given.only is not None:
        one_of_all = f"{given.seed}/{given.only}"
        run_history(one_of_all, index=given.index, everything=given.everything)
        return 0
    state = State.load(given.state, given)
    if state.done:
        print(f"going on after {len(state.done)} histories")
    run(state, given.state, given)
    print(report(state, given.workers))
    for number in state.failed:
        print(f"again: {again(state, int(number))}")
    return bool(state.failed)


if __name__ == "__main__":
    sys.exit(main())
