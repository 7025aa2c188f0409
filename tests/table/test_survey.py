"""A survey finds in tables of Hudi's what Hudi's own files and hudi-rs tell."""

from __future__ import annotations

import hashlib
import json
import shutil

import fastavro
import pyarrow.parquet as pq
import pytest
from table_cases import create, unpack
from table_cases import rows as make_rows

from keymark import Table
from keymark.harness.tables.hudi_rs import merged, slices
from keymark.table.errors import NotATableError, UnsupportedTableError
from keymark.table.properties.options import REQUEST_LOG
from keymark.table.read.later_versions import _file_groups
from keymark.table.storage import requests
from keymark.table.storage.stores import storage_at
from keymark.table.survey import samples
from keymark.table.survey.survey import survey

# Archive, folder of the table in it, table version.
TABLES = {
    "0.15.0": ("hudi-0.15.0-record_index", "record_index/table", 6),
    "0.15.0 replaced": ("hudi-0.15.0-states", "a_10_upsert", 6),
    "0.15.0 merge on read": ("hudi-0.15.0-variants", "f", 6),
    "0.15.0 bucket": ("hudi-0.15.0-bucket", "e2", 6),
    "1.0.2": ("hudi-1.0.2-own", "own/table", 8),
    "1.1.1": ("hudi-1.1.1-own", "own/table", 9),
    "1.2.0 partitioned": ("hudi-1.2.0-own_partitioned", "own_partitioned/table", 9),
    "1.2.0 merge on read": ("hudi-1.2.0-own_merge_on_read", "own_merge_on_read/table", 9),
}


@pytest.fixture(scope="module", params=TABLES)
def hudi(request, tmp_path_factory):
    """A table of Hudi's, and its version."""
    archive, folder, version = TABLES[request.param]
    return unpack(f"{archive}.tar.gz", tmp_path_factory.mktemp("hudi")) / folder, version


@pytest.fixture
def table(tmp_path):
    """A table of version 9 to write to."""
    return unpack("hudi-1.1.1-own.tar.gz", tmp_path) / "own" / "table"


def look(path, **options):
    return survey(str(path), storage_at(path, {}), **options)


def digest(folder):
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return hashlib.sha256(b"".join(bytes(f) + f.read_bytes() for f in files)).hexdigest()


def instants(table):
    """(updated, inserted, deleted) of each completed commit, by its time, as Hudi's JSON says."""
    timeline = table / ".hoodie"
    found = {}
    for path in [*timeline.glob("*.commit"), *timeline.glob("*.deltacommit")]:
        stats = json.loads(path.read_bytes())["partitionToWriteStats"].values()
        sums = [
            sum(stat[name] for listed in stats for stat in listed)
            for name in ("numUpdateWrites", "numInserts", "numDeletes")
        ]
        found[path.name.partition(".")[0]] = tuple(sums)
    return found


def test_files_are_those_of_hudi_rs(hudi):
    table, version = hudi
    found = look(table)
    listed = list(slices(table))
    assert found.version == version
    assert found.problems == ()
    bases = [each.base_file_name for each in listed if each.base_file_name]
    sizes = [
        (table / each.base_file_relative_path()).stat().st_size
        for each in listed
        if each.base_file_name
    ]
    assert (found.files.base_files, found.files.base_bytes) == (len(bases), sum(sizes))
    assert found.files.log_files == sum(len(each.log_file_names) for each in listed)
    assert found.files.partitions == len({each.partition_path for each in listed})
    rows = sum(
        pq.read_metadata(table / each.base_file_relative_path()).num_rows
        for each in listed
        if each.base_file_name
    )
    # Files that no commit names any more go by their bytes.
    assert found.rows == pytest.approx(rows, rel=0.05)
    if not found.merge_on_read:
        read = sum(merged(table, each.base_file_relative_path(), ()).num_rows for each in listed)
        assert read == rows


