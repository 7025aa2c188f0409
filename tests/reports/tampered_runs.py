"""What somebody may alter in a published run, and what is said about it."""

from __future__ import annotations

import shutil

from synthetic_published import CELLS, one

from keymark.harness.store import contents

RECORD, SIMPLE, BUCKET = CELLS


def samples(**changes):
    """Alter the line that `where` names: a value by a number or function, or other fields."""
    where, fields = changes.pop("where"), changes

    def change(copy):
        def alter(lines):
            line = one(lines, **where)
            line.update({k: v(line[k]) if callable(v) else v for k, v in fields.items()})

        copy.lines("samples.jsonl", alter)

    return change


def info(change):
    return lambda copy: copy.info(change)


def machine(**fields):
    return info(lambda document: document["machine"].update(fields))


def lines(name, change):
    return lambda copy: copy.lines(name, change)


def without(name, **where):
    """Leave lines out."""

    def change(found):
        found[:] = [line for line in found if not all(line[key] == where[key] for key in where)]

    return lines(name, change)


def both(*changes):
    def change(copy):
        for each in changes:
            each(copy)

    return change


def made_right(*, clears_failed):
    """Let the wrong cell have been right."""

    def change(copy):
        def alter(found):
            for line in found:
                if line["cell"] == BUCKET:
                    line.update(verified=True, reason="")

        copy.lines("samples.jsonl", alter)
        if clears_failed:
            copy.info(lambda document: document.update(failed={}))

    return change


def doubled(found):
    found.append(dict(found[-1]))


def garbage(copy):
    data = contents.content(copy.path / "samples.jsonl")
    copy.write("samples.jsonl", data[:100] + b"\n" + data[101:])


def cut_off(copy):
    copy.write("samples.jsonl", contents.content(copy.path / "samples.jsonl")[:-20])


def fewer_repetitions(copy):
    both(
        without("samples.jsonl", repetition=2, warmup=False),
        without("stages.jsonl", repetition=2),
        info(lambda document: document.update(repetitions=2)),
        info(lambda document: document["scenario"]["schedule"].update(repetitions=2)),
    )(copy)


def first_two(found):
    del found[2:]


def steady(found):
    for beat in found:
        beat["cpu_s"] = 0.01


def linked(copy):
    shutil.move(copy.path / "canary.jsonl.gz", copy.path.parent / "canary.jsonl.gz")
    (copy.path / "canary.jsonl.gz").symlink_to(copy.path.parent / "canary.jsonl.gz")


UPSERT = {"cell": RECORD, "step": "upsert_1", "phase": "total"}
LOOKUP = {"cell": RECORD, "step": "lookup", "phase": "total", "metric": "wall_s"}
TASKS = UPSERT | {"step": "lookup", "metric": "tasks"}
BUILT = UPSERT | {"step": "build_index", "repetition": 0}
FAILED = {"cell": BUCKET, "step": "upsert_1", "repetition": 0, "warmup": True}
AGAIN = {"cell": SIMPLE, "step": "lookup", "metric": "tasks"}

