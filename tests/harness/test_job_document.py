"""Job files: what they say, and every mistake in them."""

from __future__ import annotations

import pytest
from job_cases import job

from keymark.harness.errors import HarnessError, ScenarioError
from keymark.harness.job import document

STEP = '[[job.step]]\nname = "load"\ncommand = "true"\n'


def written(tmp_path, text):
    path = tmp_path / "job.toml"
    path.write_text(text)
    return str(path)


def mistakes(tmp_path, text, sets=()):
    with pytest.raises(ScenarioError) as caught:
        document.load(written(tmp_path, text), sets)
    return caught.value.mistakes


def test_a_job_is_told_from_a_scenario(tmp_path):
    assert document.is_job(str(job(tmp_path)))
    assert not document.is_job(written(tmp_path, 'name = "x"\n[dataset]\nrows = 1\n'))
    for name in ("quickstart", str(tmp_path), "\0", str(tmp_path / "none.toml")):
        assert not document.is_job(name)


def test_defaults_and_one_command_without_brackets(tmp_path):
    found = document.load(written(tmp_path, f'[job]\nname = "n"\nrestore = "a b"\n{STEP}'))
    assert (found.repetitions, found.warmups, found.timeout) == (5, 1, 3600.0)
    assert found.restore == ("a b",)
    assert found.step[0].event_log


def test_what_is_set_is_laid_over_the_file(tmp_path):
    path = str(job(tmp_path))
    found = document.load(path, ["job.repetitions=9", "job.timeout=2m", "job.values.shuffled=7"])
    assert (found.repetitions, found.timeout, found.values["shuffled"]) == (9, 120.0, "7")


def test_words_of_a_command():
    values = {"work": "/w x", "n": "2"}
    assert document.words("cp 'a b' {work}/c --n={n} {{}}", values) == [
        *("cp", "a b", "/w x/c", "--n=2", "{}"),
    ]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (f"[job]\n{STEP}", ["job.name: field required"]),
        ('[job]\nname = "n"\n', ["job.step: field required"]),
        (f'[job]\nname = "n"\nrepeat = 3\n{STEP}', ["job.repeat: unknown key (did you mean"]),
        (f'[job]\nname = "n"\n{STEP}args = 1\n', ["job.step.0.args: unknown key"]),
        (f'[dataset]\n[job]\nname = "n"\n{STEP}', ["dataset: unknown key (known are job)"]),
        (f'[job]\nname = "n/m"\n{STEP}', ["job.name: must be a letter"]),
        (f'[job]\nname = "record"\n{STEP}', ["job.name: record is the name of an index"]),
        (f'[job]\nname = "n"\ntimeout = 5\n{STEP}', ["job.timeout: must be a duration such as"]),
        (f'[job]\nname = "n"\n{STEP}{STEP}', ["job.step: load is there twice"]),
        (f'[job]\nname = "n"\nverify = "a \'b"\n{STEP}', ["job.verify: a 'b: no closing"]),
        (f'[job]\nname = "n"\nverify = ""\n{STEP}', ["job.verify: an empty command"]),
        (f'[job]\nname = "n"\nverify = "a {{wrk}}"\n{STEP}',
         ["job.verify: {wrk} stands for nothing (did you mean 'work'?)"]),
        (f'[job]\nname = "n"\nverify = "a {{work.x}}"\n{STEP}', ["job.verify: {work.x} is no"]),
        (f'[job]\nname = "n"\nverify = "a {{"\n{STEP}', ["job.verify: "]),
        (f'[job]\nname = "n"\nvalues = {{work = "1"}}\n{STEP}', ["job.values.work: {work} is a"]),
        (f'[job]\nname = "n"\nevent_logs = "s3://b/l"\n{STEP}', ["job.event_logs: s3://b/l is no"]),
        (f'[job]\nname = "n"\n{STEP.replace("load", "upsert")}', ["job.step.0.name: upsert is a"]),
    ],
    ids=range(17),
)  # fmt: skip
def test_mistakes_are_named(tmp_path, text, said):
    found = mistakes(tmp_path, text)
    assert len(found) == len(said)
    for line, start in zip(found, said, strict=True):
        assert line.startswith(start)


def test_all_mistakes_are_told_at_once(tmp_path):
    found = mistakes(tmp_path, f"[job]\nname = 3\nwarmups = -1\n{STEP}", ["x", "job.name.y=1"])
    assert len(found) >= 3


def test_a_file_that_is_none(tmp_path):
    with pytest.raises(HarnessError, match="cannot be read"):
        document.load(str(tmp_path / "none"))
    with pytest.raises(HarnessError, match="is no TOML"):
        document.load(written(tmp_path, "[job"))
