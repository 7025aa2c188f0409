"""A run whose S3 server is asked, around each step's clock, how many requests it got.

    python watched_run.py ENDPOINT OUT ARGUMENTS...     the command line's `run ARGUMENTS...`

OUT gets a JSON line a step: its label, and the requests that the server got by kind.
"""

from __future__ import annotations

import json
import sys
from contextlib import contextmanager
from pathlib import Path

from s3_server import S3Server

from keymark.cli import main
from keymark.harness.run.step import StepRun

server, out = S3Server(sys.argv[1]), Path(sys.argv[2])
timed = StepRun.timed


@contextmanager
def watched(self):
    with timed(self) as values:
        before = server.counts()
        yield values
        after = server.counts()
    got = {kind: after[kind] - before.get(kind, 0) for kind in after}
    with out.open("a") as file:
        file.write(json.dumps({"label": self.label, "got": got}) + "\n")


StepRun.timed = watched
sys.argv[1:] = ["run", *sys.argv[3:]]
main()