def test_a_survey_writes_nothing(hudi):
    before = digest(hudi[0])
    look(hudi[0])
    assert digest(hudi[0]) == before


def test_commits_of_version_6_and_of_later_ones_say_the_same(tmp_path):
    """One program wrote the same rows with each release."""
    six = unpack("hudi-0.15.0-record_index.tar.gz", tmp_path / "6") / "record_index" / "table"
    told = {
        write.time: (write.updated, write.inserted, write.deleted) for write in look(six).writes
    }
    assert told == {time: sums for time, sums in instants(six).items() if time in told}
    nine = unpack("hudi-1.1.1-own.tar.gz", tmp_path / "9") / "own" / "table"
    first, *others = look(nine).writes
    assert (first.operation, first.updated, first.deleted) == ("BULK_INSERT", 0, 0)
    assert first.inserted == 1200
    assert all(write.seconds and write.seconds > 0 for write in (first, *others))


def file_seconds(document):
    """Of a commit's document: what Hudi's tasks took for its files, summed over them."""
    stats = [stat for of in document["partitionToWriteStats"].values() for stat in of]
    return sum(sum(stat["runtimeStats"].values()) for stat in stats) / 1000


def test_seconds_of_files_are_those_that_hudis_commits_tell(tmp_path):
    six = unpack("hudi-0.15.0-record_index.tar.gz", tmp_path / "6") / "record_index" / "table"
    for write in look(six).writes:
        document = json.loads((six / ".hoodie" / f"{write.time}.commit").read_text())
        assert write.file_seconds == pytest.approx(file_seconds(document))
        assert write.file_seconds > 0
        assert write.seconds is None
    nine = unpack("hudi-1.1.1-own.tar.gz", tmp_path / "9") / "own" / "table"
    for write in look(nine).writes:
        (path,) = (nine / ".hoodie" / "timeline").glob(f"{write.time}_*.commit")
        (document,) = fastavro.reader(path.open("rb"))
        assert write.file_seconds == pytest.approx(file_seconds(document))


def test_a_commit_that_tells_no_seconds_of_files(tmp_path):
    """Keymark's own tell zeros."""
    create(tmp_path / "t").upsert(make_rows(range(3)))
    assert [write.file_seconds for write in look(tmp_path / "t").writes] == [None]


def test_record_index(hudi):
    table, _ = hudi
    found = look(table).record_index
    folder = table / ".hoodie/metadata/record_index"
    assert (found is None) == (not folder.exists())
    if found is not None:
        names = {
            p.name.lstrip(".").partition("_")[0]
            for p in folder.iterdir()
            if "record-index" in p.name
        }
        assert {shard.file_group for shard in found.shards} == names
        assert found.partitioned == ("2024" in str(names))
        assert (found.key_bytes is None) == (not list(folder.glob("*.hfile")))


def test_keys_and_filters(table):
    found = look(table)
    assert found.keys.fields == ("uuid",)
    assert found.keys.mean_bytes == 36
    assert found.filters.type_code == "SIMPLE"  # its small tables ask for it
    assert found.filters.false_positives < 1e-6


def test_a_bloom_filter_that_is_too_small_lets_keys_pass():
    """The formula against the filter itself, asked for keys that it does not have."""
    import pyarrow as pa

    from keymark.table.format.bloom.filter import DYNAMIC, SIMPLE, BloomFilter
    from keymark.table.format.bloom.text import BloomText
    from keymark.table.format.parquet.base_file import BaseFileFooter

    absent = pa.array([f"absent-{n}" for n in range(20_000)])
    for kind, rows, most in ((SIMPLE, 5_000, 0), (DYNAMIC, 5_000, 2_000), (DYNAMIC, 9_000, 3_000)):
        made = BloomFilter.create(
            type_code=kind, entries=1_000, fpp=0.01, max_entries=most or 1_000
        )
        made.add(pa.array([f"key-{n}" for n in range(rows)]))
        text = made.serialize()
        footer = BaseFileFooter(
            bloom_text=text, bloom_type=kind, min_key="a", max_key="z", num_rows=rows, metadata=None
        )
        asked = BloomText.parse(text, kind, "f").contains(absent).mean()
        told = samples._passed(BloomText.parse(text, kind, "f"), footer)
        assert told == pytest.approx(asked, rel=0.1)


