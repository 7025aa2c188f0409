r"""Requests of a run on S3: what Keymark and Hudi count beside what the server got.

    python tests/measured/requests_on_s3.py --out DIR quickstart \
        --engine native --engine hudi@1.2.0 --set schedule.repetitions=1 \
        --set workload.delete=true --set workload.lookup_absent=0
    python tests/measured/requests_on_s3.py --out DIR partitioned_index \
        --set dataset.rows=100000 --set schedule.repetitions=1

All words after the folder are those of `keymark run`. The server is moto's, on the loopback
interface, and keeps all tables in memory. Engines of Hudi need `keymark engine install s3a`; its
bucket index does not know absent keys. DIR/requests.md says for each engine in how many steps its
counts are the server's, and names each difference by step and operation. The exit code is 1 if one
of Keymark's counts differs.
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
    parser.add_argument("words", nargs=argparse.REMAINDER, help="of `keymark run`")
    asked = parser.parse_args()
    asked.out.mkdir(parents=True)
    folder = asked.out / "run"
    with s3_server() as s3:
        done = watched(s3, folder, asked.words)
    if done.returncode:
        raise SystemExit(f"the run ended with code {done.returncode}; its folder is {folder}")
    got, by_engine = served(folder), counted(folder)
    page = f"# Requests on S3 of `keymark run {' '.join(asked.words)}`\n\n{told(got, by_engine)}"
    (asked.out / "requests.md").write_text(page, encoding="utf-8")
    sys.stdout.write(page)
    wrong = [label for label in differences(got, by_engine) if is_native(label.partition("/")[0])]
    if wrong:
        raise SystemExit(f"Keymark's counts differ from the server's in {len(wrong)} steps")


if __name__ == "__main__":
    main()
