"""Predictions for the published figures of the record index, and the page that judges them.

    python tests/measured/published_figures.py                     by the calibration of Hudi 0.15.0
    python tests/measured/published_figures.py --calibration FILE

The predictions are written to results/published_figures/predictions.json, once: commit them before
you look for explanations. What explains a figure goes into why.toml beside them, a sentence by its
key, and the next call puts it into docs/results/published_figures.md.
"""

# ruff: noqa: T201
from __future__ import annotations

import argparse
import sys
import tomllib
from pathlib import Path

from keymark.reports.errors import ReportError
from keymark.reports.plan import calibration
from keymark.reports.plan.published_figures import foresee, load, page

ROOT = Path(__file__).parents[2]
FILE = "results/published_figures/predictions.json"
PAGE = "docs/results/published_figures.md"


def main() -> int:
    """Predict where nobody has yet, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--engine", default=None)
    parser.add_argument("--calibration", type=Path, default=None)
    parser.add_argument("--root", type=Path, default=ROOT)
    asked = parser.parse_args()
    kept = asked.root / FILE
    engine = asked.engine or (None if asked.calibration else "hudi@0.15.0")
    try:
        if not kept.exists():
            made = foresee(calibration.load_for(engine, asked.calibration))
            kept.parent.mkdir(parents=True, exist_ok=True)
            kept.write_text(made.to_json(), encoding="utf-8")
            print(f"predictions: {kept}")
        why = kept.with_name("why.toml")
        told = tomllib.loads(why.read_text(encoding="utf-8")) if why.exists() else {}
        text = page(
            load(kept), told, file=FILE, command="python tests/measured/published_figures.py"
        )
    except ReportError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    target = asked.root / PAGE
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(text, encoding="utf-8")
    print(f"page: {target}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
