"""Purges of tables with places that cannot be searched, or that hide a copy, in every folder.

After `proven: true` an independent search by root must find no key. Any other answer is a report
with `proven: false`, or one typed error. Once the obstacle is gone, an upsert of the purged keys
makes no second row, and another purge proves that they have gone.
"""

from __future__ import annotations

import functools
import gzip
import os
import shutil
import socket
import tempfile
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow.parquet as pq
from campaign import Outcome
from child_process import HangError, in_child, modes_count, mounts_work
from purge_cases import grep, key_rows
from table_cases import by_listing, create, data_rows, latest_files

from keymark import Table
from keymark.table.errors import TableError
from keymark.table.services.purge.purge import PurgeReport

KEYS = [f"customer-{number:05d}" for number in range(6)]
PURGED = [KEYS[0], KEYS[3]]
META = ".hoodie/metadata"
INDEXES = ("record", "global_bloom", "global_simple", "simple", "bloom", "bucket", "compact")
OPTIONS = {
    "hoodie.metadata.index.column.stats.enable": "true",
    "hoodie.metadata.index.bloom.filter.enable": "true",
    "hoodie.cleaner.commits.retained": "2",
    "hoodie.keep.min.commits": "3",
    "hoodie.keep.max.commits": "4",
}
FOLDERS = (
    "",
    "p0",
    "p1",
    "p0/below",
    "elsewhere",
    ".hoodie",
    ".hoodie/archived",
    ".hoodie/.temp",
    ".hoodie/.temp/20200101000000000",
    ".hoodie/.keymark",
    ".hoodie/.keymark/lease",
    META,
    f"{META}/.hoodie",
    f"{META}/.hoodie/archived",
    f"{META}/files",
    f"{META}/record_index",
    f"{META}/column_stats",
    f"{META}/bloom_filters",
    f"{META}/unknown",
)


@dataclass
class Scene:
    """A copy of a table with an obstacle in one of its folders.

    Attributes:
        root: the table.
        outside: a folder beside it.
        folder: the folder with the obstacle.
        copy: a base file that holds a purged key.
        mounts: to be made for whoever looks at the table.
        undo: takes the obstacle away.
    """

    root: Path
    outside: Path
    folder: Path
    copy: Path
    mounts: list[tuple[Path, Path]] = field(default_factory=list)
    undo: list[Callable[[], object]] = field(default_factory=list)

    def new(self, name: str = "odd") -> Path:
        """A path in the folder where something is made, and deleted at the end."""
        path = self.folder / name
        self.undo.append(lambda: _remove(path))
        return path

    def mode(self, path: Path, mode: int) -> None:
        """Another mode until the end."""
        before = path.stat().st_mode
        path.chmod(mode)
        self.undo.append(lambda: path.exists() and path.chmod(before))

    def linked(self, path: Path) -> None:
        """Move something out of the table and leave a link, until the end."""
        moved = self.outside / "moved"
        shutil.move(path, moved)
        path.symlink_to(moved)
        self.undo.append(lambda: path.is_symlink() and (path.unlink(), shutil.move(moved, path)))

    def a_file(self) -> Path | None:
        """A file of the folder that was there before."""
        found = [path for path in self.folder.iterdir() if path.is_file()]
        return max(found, key=lambda path: path.stat().st_size, default=None)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        path.chmod(0o755)
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def fifo(scene: Scene) -> None:
    os.mkfifo(scene.new())


def fifo_with_the_name_of_a_base_file(scene: Scene) -> None:
    os.mkfifo(scene.new(scene.copy.name.replace("_", "0_", 1)))


def unix_socket(scene: Scene) -> None:
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(os.path.relpath(scene.new()))


def link_to_a_file(scene: Scene) -> None:
    shutil.copy(scene.copy, scene.outside / "copy")
    scene.new().symlink_to(scene.outside / "copy")


def link_to_a_base_file(scene: Scene) -> None:
    shutil.copy(scene.copy, scene.outside / scene.copy.name)
    scene.new("0" + scene.copy.name).symlink_to(scene.outside / scene.copy.name)


def link_to_a_folder(scene: Scene) -> None:
    shutil.copy(scene.copy, scene.outside / scene.copy.name)
    scene.new().symlink_to(scene.outside)


def link_within_the_table(scene: Scene) -> None:
    scene.new().symlink_to(scene.root / "p1")


def link_to_the_table(scene: Scene) -> None:
    scene.new().symlink_to(scene.root)


def dangling_link(scene: Scene) -> None:
    scene.new().symlink_to(scene.outside / "absent")


