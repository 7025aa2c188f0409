"""Run fault campaigns. A run that was cut off resumes where it stopped.

    python tests/campaigns/run_campaigns.py                         all campaigns
    python tests/campaigns/run_campaigns.py errors --minutes 20     one of them, for so long
    python tests/campaigns/run_campaigns.py errors --only CASE      one case, with its traceback
    python tests/campaigns/run_campaigns.py --summary               what has been found so far

Results go to `runs/campaigns/<name>.jsonl`, a line for each case. They count as long as the code
under test (`table/`, `indexes/`) is the same; another code starts the campaign anew.
"""

# ruff: noqa: T201

from __future__ import annotations

import argparse
import importlib
import json
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
FOLDERS = ("tests/campaigns", "tests/table/histories", "tests/table", "tests/indexes", "tests", ".")
for folder in FOLDERS:
    sys.path.insert(0, str(ROOT / folder))

from campaign import Campaign, Outcome  # noqa: E402  after the path to it

SHM = Path("/dev/shm")


class HangError(BaseException):
    """A case took longer than it may. No handler for errors may swallow this."""


@dataclass(frozen=True)
class Result:
    """One case that was run."""

    case: str
    seconds: float
    counts: dict[str, int]
    failures: list[str]


def load(name: str) -> Campaign:
    """The campaign of that name."""
    found: Campaign = importlib.import_module(f"campaign_{name}").CAMPAIGN
    return found


def names() -> list[str]:
    """All campaigns, by the modules that hold them."""
    found = Path(__file__).parent.glob("campaign_*.py")
    return sorted(path.stem.removeprefix("campaign_") for path in found)


def run_case(name: str, case: str) -> Result:
    """Run one case in a folder of its own; a hang and an unexpected error are failures."""
    campaign = load(name)
    folder = Path(tempfile.mkdtemp(prefix="campaign-", dir=SHM if SHM.is_dir() else None))
    started = time.monotonic()
    signal.signal(signal.SIGALRM, _hang)
    signal.setitimer(signal.ITIMER_REAL, campaign.seconds)
    try:
        outcome = campaign.run(case, folder)
    except HangError:
        outcome = Outcome(failures=[f"{case}: still running after {campaign.seconds:.0f} s"])
    except Exception:  # noqa: BLE001  whatever it is, it is the finding
        outcome = Outcome(failures=[f"{case}: {traceback.format_exc()}"])
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        subprocess.run(["chmod", "-R", "u+rwX", str(folder)], check=False, capture_output=True)
        shutil.rmtree(folder, ignore_errors=True)
    seconds = time.monotonic() - started
    return Result(case, seconds, dict(outcome.counts), outcome.failures)


def _hang(*_: object) -> None:
    raise HangError


def code_under_test() -> str:
    """The commit, and `+` where `table/` or `indexes/` differ from it; then their tree ids."""
    trees = _git("rev-parse", "HEAD:table", "HEAD:indexes").split()
    dirty = "+" if _git("status", "--porcelain", "--", "table", "indexes") else ""
    return f"{' '.join(tree[:12] for tree in trees)}{dirty}"


def _git(*arguments: str) -> str:
    asked = ["git", "-C", str(ROOT), *arguments]
    return subprocess.run(asked, capture_output=True, text=True, check=False).stdout.strip()


def resume(path: Path, seed: int) -> list[Result]:
    """The results of earlier runs on the same code and seed; the file is made anew otherwise."""
    head = {"code": code_under_test(), "seed": seed}
    lines = path.read_text().splitlines() if path.exists() else []
    if lines and json.loads(lines[0]) | {"commit": ""} == head | {"commit": ""}:
        return read(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(head | {"commit": _git("describe", "--always", "--dirty=+")}) + "\n")
    return []


def read(path: Path) -> list[Result]:
    """The results in a file; none if there is no file."""
    lines = path.read_text().splitlines()[1:] if path.exists() else []
    return [Result(**found) for found in _whole(lines)]


def _whole(lines: list[str]) -> Iterator[dict[str, Any]]:
    """The lines that were written whole."""
    for line in lines:
        try:
            yield json.loads(line)
        except ValueError:
            return


def run(name: str, path: Path, options: argparse.Namespace) -> list[Result]:
    """Run what is left of a campaign; results go to the file at once."""
    campaign = load(name)
    results = resume(path, campaign.seed)
    done = {result.case for result in results}
    left = [case for case in campaign.cases() if case not in done]
    until = time.monotonic() + options.minutes * 60
    started, before = time.monotonic(), len(results)
    with (
        path.open("a") as file,
        ProcessPoolExecutor(options.workers, mp_context=get_context("spawn")) as pool,
    ):
        waiting: set[Future[Result]] = set()
        while left or waiting:
            while left and len(waiting) < 2 * options.workers and time.monotonic() < until:
                waiting.add(pool.submit(run_case, name, left.pop(0)))
            if not waiting:
                break
            finished, waiting = wait(waiting, return_when=FIRST_COMPLETED)
            for future in finished:
                result = future.result()
                results.append(result)
                file.write(json.dumps(vars(result)) + "\n")
                file.flush()
            if (len(results) - before) % 20 == 0 or not left:
                spent = time.monotonic() - started
                rest = spent / max(1, len(results) - before) * len(left)
                print(f"{name}: {len(results)} cases, {len(left)} left, {rest:.0f} s to go")
    return results


def summary(name: str, results: list[Result]) -> str:
    """What a campaign found, in a few lines."""
    counts: Counter[str] = Counter()
    for result in results:
        counts.update(result.counts)
    failures = [line for result in results for line in result.failures]
    work, cases = sum(result.seconds for result in results), len(load(name).cases())
    lines = [f"{name}: {len(results)} of {cases} cases, {len(failures)} failures, {work:.0f} s"]
    lines += [f"  {count:>9,}  {what}" for what, count in sorted(counts.items())]
    lines += [f"  FAILED {failure}" for failure in failures[:20]]
    return "\n".join(lines)


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("names", nargs="*", help="campaigns; all if none is named")
    parser.add_argument("--minutes", type=float, default=1e6, help="stop after so long")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--folder", type=Path, default=ROOT / "runs" / "campaigns")
    parser.add_argument("--only", help="run this one case and show what it raises")
    parser.add_argument("--summary", action="store_true", help="run nothing")
    options = parser.parse_args()
    chosen = options.names or names()
    if options.only:
        result = run_case(chosen[0], options.only)
        print(json.dumps(vars(result), indent=1))
        sys.exit(bool(result.failures))
    failed = False
    for name in chosen:
        path = options.folder / f"{name}.jsonl"
        results = read(path) if options.summary else run(name, path, options)
        print(summary(name, results))
        failed |= any(result.failures for result in results)
    sys.exit(failed)


if __name__ == "__main__":
    main()
