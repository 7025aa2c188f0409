"""Runs are published as they were measured; whose they are, the maintainers say."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace

import pytest
from synthetic_published import RUN_ID, Copy, run_folder

from keymark import cli
from keymark.harness.store import contents
from keymark.harness.store.store import RunFolder
from keymark.reports.errors import ProvenanceError, ReportError
from keymark.reports.model import projection
from keymark.reports.published import add, derived, provenance
from keymark.reports.published.check import check
from keymark.reports.sections.parts import Parts


class TestAdd:
    def test_what_was_published_is_what_was_measured(self, tmp_path):
        source = run_folder(tmp_path / "run")
        made = add.add(source, tmp_path / "results")
        assert made.path == tmp_path / "results" / RUN_ID
        assert {path.name for path in made.path.iterdir()} == {
            "run.json", "samples.jsonl.gz", "stages.jsonl.gz", "canary.jsonl.gz", "summary.json.gz",
        }  # fmt: skip
        ours, theirs = RunFolder.open(source), RunFolder.open(made.path)
        assert theirs.read_record() == ours.read_record()
        assert (theirs.samples(), theirs.stages()) == (ours.samples(), ours.stages())
        assert theirs.beats() == ours.beats()
        (run,) = projection.load([source])
        kept = json.loads(contents.content(made.path / "summary.json"))
        assert kept == derived.summary(run, Parts.of([run]))

    def test_paths_of_the_machine_stay_there(self, tmp_path):
        source = run_folder(tmp_path / "run")
        folder = RunFolder.open(source)
        record = folder.read_record()
        stage, *others = folder.stages()
        deleting = f"{stage.name} file:/home/me/table/MARKERS1,file:/home/me/table/MARKERS2"
        folder.write_stages([replace(stage, name=deleting), *others])
        folder.finish(record.but(command=[*record.command[:-1], "/home/me/runs/small"]))
        made = add.add(source, tmp_path / "results")
        assert made.findings == ()
        assert RunFolder.open(made.path).stages()[0].name == stage.name
        assert RunFolder.open(made.path).read_record().command[-1] == "…/small"
        assert "/home/me" in folder.info_file.read_text()

    @pytest.mark.parametrize("change", ["running", "altered", "twice", "none", "unnamed"])
    def test_what_is_not_published(self, tmp_path, change):
        source = run_folder(tmp_path / "run")
        folder = RunFolder.open(source)
        record = folder.read_record()
        told = {
            "running": "is not ended",
            "altered": "samples.jsonl of .* is not what the run left",
            "twice": "is there already",
            "none": "not a run folder",
            "unnamed": "no run_id",
        }[change]
        if change == "running":
            folder.write_record(record.but(status="running"))
        elif change == "altered":
            folder.append(folder.samples()[:1])
        elif change == "twice":
            add.add(source, tmp_path / "results")
        elif change == "none":
            folder.info_file.unlink()
        else:
            folder.finish(record.but(run_id="../x"))
        with pytest.raises(ReportError, match=told):
            add.add(source, tmp_path / "results")
        kept = [path.name for path in (tmp_path / "results").glob("*")]
        assert kept == ([RUN_ID] if change == "twice" else [])

    def test_a_run_that_does_not_pass_is_not_kept(self, tmp_path, capsys):
        source = run_folder(tmp_path / "run")
        folder = RunFolder.open(source)
        folder.finish(folder.read_record().but(repetitions=5))
        code = cli.main(["results", "add", str(source), "--to", str(tmp_path / "results")])
        assert code == 1
        assert "r4 upsert_1 is missing" in capsys.readouterr().out
        assert list((tmp_path / "results").iterdir()) == []

    def test_a_run_that_an_earlier_version_ended_gets_its_digest(self, tmp_path):
        source = run_folder(tmp_path / "run")
        path = source / "run.json"
        document = json.loads(path.read_text())
        document.pop("digest")
        path.write_text(json.dumps(document))
        made = add.add(source, tmp_path / "results")
        assert made.findings == ()
        assert RunFolder.open(made.path).read_record().digest


class TestProvenance:
    def test_the_maintainers_say_whose_a_run_is(self, copy):
        path = copy.path.parent / provenance.FILE
        path.write_text(
            f'[runs.{RUN_ID}]\nfrom = "contributed"\nby = "A. Stranger"\nrepeated = "ours"\n'
            '[runs.ours]\nfrom = "maintainers"\n'
        )
        found = provenance.read(path.parent)
        assert found[RUN_ID].label == "contributed by A. Stranger, repeated by the maintainers"
        assert found["ours"].label == "the maintainers' run"
        (refused,) = check(copy.path)
        assert refused.provenance == found[RUN_ID]
        refused, absent = check(path.parent)
        assert [str(each) for each in refused.findings] == [
            f"provenance.toml, runs.{RUN_ID}.repeated: ours is not there"
        ]
        assert [str(each) for each in absent.findings] == [
            "provenance.toml, runs.ours: is not there"
        ]

    def test_only_a_right_run_of_the_same_work_repeats_a_run(self, copy):
        results = copy.path.parent
        again = results / "ours"
        shutil.copytree(copy.path, again)
        Copy(again).lines(
            "samples.jsonl", lambda found: [each.update(run_id="ours") for each in found]
        )
        Copy(again).info(lambda document: document.update(run_id="ours"))
        Copy(again).seal()
        (results / provenance.FILE).write_text(
            f'[runs.{RUN_ID}]\nrepeated = "ours"\n[runs.ours]\nfrom = "maintainers"\n'
        )

        def found(path):
            return [str(each) for made in check(path) for each in made.findings]

        assert found(results) == found(copy.path) == []
        path = again / "run.json"
        honest = path.read_text()
        label = f"provenance.toml, runs.{RUN_ID}.repeated: "
        for place, value, told in (
            ("name", "growth", "ours is a run of scenario growth, and this one of small"),
            ("dataset", {"seed": 2}, "ours did other work: dataset.seed is 2 there, and 1 here"),
        ):
            document = json.loads(honest)
            asked = document["scenario"]
            asked[place] = {**asked[place], **value} if place == "dataset" else value
            path.write_text(json.dumps(document))
            Copy(again).seal()
            (said,) = found(copy.path)
            assert said.startswith(f"{label}{told}")
        # A run that was altered after its end is refused, and so is what it is to vouch for.
        path.write_text(honest.replace('"small"', '"growth"'))
        (said,) = found(copy.path)
        assert said.startswith(f"{label}ours is itself refused: run.json: ")
        (results / provenance.FILE).write_text(
            f'[runs.{RUN_ID}]\nfrom = "maintainers"\nrepeated = "{RUN_ID}"\n'
        )
        assert found(copy.path) == [f"{label}a run does not repeat itself"]

    @pytest.mark.parametrize(
        ("text", "told"),
        [
            ("runs = 1", "runs: "),
            ("[runs.x]\nfrom = 'me'", r"runs\.x\.from: "),
            ("[runs.x]\nfrom = 'contributed'\nverified = true", r"runs\.x\.verified: "),
            ("[runs.x]\nrepeated = 'y'", r"runs\.x: repeated: y is no run of the maintainers'"),
            ("[runs", "not TOML"),
            ("\0", "not TOML"),
        ],
    )
    def test_a_file_that_cannot_be_used_is_named(self, tmp_path, text, told):
        (tmp_path / provenance.FILE).write_text(text)
        with pytest.raises(ProvenanceError, match=told):
            provenance.read(tmp_path)
