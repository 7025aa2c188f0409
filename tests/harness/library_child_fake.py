"""A process of an engine without Spark that has no library: it answers, and takes memory."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from keymark.harness.engines.pipe_server import serve


class Handler:
    def start(self, *, library, cores):
        return {"versions": {library: "1", "cores": str(cores)}}

    def echo(self, *, value):
        return value

    def grow(self, *, size):
        self.held = bytearray(b"x") * size
        time.sleep(30)

    def lack(self):
        raise MemoryError("cannot allocate an array")

    def abort(self):
        sys.stderr.write("memory allocation of 123 bytes failed\n")
        sys.stderr.flush()
        os._exit(134)

    def sleep(self):
        time.sleep(30)

    def cancel(self):
        os._exit(1)

    def close(self):
        pass


if __name__ == "__main__":
    serve(Handler(), explain=lambda error: f"{type(error).__name__}: {error}")