def link_to_itself(scene: Scene) -> None:
    scene.new().symlink_to(scene.folder / "odd")


def folder_is_a_link(scene: Scene) -> None:
    if scene.folder != scene.root:
        scene.linked(scene.folder)


def file_is_a_link(scene: Scene) -> None:
    file = scene.a_file()
    if file is not None:
        scene.linked(file)


def copy_with_an_odd_name(scene: Scene) -> None:
    shutil.copy(scene.copy, scene.new("odd.bak"))


def copy_with_a_hidden_name(scene: Scene) -> None:
    shutil.copy(scene.copy, scene.new(".odd.parquet"))


def copy_with_a_newline_in_its_name(scene: Scene) -> None:
    path = scene.new("odd\n\udcff")
    path.write_bytes(scene.copy.read_bytes())


def copy_with_the_name_of_a_base_file(scene: Scene) -> None:
    shutil.copy(scene.copy, scene.new("0" + scene.copy.name))


def compressed_copy(scene: Scene) -> None:
    scene.new("odd.gz").write_bytes(gzip.compress(PURGED[0].encode()))


def half_a_copy(scene: Scene) -> None:
    data = scene.copy.read_bytes()
    scene.new().write_bytes(data[: len(data) * 2 // 3])


def text(scene: Scene) -> None:
    scene.new("notes.txt").write_text(f"about {PURGED[0]}")


def copy_of_an_index_file(scene: Scene) -> None:
    files = sorted((scene.root / META / "column_stats").glob("*hfile"))
    shutil.copy(files[-1], scene.new())


def unreadable_copy(scene: Scene) -> None:
    path = scene.new()
    shutil.copy(scene.copy, path)
    path.chmod(0)


def _folder_with_a_copy(scene: Scene, mode: int) -> None:
    path = scene.new()
    path.mkdir()
    shutil.copy(scene.copy, path / scene.copy.name)
    path.chmod(mode)


def copy_in_a_folder_without_rights(scene: Scene) -> None:
    _folder_with_a_copy(scene, 0)


def copy_in_a_folder_that_only_lists(scene: Scene) -> None:
    _folder_with_a_copy(scene, 0o444)


def copy_in_a_folder_that_only_enters(scene: Scene) -> None:
    _folder_with_a_copy(scene, 0o111)


def copy_in_a_folder_that_nobody_writes(scene: Scene) -> None:
    _folder_with_a_copy(scene, 0o555)


def folder_without_rights(scene: Scene) -> None:
    scene.mode(scene.folder, 0)


def folder_that_only_lists(scene: Scene) -> None:
    scene.mode(scene.folder, 0o444)


def folder_that_only_enters(scene: Scene) -> None:
    scene.mode(scene.folder, 0o111)


def folder_that_nobody_writes(scene: Scene) -> None:
    scene.mode(scene.folder, 0o555)


def file_without_rights(scene: Scene) -> None:
    file = scene.a_file()
    if file is not None:
        scene.mode(file, 0)


def file_that_nobody_writes(scene: Scene) -> None:
    file = scene.a_file()
    if file is not None:
        scene.mode(file, 0o444)


def mounted_folder(scene: Scene) -> None:
    shutil.copy(scene.copy, scene.outside / "copy")
    scene.new().mkdir()
    scene.mounts.append((scene.outside, scene.folder / "odd"))


def mounted_file(scene: Scene) -> None:
    shutil.copy(scene.copy, scene.outside / "copy")
    scene.new().write_bytes(b"")
    scene.mounts.append((scene.outside / "copy", scene.folder / "odd"))


def table_mounted_within_itself(scene: Scene) -> None:
    scene.new().mkdir()
    scene.mounts.append((scene.root, scene.folder / "odd"))


OBSTACLES = {
    made.__name__: made
    for made in (
        fifo,
        folder_without_rights,
        copy_with_an_odd_name,
        link_to_a_file,
        file_without_rights,
        mounted_folder,
        folder_is_a_link,
        copy_with_the_name_of_a_base_file,
        link_to_a_folder,
        folder_that_only_lists,
        unix_socket,
        half_a_copy,
        link_to_a_base_file,
        folder_that_only_enters,
        copy_with_a_hidden_name,
        fifo_with_the_name_of_a_base_file,
        folder_that_nobody_writes,
        mounted_file,
        link_within_the_table,
        unreadable_copy,
        compressed_copy,
        dangling_link,
        file_that_nobody_writes,
        copy_in_a_folder_without_rights,
        file_is_a_link,
        copy_with_a_newline_in_its_name,
        link_to_itself,
        copy_in_a_folder_that_only_lists,
        table_mounted_within_itself,
        copy_of_an_index_file,
        link_to_the_table,
        copy_in_a_folder_that_only_enters,
        text,
        copy_in_a_folder_that_nobody_writes,
    )
}


@functools.cache
def _prepared(index: str) -> Path:
    """A table of that index with old slices, logs, archives; made once a process."""
    root = Path(tempfile.mkdtemp(prefix="erasure-")) / "t"
    given = dict(OPTIONS)
    if index == "bucket":
        given["hoodie.bucket.index.num.buckets"] = "1"
    table = create(root, given, index=index)
    table.bulk_insert(key_rows(KEYS))
    for turn in range(6):
        table.upsert(key_rows(KEYS[turn % 3 :], ts=2 + turn, v=f"turn {turn}"))
    for folder in FOLDERS:
        (root / folder).mkdir(parents=True, exist_ok=True)
    return root


@functools.cache
def _usable() -> dict[str, bool]:
    """Whether modes count and mounts work here."""
    with tempfile.TemporaryDirectory() as folder:
        return {"modes": modes_count(Path(folder)), "mounts": mounts_work(Path(folder))}


@dataclass(frozen=True)
class Erasure:
    """A case is an index, an obstacle and a folder."""

    seed: int = 1
    seconds: float = 240
    share: int = 8

    def cases(self) -> list[str]:
        found = []
        for at, folder in enumerate(FOLDERS):
            for number, obstacle in enumerate(OBSTACLES):
                index = INDEXES[(at + number) % len(INDEXES)]
                found.append((number, f"{index} {obstacle} {folder}"))
        return [case for _, case in sorted(found)]

    def run(self, case: str, folder: Path) -> Outcome:
        index, obstacle, where = case.split(" ", 2)
        outcome = Outcome()
        usable = _usable()
        if not usable["modes"]:
            outcome.counts["skipped: modes of files stop nobody here"] += 1
            return outcome
        if "mounted" in obstacle and not usable["mounts"]:
            outcome.counts["skipped: no bind mounts here"] += 1
            return outcome
        root = shutil.copytree(_prepared(index), folder / "t")
        rows = by_listing(root)
        (folder / "outside").mkdir()
        scene = Scene(root, folder / "outside", root / where, _holding(root))
        os.chdir(folder)
        OBSTACLES[obstacle](scene)
        try:
            outcome.counts[f"answers: {_answer(scene, outcome)}"] += 1
        finally:
            for undo in reversed(scene.undo):
                undo()
        _afterwards(root, set(rows), outcome)
        outcome.failures = [f"{case}: {line}" for line in outcome.failures]
        return outcome


def _holding(root: Path) -> Path:
    """The current base file with the first purged key."""
    return next(
        root / path
        for path in latest_files(root).values()
        if PURGED[0] in pq.ParquetFile(root / path).read(["k"]).column(0).to_pylist()
    )


def _answer(scene: Scene, outcome: Outcome) -> str:
    """What a purge without rights says; a false proof is a failure."""
    root = str(scene.root)

    def purge() -> PurgeReport:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return Table.open(root).purge(PURGED)

    try:
        report = in_child(purge, mounts=scene.mounts)
    except TableError:
        return "refused"
    except HangError as error:
        outcome.failures.append(f"hangs: {error}")
        return "hangs"
    if not report.proven:
        if not report.files_left and not report.unsearched:
            outcome.failures.append("not proven, and nothing is named")
        return "proven: false"
    found = in_child(lambda: grep(root, PURGED), mounts=scene.mounts, rights=True)
    if found or scene.root.joinpath("odd").is_symlink():
        outcome.failures.append(f"a false proof: {found}")
    return "proven: true, and nothing is found"


def _afterwards(root: Path, keys: set[str], outcome: Outcome) -> None:
    """The obstacle is gone: the table holds its rows, an upsert makes no second one."""
    table = Table.open(str(root))
    left = set(by_listing(root))
    if not keys - set(PURGED) <= left <= keys:
        outcome.failures.append(f"rows afterwards: {sorted(left)}")
    table.upsert(key_rows(KEYS, ts=50))
    if set(by_listing(root)) != keys or set(data_rows(table)) != keys:
        outcome.failures.append("an upsert did not make one row a key")
    if "record_index" in table.config.metadata_partitions and not table.check().ok:
        outcome.failures.append("the index differs from the data")
    if not table.purge(PURGED).proven or grep(root, PURGED):
        outcome.failures.append("another purge without the obstacle does not erase the keys")


CAMPAIGN = Erasure()
