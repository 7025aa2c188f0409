"""Which files of a listing a reader sees, by a plain model."""

from __future__ import annotations

import random

import pytest

from keymark.table.errors import CorruptFileError, UnsupportedTableError
from keymark.table.layout.model import Instant
from keymark.table.layout.naming import BOOTSTRAPPED
from keymark.table.layout.view import listed_files, snapshot
from keymark.table.storage.local_storage import LocalStorage
from keymark.table.timeline.commit_metadata import CommitMetadata
from keymark.table.timeline.timeline import Timeline

TIMES = [f"2026010100000{n}000" for n in range(6)]


def timeline(rng):
    """The first instants are archived; some are pending; one replaced file groups."""
    instants, commits = [], {}
    for time in TIMES[2:]:
        action = rng.choice(["commit", "commit", "replacecommit", "clean"])
        state = rng.choice(["completed", "completed", "inflight"])
        instants.append(Instant(time=time, action=action, state=state))
        if action == "replacecommit":
            taken_out = {rng.choice(["", "p"]): (f"id{rng.randrange(4)}",)}
            commits[f".hoodie/{time}.replacecommit"] = CommitMetadata(
                operation="CLUSTER",
                schema=None,
                files=(),
                rows=0,
                bytes_written=0,
                replaced=taken_out,
            )
    return Timeline(LocalStorage("/nowhere"), "", tuple(instants), commits)


def seen(listing, known):
    """The model: of each group the file of the latest instant that is visible and not replaced."""
    commits = [i.time for i in known.completed() if i.action != "clean"]
    latest = {}
    for file in listed_files(listing):
        location = (file.partition_path, file.file_id)
        archived = not commits or file.instant_time < min(commits)
        if file.instant_time not in commits and not (commits and archived):
            continue
        if location in known.replaced_file_ids():
            continue
        if location not in latest or latest[location].instant_time < file.instant_time:
            latest[location] = file
    return tuple(latest[location] for location in sorted(latest))


@pytest.mark.parametrize("seed", range(40))
def test_the_latest_visible_file_of_each_group_is_seen(seed):
    rng = random.Random(seed)
    listing = {"": {}, "p": {}, "q/r": {}}
    for _ in range(rng.randrange(30)):
        name = f"id{rng.randrange(4)}_0-0-{rng.randrange(2)}_{rng.choice(TIMES)}.parquet"
        listing[rng.choice(list(listing))][name] = rng.randrange(1, 100)
    if rng.random() < 0.3:
        # Not all that is listed is a base file.
        listing["p"][rng.choice(["part-0.parquet", ".log", "a\nb", "id1_0-0-0_2\n"])] = 0
    known = timeline(rng)
    assert snapshot(listing, known).files == seen(listing, known)


def test_a_base_file_without_bytes_is_damage():
    listing = {"p": {f"id1_0-0-0_{TIMES[0]}.parquet": 0}}
    with pytest.raises(CorruptFileError, match=f"p/id1_0-0-0_{TIMES[0]}.parquet"):
        snapshot(listing, timeline(random.Random(0)))


def test_files_that_hold_the_meta_columns_alone_are_refused_until_they_are_written_anew():
    times = (BOOTSTRAPPED, TIMES[0])
    instants = tuple(Instant(time=time, action="commit", state="completed") for time in times)
    known = Timeline(LocalStorage("/nowhere"), "", instants)
    bare = {f"id{n}_0-0-0_{BOOTSTRAPPED}.parquet": 9 for n in range(2)}
    anew = {f"id{n}_0-0-1_{TIMES[0]}.parquet": 9 for n in range(2)}
    with pytest.raises(UnsupportedTableError, match="2 base files are of Hudi's bootstrap"):
        snapshot({"p": bare}, known)
    assert [file.name for file in snapshot({"p": bare | anew}, known).files] == list(anew)
