"""A purge of a table with places that nobody can search: links, modes, FIFOs, disguised copies.

The answer is `proven: false` with the path, or one typed error before anything changes. After
neither may a later upsert make a second row.
"""

from __future__ import annotations

import contextlib
import gzip
import json
import os
import shutil
import socket
from dataclasses import asdict

import pyarrow.parquet as pq
import pytest
from child_process import in_child, mode_of, modes_count
from purge_cases import grep, key_rows, unchanged
from table_cases import by_listing, create, data_rows, latest_files
from typer.testing import CliRunner

from keymark import Table
from keymark.table.cli import app
from keymark.table.errors import InputError, StorageError
from keymark.table.layout.naming import METADATA

KEYS = [f"customer-{number:05d}" for number in range(6)]
# p0 holds keys 0 and 3, p1 keys 1 and 4, p2 keys 2 and 5, or some such order.


@pytest.fixture
def root(tmp_path):
    table = create(tmp_path / "t")
    table.bulk_insert(key_rows(KEYS))
    table.upsert(key_rows(KEYS[:2], ts=2, v="new"))
    return tmp_path / "t"


@pytest.fixture
def modes(tmp_path):
    if not modes_count(tmp_path):
        pytest.skip("the modes of files do not stop this user")


def base_of(root, key):
    """The path of the current base file with a key."""
    return root / next(
        path
        for path in latest_files(root).values()
        if key in pq.ParquetFile(root / path).read(["k"]).column(0).to_pylist()
    )


def assert_one_row_each(root):
    """After another upsert of all keys each has one row, and the index agrees."""
    table = Table.open(root)
    table.upsert(key_rows(KEYS, ts=50))
    assert by_listing(root).keys() == set(KEYS)
    assert table.check().ok


def test_a_partition_that_is_a_link_is_refused(root, tmp_path):
    partition = base_of(root, KEYS[0]).parent
    shutil.move(partition, tmp_path / "elsewhere")
    partition.symlink_to(tmp_path / "elsewhere")
    before = unchanged(root)
    table = Table.open(root)
    with pytest.raises(StorageError, match=f"{partition.name} is a symbolic link"):
        table.purge([KEYS[0]])
    assert unchanged(root) == before
    for read in (data_rows, Table.check):
        with pytest.raises(StorageError, match=f"{partition.name} is a symbolic link"):
            read(table)
    partition.unlink()
    shutil.move(tmp_path / "elsewhere", partition)
    assert_one_row_each(root)


@pytest.mark.usefixtures("modes")
def test_a_partition_that_may_not_be_entered_is_refused(root):
    partition = base_of(root, KEYS[0]).parent
    before = unchanged(root)
    with mode_of(partition, 0), pytest.raises(StorageError, match=partition.name):
        in_child(lambda: Table.open(root).purge([KEYS[0]]))
    assert unchanged(root) == before
    assert_one_row_each(root)


@pytest.mark.usefixtures("modes")
def test_a_current_file_that_may_not_be_read_is_refused(root):
    """Its key may not lose its index entry: a later upsert would make a second row."""
    file = base_of(root, KEYS[0])
    before = unchanged(root)
    with mode_of(file, 0), pytest.raises(StorageError, match=f"{file.name}: Permission denied"):
        in_child(lambda: Table.open(root).purge([KEYS[0], KEYS[2]]))
    assert unchanged(root) == before
    assert_one_row_each(root)


@pytest.mark.usefixtures("modes")
def test_a_file_of_the_index_that_may_not_be_read_is_refused(root):
    file = min((root / METADATA / "record_index").glob(".record-index*"))
    before = unchanged(root)
    with mode_of(file, 0), pytest.raises(StorageError, match=file.name):
        in_child(lambda: Table.open(root).purge(KEYS))
    assert unchanged(root) == before