def test_the_newest_commits_only(table):
    whole, newest = look(table), look(table, commits=1)
    assert newest.writes == whole.writes[-1:]
    assert newest.files == whole.files
    assert newest.rows == pytest.approx(whole.rows, rel=0.1)


def test_an_unfinished_write_is_not_counted(table):
    before = look(table)
    base = next(table.rglob("*.parquet"))
    file_id = base.name.partition("_")[0]
    shutil.copy(base, base.with_name(f"{file_id}_9-9-9_20991231000000000.parquet"))
    (table / ".hoodie/timeline/20991231000000000.commit.requested").touch()
    after = look(table)
    assert after.files == before.files
    assert after.services.pending == (("20991231000000000", "commit"),)


def test_log_files_of_an_unfinished_write_are_not_counted(tmp_path):
    """From version 8 on a log file has the instant of its own write."""
    table = unpack("hudi-1.2.0-own_merge_on_read.tar.gz", tmp_path) / "own_merge_on_read" / "table"
    before, groups = look(table), _file_groups(storage_at(str(table), {}))
    log = next(path for path in table.rglob(".*.log.*") if ".hoodie" not in path.parts)
    file_id = log.name.partition("_")[0]
    for name in (file_id, ".00000000-0000-0000-0000-000000000000-0"):
        shutil.copy(log, log.with_name(f"{name}_20991231000000000.log.1_0-1-0"))
    (table / ".hoodie/timeline/20991231000000000.deltacommit.requested").touch()
    assert look(table).files == before.files
    assert _file_groups(storage_at(str(table), {})) == groups


def test_a_log_file_of_a_write_that_ended_after_a_base_file_was_begun_is_on_top_of_it(tmp_path):
    """As where a write and a compaction ran side by side: Hudi 1.x goes by the completion."""
    table = unpack("hudi-1.2.0-own_merge_on_read.tar.gz", tmp_path) / "own_merge_on_read" / "table"
    before = look(table)
    last, earlier = "20261125090643744", "20261125090634000"
    base = min(table.rglob("*_20261125090634819.parquet"))
    for path in [*table.rglob(f"*{last}*")]:
        path.rename(path.with_name(path.name.replace(last, earlier)))
    assert look(table).files == before.files
    _, groups, _ = _file_groups(storage_at(str(table), {}))
    (log,) = dict(groups)[str(base.relative_to(table))]
    assert f".{base.name.partition('_')[0]}_{earlier}.log.1" in log


def test_a_bulk_insert_is_no_compaction(tmp_path):
    """Hudi 1.2 completes it as a commit in a merge-on-read table, too."""
    table = unpack("hudi-1.2.0-own_merge_on_read.tar.gz", tmp_path) / "own_merge_on_read" / "table"
    (first,) = (table / ".hoodie/timeline").glob("*.commit.requested")
    assert look(table).writes[0].operation == "BULK_INSERT"
    assert look(table).services.compactions == 0
    first.rename(first.with_name(first.name.replace("commit", "compaction")))
    assert look(table).services.compactions == 1


def test_file_ids_that_start_with_digits_by_chance_are_no_buckets(table):
    assert not look(table).files.buckets
    for path in [*table.rglob("*.parquet")]:
        path.rename(path.with_name(f"98765432{path.name[8:]}"))
    assert not look(table).files.buckets
    for path in [*table.rglob("*.parquet")]:
        path.rename(path.with_name(f"00000003{path.name[8:]}"))
    assert look(table).files.buckets


