"""A child process without Java: answers like `keymark.harness.engines.hudi_child`, from memory."""

from __future__ import annotations

import os
import sys
import threading
import time

from keymark.harness.engines.pipe_server import serve


class Handler:
    def __init__(self) -> None:
        self.calls = 0
        self.held = []
        self.cancelled = threading.Event()

    def echo(self, *, value):
        self.calls += 1
        sys.stdout.write("chatter of the JVM\n")
        return value

    def count(self):
        return self.calls

    def fail(self):
        raise ValueError("first line\nsecond line")

    def start(self, **_told):
        return {"conf": {}}

    def hold_rows(self, *, files):
        self.held.append(files)

    def known(self):
        return self.held

    def sleep(self):
        if self.cancelled.wait(60):
            raise ValueError("cancelled")

    def sleep_on(self):
        time.sleep(60)

    digest = check_index = hold_keys = sleep_on

    def say(self, *, words):
        sys.stderr.write(f"{words}\n")
        sys.stderr.flush()

    def cancel(self):
        self.cancelled.set()

    def run_out(self):
        sys.stderr.write("java.lang.OutOfMemoryError: Java heap space\n\tat a.B.c(B.java:1)\n")
        sys.stderr.flush()
        os._exit(3)

    def die(self):
        sys.stderr.write("out of memory\n")
        sys.stderr.flush()
        os._exit(3)

    def pid(self):
        return os.getpid()

    def close(self):
        sys.stderr.write("closed\n")


if __name__ == "__main__":
    serve(Handler(), explain=lambda error: str(error).splitlines()[0])
