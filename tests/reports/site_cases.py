"""A site of runs that have every section, though arithmetic made them."""

from __future__ import annotations

import shutil
from pathlib import Path

from synthetic_matrix import matrix
from synthetic_published import RUN_ID, repeated, slower_tag
from synthetic_runs import INFO, beats, quickstart, sample, write_run
from test_engines_part import BOTH
from test_engines_part import run_of as engines_of
from test_formats_part import WRITES
from test_formats_part import run_of as formats_of
from test_model_part import lookups, noisy
from test_publish import HOSTILE

from keymark.reports.published import check
from keymark.reports.published.check import Checked
from keymark.reports.published.provenance import Provenance
from keymark.reports.site import build

STEADY = [0.010, 0.0105, 0.0101] * 20


def unchecked(path: Path) -> list[Checked]:
    """All runs below a folder as if they were right; the maintainers have repeated the first."""
    found = check.folders(path)
    return [
        Checked(
            path=each,
            provenance=Provenance.model_validate(
                {"from": "contributed", "by": "A. Stranger", "repeated": "again"}
                if not place
                else {}
            ),
            findings=(),
        )
        for place, each in enumerate(found)
    ]


def runs_of_all_kinds(results: Path, original: Path) -> None:
    """Run folders with every section, failed cells and hostile names."""
    shutil.copytree(original, results / RUN_ID)
    again = repeated(results.with_name("repeated"), slower_tag, run_id="again")
    shutil.copytree(again, results / "again")
    quickstart(results / "first", run_id="first", repetitions=6)
    beats(results / "first", STEADY)
    grown = matrix(results / "m1")
    beats(grown, STEADY)
    model = lookups(wall=noisy, repetitions=2, run_id="model")
    write_run(results / "model", model, {"run_id": "model"})
    engines_of(results / "r1", BOTH)
    formats_of(results / "formats", WRITES, run_id="formats")
    hostile = {"run_id": "hostile", "cell": HOSTILE, "engine": HOSTILE, "index": HOSTILE}
    taken = [sample(**hostile, step=step, round=1) for step in ("lookup", "upsert_1", HOSTILE)]
    scenario = INFO["scenario"] | {"name": HOSTILE}
    write_run(results / "hostile", taken, INFO | {"run_id": "hostile", "scenario": scenario})


def site_of_all_kinds(work: Path, original: Path, monkeypatch) -> build.Site:
    """The site of these runs."""
    runs_of_all_kinds(work / "results", original)
    monkeypatch.setattr(build, "check", unchecked)
    return build.build(work / "results", work / "public")