@pytest.mark.usefixtures("modes")
def test_a_savepoint_with_a_file_that_may_not_be_read_is_refused(root):
    file = base_of(root, KEYS[0])
    table = Table.open(root)
    table.savepoint()
    table.upsert(key_rows(KEYS, ts=3))
    before = unchanged(root)
    with mode_of(file, 0), pytest.raises(StorageError, match=file.name):
        in_child(lambda: Table.open(root).purge([KEYS[0]]))
    assert unchanged(root) == before


@pytest.mark.usefixtures("modes")
def test_an_older_slice_that_may_not_be_read_is_named(root):
    file = base_of(root, KEYS[0])
    Table.open(root).upsert(key_rows(KEYS, ts=3))
    with mode_of(file, 0):
        report = in_child(lambda: Table.open(root).purge([KEYS[0]]))
    assert not report.proven
    assert report.unsearched == (f"{file.relative_to(root)}: Permission denied",)
    assert report.deleted == 1
    assert_one_row_each(root)
    assert Table.open(root).purge([KEYS[0]]).proven
    assert grep(root, [KEYS[0]]) == []


@pytest.mark.usefixtures("modes")
@pytest.mark.parametrize("folder", ["hidden", ".hoodie/hidden", ".hoodie/metadata/.hoodie/hidden"])
def test_a_folder_that_may_not_be_entered_is_named(root, folder):
    hidden = root / folder
    hidden.mkdir()
    shutil.copy(base_of(root, KEYS[0]), hidden / "copy")
    with mode_of(hidden, 0):
        report = in_child(lambda: Table.open(root).purge([KEYS[0]]))
    assert not report.proven
    assert report.unsearched == (f"{folder}: cannot be listed: Permission denied",)
    assert_one_row_each(root)


def _fifo(path, _copy):
    os.mkfifo(path)


def _socket(path, _copy):
    # By its name alone: the path of a socket is 107 bytes at most.
    with contextlib.chdir(path.parent), socket.socket(socket.AF_UNIX) as made:
        made.bind(path.name)


def _link_to_file(path, copy):
    path.symlink_to(copy)


def _link_to_folder(path, copy):
    path.symlink_to(copy.parent)


def _loop(path, _copy):
    path.symlink_to(path)


@pytest.mark.parametrize("folder", ["", "p0", ".hoodie", ".hoodie/archived"])
@pytest.mark.parametrize("make", [_fifo, _socket, _link_to_file, _link_to_folder, _loop])
def test_what_is_no_plain_file_is_named(root, tmp_path, folder, make):
    copy = tmp_path / "outside" / "copy"
    copy.parent.mkdir()
    shutil.copy(base_of(root, KEYS[0]), copy)
    (root / folder).mkdir(exist_ok=True)
    odd = root / folder / "odd"
    make(odd, copy)
    try:
        report = in_child(lambda: Table.open(root).purge([KEYS[0]]))
    except StorageError as error:
        assert "odd is a symbolic link" in str(error)  # noqa: PT017  both answers are right
    else:
        assert not report.proven
        assert [line.partition(": ")[0] for line in report.unsearched] == [
            str(odd.relative_to(root))
        ]
    odd.unlink()
    assert Table.open(root).purge([KEYS[0]]).proven


@pytest.mark.parametrize("name", ["copy.bak", ".hoodie/metadata/copy", "p0/.copy.parquet", "a/b/c"])
@pytest.mark.parametrize("key", [KEYS[0], "k7"])
def test_a_copy_of_a_file_under_another_name_is_found(root, name, key):
    """Its pages are compressed: the bytes of the file do not show the key."""
    table = Table.open(root)
    table.upsert(key_rows([key], ts=9))
    copy = root / name
    copy.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(base_of(root, key), copy)
    report = table.purge([key])
    assert (report.proven, report.files_left, report.unsearched) == (False, 1, ())
    copy.unlink()
    assert table.purge([key]).proven


