"""What the site says about a run and one that repeats it."""

from __future__ import annotations

import json

from synthetic_published import RUN_ID, repeated, slower_tag

from keymark.reports.published.check import Checked
from keymark.reports.published.provenance import Provenance
from keymark.reports.site.comparisons import comparisons


def named(source, path):
    """A run folder that is called as its run is."""
    path.parent.mkdir(parents=True, exist_ok=True)
    return source.rename(path)


def checked(path, repeated=""):
    said = Provenance.model_validate({"from": "contributed", "repeated": repeated})
    return Checked(path=path, provenance=said, findings=())


def both(original, tmp_path, *change):
    again = named(repeated(tmp_path, *change, run_id="again"), tmp_path / "results" / "again")
    return [checked(original, "again"), checked(again)]


def test_both_runs_have_the_same_sentence_and_a_link_to_each_other(original, tmp_path):
    found = comparisons(both(original, tmp_path, slower_tag))
    (first,), (second,) = found[RUN_ID], found["again"]
    assert (first.other, second.other) == ("again", RUN_ID)
    assert first.sentence == second.sentence
    assert first.sentence.startswith(f"Run again disagrees with {RUN_ID} in 2 of ")
    assert first.agrees is False


def test_runs_that_agree_say_so(original, tmp_path):
    (told,) = comparisons(both(original, tmp_path))["again"]
    assert told.agrees
    assert told.sentence.startswith(f"Run again agrees with {RUN_ID} in all of ")


def test_runs_of_other_work_cannot_be_compared(original, tmp_path):
    first, second = both(original, tmp_path)
    path = second.path / "run.json"
    document = json.loads(path.read_text())
    document["scenario"]["dataset"]["rows"] = 7
    path.write_text(json.dumps(document))
    (told,) = comparisons([first, second])[RUN_ID]
    assert told.agrees is None
    assert told.sentence.startswith("Both cannot be compared: ")
    assert "dataset.rows" in told.sentence


def test_a_run_that_is_not_on_the_site_is_not_compared(original):
    assert comparisons([checked(original, "refused"), checked(original)]) == {}
