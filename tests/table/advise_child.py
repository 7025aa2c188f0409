"""`advise --json` in a process of its own: what it takes, without what a caller has loaded.

    python tests/table/advise_child.py TABLE            on the disk
    python tests/table/advise_child.py TABLE LOG        the same files as an object store, counted

The answer goes to the standard output. The last line of the standard error is a JSON object with
the exit code, the seconds of a processor, the peak of the memory in bytes and, with a folder LOG,
the requests by kind.
"""

# ruff: noqa: T201
from __future__ import annotations

import json
import sys
import time
from pathlib import Path

from keymark import cli


def on_store(table: str) -> str:
    """The URL of a table's files as an object store: obstore reads them from the disk."""
    from obstore.store import LocalStore

    from keymark.table.storage import object_storage

    object_storage._connect = lambda *_: LocalStore(table)
    return "s3://table"


def main(table: str, log: str = "") -> None:
    """Advise, and tell."""
    words = ["advise", on_store(table) if log else table, "--json", "--engine", "native"]
    words += ["--option", f"keymark.storage.request_log={log}"] if log else []
    told: dict[str, object] = {"code": cli.main(words), "processor_s": time.process_time()}
    # Not ru_maxrss: it begins with the size of the process that started this one.
    status = Path("/proc/self/status").read_text()
    told["peak"] = 1024 * int(status.partition("VmHWM:")[2].split()[0])
    if log:
        from keymark.table.storage import requests

        told["requests"] = requests.counted(Path(log))
    print(json.dumps(told), file=sys.stderr)


if __name__ == "__main__":
    main(*sys.argv[1:])
