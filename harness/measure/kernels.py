"""The kernels of two revisions, measured in turns into a run folder that `gate` judges.

A trial is one pytest process with pytest-benchmark: the suite of the code as it lies there
(`tests/benchmarks/test_kernels.py`), copied to a folder of its own, over the packages of the
revision. So both sides do the same work. What a trial says about a kernel is the median of its
rounds.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

from keymark.harness.engines import revisions
from keymark.harness.errors import HarnessError
from keymark.harness.git import CLONE
from keymark.harness.measure import environment
from keymark.harness.measure.noise_check import NoiseCheck
from keymark.harness.redaction import redact_arguments
from keymark.harness.run.runner import Progress
from keymark.harness.run.time_left import TimeLeft, TrialKind
from keymark.harness.store.results import Sample
from keymark.harness.store.run_record import RUNNING, RunRecord
from keymark.harness.store.store import RunFolder

SUITE = CLONE / "tests" / "benchmarks" / "test_kernels.py"
REPETITIONS = 24

_IMPORT = re.compile(r"^from .*\n", re.MULTILINE)

_OPTIONS = (
    "--benchmark-enable",
    "--benchmark-disable-gc",
    "--benchmark-warmup=on",
    "--benchmark-warmup-iterations=1",
    "--benchmark-min-rounds=5",
    "--benchmark-max-time=0.1",
    "-p",
    "no:cacheprovider",
    "--quiet",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """One revision.

    Attributes:
        engine: `native@<commit>` or `native@worktree`.
        ready: where its packages are.
    """

    engine: str
    ready: revisions.Checkout


def measure(
    engines: Sequence[str],
    folder: RunFolder,
    progress: Progress,
    repetitions: int = REPETITIONS,
    *,
    noise: NoiseCheck | None = None,
) -> None:
    """Measure both revisions; trials that the folder has already are not taken again.

    Args:
        engines: base and candidate.
        folder: where samples go.
        progress: receives what is done.
        repetitions: trials of each side.
        noise: what is done on a noisy machine before the first trial; None: it is not looked at.

    Raises:
        HarnessError: a revision cannot be set up, its kernels cannot be run at all, or the machine
            was not quiet in time.
    """
    sides = []
    for name in engines:
        progress.begin(f"setting up {name}")
        sides.append(Side(engine=name, ready=revisions.checkout(name)))
    if noise is not None:
        noise.warn_or_wait(progress, threads=1, runs=folder.path.absolute().parent)
    done = {"suite": hashlib.sha256(SUITE.read_bytes()).hexdigest()}
    record = RunRecord.model_validate(
        {
            "run_id": folder.path.name,
            "scenario": {"name": "kernels", "engines": list(engines), "workload": done},
            "command": redact_arguments(environment.command()),
            "repetitions": repetitions,
            "machine": environment.machine(),
            "seeded_ids": list(engines),
        }
    )
    folder.write_record(record.but(status=RUNNING))
    # pytest works in the suite's folder, so a path from here would lead it elsewhere.
    place = folder.path.resolve()
    suites = {side.engine: place / f"suite-{number}" for number, side in enumerate(sides)}
    for side in sides:
        suites[side.engine].mkdir(exist_ok=True)
        (suites[side.engine] / SUITE.name).write_text(_suite_for(side), "utf-8")
    taken = {(sample.engine, sample.repetition) for sample in folder.samples()}
    trials = [(side.engine, number) for number in range(repetitions) for side in sides]
    time_left = TimeLeft()
    time_left.plan(TrialKind(trial[0]) for trial in trials if trial not in taken)
    progress.plan(len(trials))
    for repetition in range(repetitions):
        for side in sides if repetition % 2 == 0 else sides[::-1]:
            if (side.engine, repetition) not in taken:
                what = f"{side.engine}: repetition {repetition + 1}"
                progress.begin(what, time_left.seconds())
                time_left.begin()
                folder.append(_trial(side, suites[side.engine], repetition, folder.path.name))
                time_left.end(TrialKind(side.engine))
            progress.end()
    for suite in suites.values():
        shutil.rmtree(suite)
    folder.finish(record)


def _suite_for(side: Side) -> str:
    """The text of the benchmarks: the revision's own where only its imports differ from ours.

    So modules may have other names in a revision.
    """
    ours = SUITE.read_text("utf-8")
    own = side.ready.root / SUITE.relative_to(CLONE)
    theirs = own.read_text("utf-8") if own.exists() else ours
    return theirs if _IMPORT.sub("", theirs) == _IMPORT.sub("", ours) else ours


def repetitions(sets: Sequence[str]) -> int:
    """How often each side is measured, from `schedule.repetitions=N`; warm-ups are the suite's.

    Raises:
        HarnessError: anything else is set, or no number above zero.
    """
    found = REPETITIONS
    for text in sets:
        key, _, value = text.partition("=")
        if key == "schedule.warmups":
            continue
        if key != "schedule.repetitions" or not value.isdecimal() or not int(value):
            raise HarnessError(f"--set {text}: of kernels only schedule.repetitions=N can be set")
        found = int(value)
    return found


def _trial(side: Side, suite: Path, repetition: int, run_id: str) -> list[Sample]:
    """All kernels of one revision, once."""
    answer, cases = suite / "answer.json", suite / "cases.xml"
    for path in (answer, cases):
        path.unlink(missing_ok=True)
    words = [str(side.ready.python), "-m", "pytest", f"--rootdir={suite}", *_OPTIONS]
    made = subprocess.run(  # noqa: S603 - our own program
        [*words, f"--benchmark-json={answer}", f"--junitxml={cases}", str(suite / SUITE.name)],
        cwd=suite,
        env={**os.environ, "PYTHONPATH": str(side.ready.root)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    try:
        measured = json.loads(answer.read_text("utf-8"))["benchmarks"]
        wrong = dict(_failures(ET.parse(cases).getroot()))  # noqa: S314 - pytest's, made just now
    except (OSError, ValueError, KeyError, ET.ParseError) as error:
        lines = [line for line in (made.stdout + made.stderr).splitlines() if line.strip()]
        raise HarnessError(f"kernels of {side.engine}: {lines[-1] if lines else error}") from error
    return list(samples(run_id, side.engine, repetition, measured, wrong))


def _failures(cases: ET.Element) -> Iterator[tuple[str, str]]:
    """Names of tests whose answer was wrong, with the first line of what was said."""
    for case in cases.iter("testcase"):
        for kind in ("failure", "error"):
            for found in case.iter(kind):
                yield case.get("name", ""), (found.get("message") or kind).splitlines()[0]


def samples(
    run_id: str,
    engine: str,
    repetition: int,
    measured: Sequence[dict[str, Any]],
    wrong: dict[str, str],
) -> Iterator[Sample]:
    """What pytest-benchmark says about one trial as lines of a run.

    Args:
        run_id: of the run.
        engine: of the trial.
        repetition: of the trial.
        measured: `benchmarks` of its JSON; a kernel's group is the index, its name the step.
        wrong: reasons by test.
    """
    for each in measured:
        reason = wrong.get(each["name"], "")
        yield Sample(
            run_id=run_id,
            cell=f"{engine}/{each['group']}",
            engine=engine,
            index=each["group"],
            step=each["name"].removeprefix("test_"),
            round=0,
            repetition=repetition,
            warmup=False,
            phase="total",
            metric="wall_s",
            unit="s",
            value=each["stats"]["median"],
            verified=not reason,
            valid=not reason,
            reason=reason,
        )