def test_base_files_of_a_bootstrap_are_told(table):
    for path in [*table.rglob("*.parquet")]:
        stem = path.name.rpartition("_")[0]
        path.rename(path.with_name(f"{stem}_00000000000001.parquet"))
    found = look(table)
    assert [line for line in found.problems if f"{found.files.base_files} base files are" in line]


def test_file_groups_that_an_older_commit_replaced_are_gone(tmp_path):
    table = unpack("hudi-0.15.0-states.tar.gz", tmp_path) / "a_10_upsert"
    whole, newest = look(table), look(table, commits=1)
    assert (newest.files, newest.services) == (whole.files, whole.services)


@pytest.mark.parametrize("damage", [b"", b"Obj\x01" + b"\xff" * 40, b"[1]", b"{", None])
def test_a_damaged_commit_is_told_and_the_rest_holds(table, damage):
    whole = look(table)
    path = max((table / ".hoodie/timeline").glob("*.commit"))
    path.write_bytes(path.read_bytes()[:-100] if damage is None else damage)
    found = look(table)
    assert len(found.writes) == len(whole.writes) - 1
    assert [path.name in line for line in found.problems] == [True]
    assert found.files == whole.files


def test_a_damaged_base_file_is_told_and_the_rest_holds(table):
    whole = look(table)
    base = max(table.rglob("*.parquet"), key=lambda path: (path.stat().st_size, path.name))
    for each in table.rglob("*.parquet"):
        if each.name.partition("_")[0] == base.name.partition("_")[0]:
            each.write_bytes(each.read_bytes()[:-1] + b"?")
    found = look(table)
    assert found.files.base_bytes == whole.files.base_bytes
    assert found.problems
    assert found.rows == pytest.approx(whole.rows, rel=0.2)


def test_no_table(tmp_path):
    with pytest.raises(NotATableError, match=r"hoodie\.properties is missing"):
        look(tmp_path)


@pytest.mark.parametrize(
    ("file", "told"),
    [
        ("_delta_log/00000000000000000000.json", r"but one of Delta \(it has _delta_log\)"),
        ("metadata/00000-9c12.metadata.json", r"but one of Iceberg \(it has metadata/\*"),
        ("metadata/v1.metadata.json", r"but one of Iceberg .*; `keymark data profile` profiles"),
        ("metadata/other.json", r"hoodie\.properties is missing"),
    ],
)
def test_a_table_of_another_format_is_named(tmp_path, file, told):
    (tmp_path / file).parent.mkdir()
    (tmp_path / file).touch()
    for opened in (look, Table.open):
        with pytest.raises(NotATableError, match=told) as caught:
            opened(str(tmp_path))
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("hoodie.table.version", "10"),
        ("hoodie.table.version", "x"),
        ("hoodie.table.base.file.format", "ORC"),
    ],
)
def test_other_tables_are_refused(table, name, value):
    path = table / ".hoodie/hoodie.properties"
    lines = [line for line in path.read_text().splitlines() if not line.startswith(f"{name}=")]
    path.write_text("\n".join([*lines, f"{name}={value}", ""]))
    with pytest.raises(UnsupportedTableError, match="not read"):
        look(table)


def test_requests_to_a_store(table, s3, tmp_path):
    url = s3.bucket() + "/t"
    storage = storage_at(url, s3.options)
    for path in table.rglob("*"):
        if path.is_file():
            storage.put(str(path.relative_to(table)), path.read_bytes())
    log = tmp_path / "log"
    log.mkdir()
    found = survey(url, storage_at(url, {**s3.options, REQUEST_LOG: str(log)}))
    assert found.files == look(table).files
    counted = requests.counted(log)
    # The listing tells the sizes of files.
    assert not any(counted.get(kind) for kind in ("head", "put", "delete"))
    assert sum(counted.values()) <= found.services.instants + 50
