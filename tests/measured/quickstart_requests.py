"""Requests of `quickstart` on S3: what Keymark and Hudi count beside what the server got.

    python tests/measured/quickstart_requests.py --out DIR [--rows 1000000] [--engine NAME ...]

The rows are as many as quickstart has, unless fewer are named; there is one repetition, with a
delete and without absent keys, which Hudi's bucket index does not know. The server is moto's, on
the loopback interface, and keeps all tables in memory. Engines of Hudi need `keymark engine install
s3a`. DIR/requests.md says of each engine in how many steps its counts are the server's, and names
each difference by step and operation. The exit code is 1 if one of Keymark's counts differs.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from s3_server import s3_server
from served_requests import counted, differences, served, told, watched

from keymark.harness.engines import is_native


def main() -> None:
    """Run, compare, and tell."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True, help="a new folder")
    parser.add_argument("--rows", type=int, default=1_000_000, help="of the table")
    parser.add_argument("--engine", action="append", help="by default native and hudi@1.2.0")
    asked = parser.parse_args()
    asked.out.mkdir(parents=True)
    words = ["quickstart", "--set", f"dataset.rows={asked.rows}"]
    for each in ("workload.lookup_absent=0", "workload.delete=true", "schedule.repetitions=1"):
        words += ["--set", each]
    words += ["--set", f"dataset.batch_rows={max(asked.rows // 25, 2)}"]
    words += ["--set", f"dataset.delete_rows={max(asked.rows // 500, 1)}"]
    words += ["--set", f"workload.lookup_present={max(asked.rows // 25, 1)}"]
    for engine in asked.engine or ("native", "hudi@1.2.0"):
        words += ["--engine", engine]
    folder = asked.out / "run"
    with s3_server() as s3:
        done = watched(s3, folder, words)
    if done.returncode:
        raise SystemExit(f"the run ended with code {done.returncode}; its folder is {folder}")
    got, by_engine = served(folder), counted(folder)
    page = f"# Requests of quickstart on S3, {asked.rows:,} rows\n\n{told(got, by_engine)}"
    (asked.out / "requests.md").write_text(page, encoding="utf-8")
    sys.stdout.write(page)
    wrong = [label for label in differences(got, by_engine) if is_native(label.partition("/")[0])]
    if wrong:
        raise SystemExit(f"Keymark's counts differ from the server's in {len(wrong)} steps")


if __name__ == "__main__":
    main()
