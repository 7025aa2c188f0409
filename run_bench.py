"""Keymark's command line in a clone: the same as the command `keymark`."""

import sys

from keymark.cli import main

if __name__ == "__main__":
    sys.exit(main(program="run_bench.py"))