# What is altered, and what a finding says once digest and summary are made anew; None where no
# number contradicts another one: such a run passes, and is shown as not repeated.
TAMPERED = {
    # One sample.
    "a total": (samples(where=UPSERT | {"metric": "wall_s"}, value=1.0), "and its phases"),
    "a phase": (
        samples(where=UPSERT | {"phase": "tag", "metric": "wall_s"}, value=9.0),
        "and its phases",
    ),
    "hours": (samples(where=LOOKUP, value=lambda v: 1e4 * v), "its steps took"),
    "a tenth": (samples(where=LOOKUP, value=lambda v: 0.9 * v), None),
    "below zero": (samples(where=LOOKUP, value=-1.0), "value: is below zero"),
    "a text": (samples(where=LOOKUP, value="0.3"), "samples.jsonl, line"),
    "tasks": (samples(where=TASKS, value=3), "its stages have 2"),
    "bytes read": (samples(where=UPSERT | {"metric": "input_bytes"}, value=0), "its stages have"),
    "shuffle": (
        samples(where=UPSERT | {"phase": "tag", "metric": "shuffle_write_bytes"}, value=1),
        "shuffle_write_bytes of tag is 1",
    ),
    "bytes written": (samples(where=UPSERT | {"metric": "bytes_written"}, value=1), "wrote 1 byte"),
    "bytes of a phase": (
        samples(where=UPSERT | {"phase": "index", "metric": "bytes_written"}, value=0),
        "and its phases",
    ),
    "a rate": (samples(where=BUILT | {"metric": "keys_per_s"}, value=1e6), "keys_per_s is 1e+06"),
    "a quotient": (samples(where=BUILT | {"metric": "bytes_per_key"}, value=20.0), "bytes_per_key"),
    "its divisor": (samples(where=BUILT | {"metric": "index_bytes"}, value=1.0), "bytes_per_key"),
    "processors": (samples(where=UPSERT | {"metric": "cpu_s"}, value=99.0), "on 2 cores"),
    "files read": (
        samples(where=LOOKUP | {"step": "point_query", "metric": "files_read"}, value=0),
        None,
    ),
    "the size of an index": (samples(where=UPSERT | {"metric": "index_bytes"}, value=1), None),
    "a warm-up": (samples(where=LOOKUP | {"repetition": 0, "warmup": True}, value=0.1), None),
    "a unit": (samples(where=LOOKUP, unit="ms"), "unit: is ms; wall_s is in s"),
    "a metric": (samples(where=LOOKUP, metric="wall_ms"), "is called wall_ms"),
    "no phase": (samples(where=LOOKUP, phase="think"), "think is no phase"),
    "another cell": (samples(where=LOOKUP, cell="native/other"), "plans no cell native/other"),
    "another index": (samples(where=LOOKUP, index="other"), "is no cell of native with other"),
    "another run": (samples(where=LOOKUP, run_id="r2"), "run_id: is r2, another run's"),
    "a line twice": (lines("samples.jsonl", doubled), "already"),
    "a line less": (without("samples.jsonl", **LOOKUP, repetition=1), "no time of the whole step"),
    "a counter less": (without("samples.jsonl", **TASKS, repetition=1), "has stages, and no tasks"),
    "a line moved": (samples(where=LOOKUP, repetition=2), "already"),
    "no line": (garbage, "samples.jsonl, line 1"),
    "cut off": (cut_off, "is cut off"),
    "a later schema": (samples(where=LOOKUP, schema_version=4), "schema version 4 is newer"),
    # One flag.
    "verified with a reason": (samples(where=FAILED, verified=True), "with a reason why not"),
    "verified": (samples(where=FAILED, verified=True, reason=""), "verified once and for all"),
    "verified everywhere": (made_right(clears_failed=False), "failed.native/bucket: says that"),
    "never failed": (made_right(clears_failed=True), "native/bucket was planned and has no"),
    "ended at a limit": (
        info(lambda document: document.update(ended={RECORD: "upsert_1: out of memory"})),
        "ended.native/record: says that upsert_1 ended",
    ),
    "not named as failed": (
        info(lambda document: document.update(failed={})),
        "does not say that native/bucket failed",
    ),
    "valid with a reason": (samples(where=AGAIN, valid=True), "with a reason why not"),
    "valid": (samples(where=AGAIN, valid=True, reason=""), None),
    "not verified": (samples(where=LOOKUP, verified=False), "without a reason"),
    "not verified with a reason": (
        samples(where=LOOKUP, verified=False, reason="wrong"),
        "verified once and for all",
    ),
    "counted as a warm-up": (samples(where=LOOKUP, warmup=True), "no time of the whole step"),
    # One field of the machine.
    "fewer cores": (machine(cores=1), "on 1 cores"),
    "more cores": (machine(cores=64), None),
    "cores as a text": (machine(cores="2"), "machine.cores"),
    "odd memory": (machine(memory_bytes=(8 << 30) + 1), "whole pages of memory"),
    "more memory": (machine(memory_bytes=64 << 30), None),
    "another processor": (machine(processor="a faster CPU"), None),
    "no processor": (machine(processor=""), "machine.processor: is not there"),
    "no disk": (machine(disk={}), "machine.disk: is not there"),
    "a disk without a size": (machine(disk={"file_system": "ext4"}), "machine.disk.bytes: is not"),
    "another disk": (machine(disk={"bytes": 1 << 30, "model": "a faster disk"}), None),
    "another kernel": (machine(release="6.9.9"), None),
    "a public type": (machine(instance="m9.large"), "machine.instance: is nothing that"),
    # A missing repetition.
    "the last repetition": (
        both(
            without("samples.jsonl", cell=RECORD, repetition=2),
            without("stages.jsonl", cell=RECORD, repetition=2),
        ),
        "native/record r2 upsert_1 is missing",
    ),
    "all last repetitions": (fewer_repetitions, "native/record|r2 was taken, and has no samples"),
    "a step of one": (
        both(
            without("samples.jsonl", cell=SIMPLE, repetition=0, step="upsert_1", warmup=False),
            without("stages.jsonl", cell=SIMPLE, repetition=0, step="upsert_1"),
        ),
        "native/global_simple r0 upsert_1 is missing",
    ),
    "a cell": (
        both(without("samples.jsonl", cell=RECORD), without("stages.jsonl", cell=RECORD)),
        "native/record was planned and has no samples",
    ),
    "more than were taken": (info(lambda d: d.update(repetitions=4)), "r3 lookup is missing"),
    "fewer than were taken": (info(lambda d: d.update(repetitions=2)), "run.json, repetitions: 2"),
    # The canary, the stages, and what else is said.
    "a steady canary": (lines("canary.jsonl", steady), None),
    "two beats": (lines("canary.jsonl", first_two), "too few beats"),
    "beats after the end": (
        lines("canary.jsonl", lambda found: found[-1].update(at=found[-1]["at"] + 1000)),
        "canary.jsonl, line 11, at: is not between",
    ),
    "beats in disorder": (lines("canary.jsonl", lambda found: found.reverse()), "line above it"),
    "a stage less": (
        without("stages.jsonl", cell=RECORD, step="upsert_1", repetition=1, phase="tag"),
        "its stages have",
    ),
    "all stages of a step": (
        without("stages.jsonl", cell=RECORD, step="lookup", repetition=1),
        "has 2 tasks, and no stage",
    ),
    "no version": (info(lambda d: d["versions"].pop("keymark")), "versions.keymark: is not there"),
    "no commit": (
        info(lambda d: d["versions"].update(revision="0123456789ab+")),
        "versions.revision: 0123456789ab+ had changes",
    ),
    "an end before the begin": (info(lambda d: d.update(finished=d["started"][:4])), "an end"),
    "a shorter run": (
        info(lambda d: d.update(finished="2026-11-26T09:00:30+00:00")),
        "started, finished: the run lasted 31 s",
    ),
    "another name": (info(lambda d: d.update(run_id="r2")), "holds samples of another run"),
    "a later run.json": (info(lambda d: d.update(schema_version=4)), "schema version 4, newer"),
    "still running": (info(lambda d: d.update(status="running")), "not ended"),
    "a secret": (
        info(lambda d: d["scenario"].update(options={"db.password": "hunter2"})),
        "scenario.options.db.password: is called like a secret",
    ),
    "a folder": (
        info(lambda d: d["notes"].append("from /home/me/trips")),
        "notes[1]: names a",
    ),
    "a strange file": (lambda copy: (copy.path / "events").write_text(""), "events: is none of"),
    "a link": (linked, "canary.jsonl.gz: is no plain file"),
    "no canary": (lambda copy: (copy.path / "canary.jsonl.gz").unlink(), "canary.jsonl: is not th"),
    "a file twice": (
        lambda copy: (copy.path / "samples.jsonl").write_bytes(
            contents.content(copy.path / "samples.jsonl")
        ),
        "samples.jsonl: is there twice",
    ),
}
