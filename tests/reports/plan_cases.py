"""What the tests of the command `plan` share."""

from __future__ import annotations

from keymark import cli as run_bench

PRICES = """
currency = "EUR"
executor_hour = 0.5
storage_gb_month = 0.02
writes_per_day = 24
[service_hour]
record = 1.0
"""


def plan(capsys, *words):
    """Exit code, and what the command printed."""
    code = run_bench.main(["plan", *(str(word) for word in words)])
    said = capsys.readouterr()
    return code, said.out if code == 0 else said.err
