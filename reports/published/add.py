"""A run folder into a published one: packed, without the machine's paths, with its summary."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from keymark.harness.errors import RunFolderError
from keymark.harness.store.contents import PACKED, pack
from keymark.harness.store.results import SCHEMA_VERSION, Beat, Sample, Stage, without_paths
from keymark.harness.store.run_record import COMPLETE, RunRecord
from keymark.harness.store.store import RunFolder, is_run_name
from keymark.reports.errors import ReportError
from keymark.reports.model import projection
from keymark.reports.published import derived, provenance
from keymark.reports.published.check import Checked, check
from keymark.reports.published.provenance import Provenance
from keymark.reports.published.record import portable
from keymark.reports.published.run import INFO, PACKABLE, SUMMARY
from keymark.reports.render.files import write
from keymark.reports.render.text import clean, without_folders
from keymark.reports.sections.parts import Parts


def add(source: Path, root: Path) -> Checked:
    """Publish a run in a folder of its own, if that passes the check; else say why not.

    Args:
        source: the run folder, which stays as it is.
        root: the folder of published runs.

    Raises:
        ReportError: the run has not ended, is not what it left, or is published already; or the
            folder cannot be written.
    """
    try:
        folder = RunFolder.open(source)
        record = _ended(folder)
        samples, stages, beats = folder.samples(), folder.stages(), folder.beats()
    except RunFolderError as error:
        raise ReportError(clean(error)) from error
    name = record.run_id
    if not is_run_name(name):
        raise ReportError(f"{clean(folder.info_file)} has no run_id that can name a folder")
    target = root / str(name)
    if target.exists():
        raise ReportError(f"{clean(target)} is there already; a published run is not replaced")
    try:
        root.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".adding-", dir=root) as scratch:
            made = Path(scratch) / target.name
            _write(made, record, samples=samples, stages=stages, beats=beats)
            (checked,) = check(made)
            if not checked.findings:
                made.rename(target)
            label = provenance.read(root).get(target.name, Provenance())
            return replace(checked, path=target, provenance=label)
    except OSError as error:
        where = clean(error.filename or target)
        raise ReportError(f"{where} cannot be written: {error.strerror}") from error


def _ended(folder: RunFolder) -> RunRecord:
    """The record of a run that came to its end, and left what is there."""
    record = folder.read_record()
    if record.status != COMPLETE:
        raise ReportError(f"{clean(folder.path)} is not ended; `--resume` continues it")
    if not record.digest:
        return record  # a version before digests ended it
    kept = record.digest
    now = folder.digest(json.loads(folder.info_file.read_text(encoding="utf-8")))
    differ = sorted(name for name in {*now, *kept} if now.get(name) != kept.get(name))
    if differ:
        mistake = (
            f"{', '.join(differ)} of {folder.path} is not what the run left: its digest differs"
        )
        raise ReportError(clean(mistake))
    return record


def _write(
    path: Path,
    record: RunRecord,
    *,
    samples: Sequence[Sample],
    stages: Sequence[Stage],
    beats: Sequence[Beat],
) -> None:
    path.mkdir()
    folder = RunFolder(path)
    folder.append(replace(each, reason=without_folders(each.reason)) for each in samples)
    for beat in beats:
        folder.append_beat(beat)
    if stages:
        # Runs of earlier revisions have paths of the machine in these names.
        folder.write_stages(replace(each, name=without_paths(each.name)) for each in stages)
    # What was read has been brought to this schema.
    document = {**portable(record.document), "schema_version": SCHEMA_VERSION}
    folder.finish(RunRecord.parse(document, INFO))
    for name in PACKABLE:
        plain = path / name
        if plain.exists():
            write(path / f"{name}{PACKED}", pack(plain.read_bytes()))
            plain.unlink()
    (run,) = projection.load([path])
    text = json.dumps(derived.summary(run, Parts.of([run])), indent=2, allow_nan=False) + "\n"
    write(path / f"{SUMMARY}{PACKED}", pack(text.encode()))