def test_a_copy_of_an_index_file_or_of_a_log_is_found(root):
    table = Table.open(root)
    folder = root / METADATA / "record_index"
    table.upsert(key_rows(["k7"]))
    for number, file in enumerate(sorted(folder.iterdir())):
        shutil.copy(file, root / f"copy-{number}")
    report = table.purge(["k7"])
    assert (report.proven, report.files_left) == (False, 1)
    table.compact()
    shutil.copy(next(folder.glob("*.hfile")), root / "copy-0")
    assert not table.purge(KEYS[:3]).proven


def test_compressed_text_is_found(root):
    (root / "p0/export.csv.gz").write_bytes(b"head" + gzip.compress(f"a\n{KEYS[5]}\n".encode()))
    report = Table.open(root).purge([KEYS[5]])
    assert (report.proven, report.files_left) == (False, 1)


def test_compressed_text_is_found_in_a_file_of_any_size(root):
    """Behind a quarter of a gigabyte, and across the parts in which a file is read."""
    with (root / "p0/export.img").open("wb") as file:
        file.seek((1 << 28) - 1)
        file.write(gzip.compress(f"a\n{KEYS[5]}\n".encode()))
    report = Table.open(root).purge([KEYS[5]])
    assert (report.proven, report.files_left) == (False, 1)


def test_a_copy_that_is_cut_off_is_named(root):
    copy = root / "half"
    data = base_of(root, KEYS[0]).read_bytes()
    copy.write_bytes(data[: len(data) // 2])
    report = Table.open(root).purge([KEYS[0]])
    assert not report.proven
    assert [line.partition(":")[0] for line in report.unsearched] == ["half"]


def test_lines_hold_no_key_and_the_command_shows_them(root, tmp_path):
    os.mkfifo(root / f"of {KEYS[0]}")
    os.mkfifo(os.fsencode(root) + b"/\xff\n")
    keys = tmp_path / "keys.txt"
    keys.write_text(f"{KEYS[0]}\n")
    asked = ["purge", str(root), "--keys", str(keys)]
    done = CliRunner().invoke(app, [*asked, "--json"])
    assert done.exit_code == 1
    answer = json.loads(done.stdout)
    assert answer["unsearched"] == [
        "of (a key): is not a plain file",
        "\\xff\n: is not a plain file",
    ]
    done = CliRunner().invoke(app, asked)
    assert done.exit_code == 1
    assert "of (a key): is not a plain file" in done.stdout
    assert KEYS[0] not in done.stdout


def test_a_clean_table_has_nothing_unsearched(root):
    report = Table.open(root).purge([KEYS[0]])
    assert (report.proven, asdict(report)["unsearched"]) == (True, ())


@pytest.mark.usefixtures("modes")
def test_an_index_that_may_not_be_deleted_is_not_dropped(root):
    folder = root / METADATA / "record_index"
    before = unchanged(root)
    with mode_of(folder, 0o555), pytest.raises(StorageError, match=r"cannot delete .*record_index"):
        in_child(lambda: Table.open(root).drop_index("record_index"))
    after = unchanged(root)
    # Properties begin with the time at which they were written.
    dated = ".hoodie/hoodie.properties"
    assert before.pop(dated).split(b"\n")[2:] == after.pop(dated).split(b"\n")[2:]
    assert after == before
    assert Table.open(root).check().ok
    Table.open(root).drop_index("record_index")
    assert not folder.exists()


@pytest.mark.usefixtures("modes")
def test_an_index_of_which_a_part_could_be_deleted_is_out_of_use(root):
    folder = root / METADATA / "record_index"
    kept = folder / "sub"
    kept.mkdir()
    (kept / "file").write_bytes(b"")
    kept.chmod(0o555)
    with pytest.raises(StorageError, match=r"is dropped, .* cannot delete"):
        in_child(lambda: Table.open(root).drop_index("record_index"))
    # It is in a staging folder now, in nobody's way.
    assert not folder.exists()
    assert "record_index" not in Table.open(root).config.metadata_partitions
    with pytest.raises(InputError, match="the table has no record_index"):
        Table.open(root).drop_index("record_index")
    table = Table.open(root)
    assert table.build_index("record_index")
    assert table.check().ok
