"""The requests of each step of a run on S3: what the server got, and what the engine counted."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from s3_server import KEY, SECRET, S3Server

from keymark.harness.measure.counters import label_of
from keymark.harness.store.store import RunFolder
from keymark.table.storage.requests import Request

TESTS = Path(__file__).parent
Steps = dict[str, dict[str, float]]
"""Requests by kind, by the label of a step: `<cell>|<repetition>|<step>`."""


def watched(
    s3: S3Server, folder: Path, words: Sequence[str], **process: Any
) -> subprocess.CompletedProcess[str]:
    """Run a scenario with its tables on the server, which is asked around each step.

    Args:
        s3: the server.
        folder: of the run; what the server says about each step is put beside it.
        words: the scenario, and options of `keymark run`.
        process: options of `subprocess.run`.
    """
    connection = {name: value for name, value in s3.options.items() if value not in (KEY, SECRET)}
    words = [*words, "--out", str(folder), "--tables", f"{s3.bucket()}/runs"]
    for name, value in connection.items():
        words += ["--set", f"table.options.{name}={value}"]
    script = str(TESTS / "harness" / "watched_run.py")
    return subprocess.run(
        [sys.executable, script, s3.endpoint, str(_seen(folder)), *words],
        env={
            **os.environ,
            "AWS_ACCESS_KEY_ID": KEY,
            "AWS_SECRET_ACCESS_KEY": SECRET,
            "PYTHONPATH": os.pathsep.join(map(str, (TESTS, TESTS.parent))),
        },
        text=True,
        check=False,
        **process,
    )


def _seen(folder: Path) -> Path:
    return folder.with_name(f"{folder.name}-seen.jsonl")


def served(folder: Path) -> Steps:
    """What the server got, of a run that was watched."""
    lines = _seen(folder).read_text(encoding="utf-8").splitlines()
    return {each["label"]: each["got"] for each in map(json.loads, lines)}


def counted(folder: Path) -> Steps:
    """What the engines counted, by the samples of a run."""
    found: Steps = {}
    for sample in RunFolder.open(folder).samples():
        kind = sample.metric.removesuffix("_requests")
        if kind != sample.metric:
            found.setdefault(label_of(sample), {})[kind] = sample.value
    return found


def differences(
    of_server: Mapping[str, Mapping[str, float]], of_engine: Mapping[str, Mapping[str, float]]
) -> dict[str, tuple[dict[str, float], dict[str, float]]]:
    """The steps that were counted otherwise than the server did: what was counted, what it got.

    No request is of a kind that is not counted.
    """
    assert {kind for got in of_server.values() for kind in got} <= set(Request)
    found = {}
    for label, got in of_server.items():
        both = (
            {str(kind): each.get(kind, 0) for kind in Request} for each in (of_engine[label], got)
        )
        ours, servers = both
        if ours != servers:
            found[label] = (ours, servers)
    return found


def told(of_server: Steps, of_engine: Steps) -> str:
    """How far each engine's counts are the server's: the finding, then each difference."""
    differing = differences(of_server, of_engine)
    engines = dict.fromkeys(label.partition("/")[0] for label in of_server)
    findings, rows = [], []
    for engine in engines:
        steps = [label for label in of_server if label.startswith(f"{engine}/")]
        equal = [label for label in steps if label not in differing]
        requests = sum(sum(of_server[label].values()) for label in steps)
        findings.append(
            f"- {engine}: the counts of {len(equal)} of {len(steps)} steps are the server's, which "
            f"got {requests:,.0f} requests in all."
        )
    for label, (ours, servers) in differing.items():
        cell, trial, step = label.split("|")
        rows += [
            f"| {cell} | {trial} | {step} | {kind.upper()} | {ours[kind]:,.0f} | {got:,.0f} |"
            for kind, got in servers.items()
            if ours[kind] != got
        ]
    head = ["| cell | repetition | step | operation | counted | server |"]
    head.append("|---|---|---|---|---:|---:|")
    table = ["", "Where they differ:", "", *head, *rows] if rows else []
    return "\n".join([*findings, *table, ""])
