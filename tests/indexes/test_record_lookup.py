"""Lookups by the record index: in this process through a cache, and as a Spark job."""

from __future__ import annotations

import pickle
import uuid
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pytest
from index_cases import batch, create, lookup

from keymark import Table
from keymark.indexes.record import index
from keymark.indexes.record.cost import WORK_PER_KEY_BYTE
from keymark.indexes.record.index import lookup_shard
from keymark.table.errors import InputError
from keymark.table.index.protocol import LookupStats
from keymark.table.metadata.writer import write_group
from keymark.table.properties.options import BATCH_COLLECT
from keymark.table.runtime.runner import LocalRunner
from keymark.table.services import compact
from keymark.table.storage.local_storage import LocalStorage
from keymark.table.write import bulk_index, index_changes

CACHE = "keymark.hfile.block.cache.bytes"
BLOCK_SIZE = "hoodie.hfile.block.size"
GROUPS = "hoodie.metadata.record.index.min.filegroup.count"
# Every lookup of a handle with a session becomes a Spark job, however small.
DISTRIBUTED = {"keymark.local.bytes": "0"}
SHARDS = 3
KEYS = [f"k{number}" for number in range(60)]


@pytest.fixture
def table(tmp_path):
    """60 keys in three shards and two partition paths."""
    made = create(tmp_path / "t", "record", options={GROUPS: str(SHARDS)})
    made.bulk_insert(batch(KEYS, [f"p{number % 2}" for number in range(60)]))
    return made


def fresh(table, **options):
    """Another handle of the table; what it finds went through no cache."""
    return Table.open(table.storage.root, options={CACHE: "0", **options})


def test_a_handle_decodes_a_block_once(table):
    places, stats = lookup(table, KEYS)
    assert (stats.shards_read, stats.blocks_decoded) == (SHARDS, SHARDS)
    again, stats = lookup(table, KEYS)
    assert again == places
    assert stats.blocks_decoded == 0
    opened, stats = lookup(Table.open(table.storage.root), KEYS)
    assert opened == places
    assert stats.blocks_decoded == SHARDS


def test_a_scan_by_keys_reads_through_the_cache_of_lookups(table):
    lookup(table, KEYS)
    hits = table._cache.hits
    assert sum(part.num_rows for part in table.scan(keys=KEYS[:7]).tables()) == 7
    assert table._cache.hits > hits


@pytest.mark.parametrize(("capacity", "again"), [("0", SHARDS), ("1", SHARDS), ("1000000", 0)])
def test_the_cache_holds_the_bytes_that_the_option_says(table, capacity, again):
    opened = Table.open(table.storage.root, options={CACHE: capacity})
    first, _ = lookup(opened, KEYS)
    second, stats = lookup(opened, KEYS)
    assert first == second
    assert stats.blocks_decoded == again


def test_a_lookup_larger_than_the_cache_leaves_its_blocks_to_others(table):
    largest = max(shard.bytes for shard in table.info().shards)
    opened = Table.open(table.storage.root, options={CACHE: str(2 * 4 * largest)})
    lookup(opened, ["k1"])
    for _ in range(2):
        _, stats = lookup(opened, KEYS)
        assert stats.blocks_decoded == SHARDS
    _, stats = lookup(opened, ["k1"])
    assert stats.blocks_decoded == 0


@pytest.mark.parametrize(
    ("work", "total", "cores", "pieces"),
    [
        *((1, 1, 8, 1), (50, 100, 2, 1), (60, 100, 2, 1)),
        *((100, 100, 2, 2), (70, 100, 2, 2), (100, 100, 64, 25)),
    ],
)
def test_keys_of_a_shard_are_cut_by_the_share_of_a_core(work, total, cores, pieces):
    """Work in MiB of blocks; of less than 4 nobody opens a shard once more."""
    assert index._pieces(work << 20, total << 20, cores) == pieces


@pytest.mark.parametrize("compacted", [False, True])
def test_ranges_of_one_shard_are_looked_up_side_by_side(tmp_path, monkeypatch, compacted):
    """A few keys, too, and no block is decoded for two ranges."""
    made = create(tmp_path / "t", "record", options={GROUPS: "1", BLOCK_SIZE: "300"})
    made.bulk_insert(batch(KEYS))
    if compacted:
        assert made.compact() is not None
    asked = [*KEYS[::7], "absent", KEYS[1]]
    looked_up = []

    def counted(work):
        answer = lookup_shard(work)
        looked_up.append((work.keys.to_pylist(), answer.blocks_decoded))
        return answer

    monkeypatch.setattr(index, "lookup_shard", counted)
    places, stats = lookup(fresh(made), asked)
    whole, blocks = looked_up.pop(), stats.blocks_decoded
    assert blocks == whole[1] > 4
    monkeypatch.setattr(index, "_RANGE_BYTES_MIN", 1)
    monkeypatch.setattr(LocalRunner, "cores", 3)
    found, stats = lookup(fresh(made), asked)
    assert found == places
    assert found[asked.index("absent")] == (None, None)
    assert (stats.shards_read, stats.blocks_decoded) == (1, blocks)
    assert len(looked_up) == 3
    looked_up.sort()
    assert [key for keys, _ in looked_up for key in keys] == whole[0]
    assert max(count for _, count in looked_up) <= 1 + blocks // 3


def test_a_range_weighs_by_its_blocks(tmp_path, monkeypatch):
    """Not by its keys, which tell how much work all ranges are."""
    weighed = []

    def noted(self, function, items, *, weights, packed=True):
        if function is lookup_shard:
            weighed.extend(
                (item.shard.number, weight) for item, weight in zip(items, weights, strict=True)
            )
        return run(self, function, items, weights=weights, packed=packed)

    run = LocalRunner.run
    monkeypatch.setattr(LocalRunner, "run", noted)
    made = create(tmp_path / "t", "record", options={GROUPS: "2", BLOCK_SIZE: "300"})
    made.bulk_insert(batch(KEYS))
    monkeypatch.setattr(index, "_decoded", lambda item, *_: 90 if "0000" in item.file_id else 10)
    monkeypatch.setattr(index, "_RANGE_BYTES_MIN", 1)
    monkeypatch.setattr(LocalRunner, "cores", 3)
    lookup(fresh(made), KEYS)
    work = WORK_PER_KEY_BYTE * pa.array(KEYS).nbytes
    light = [weight for number, weight in weighed if number]
    heavy = [weight for number, weight in weighed if not number]
    assert light == [work // 10]
    assert heavy == [work * 90 // 300] * 3


def test_blocks_of_one_shard_are_compressed_side_by_side(tmp_path, monkeypatch):
    threads = []

    def counted(update):
        threads.append(update.threads)
        return write_group(update)

    monkeypatch.setattr(index_changes, "write_group", counted)
    monkeypatch.setattr(LocalRunner, "threads_each", lambda *_: 4)
    options = {GROUPS: "1", BLOCK_SIZE: "300"}
    made = create(tmp_path / "t", "record", options=options)
    made.upsert(batch(KEYS))
    made.upsert(batch(["one more"]))
    assert threads == [4, 1]
    assert made.check().ok
    assert None not in lookup(made, [*KEYS, "one more"])[0]


@pytest.mark.parametrize("step", ["bulk_insert", "upsert of a large batch", "compaction"])
def test_a_large_shard_is_compressed_by_several_threads(tmp_path, monkeypatch, step):
    threads = []

    def counted(work):
        threads.append(getattr(work, "update", work).threads)
        return done(work)

    module, name = (bulk_index, "build_shard")
    if step == "compaction":
        module, name = (compact, "compact_group")
    done = getattr(module, name)
    monkeypatch.setattr(module, name, counted)
    monkeypatch.setattr(LocalRunner, "threads_each", lambda *_: 4)
    options = {GROUPS: "1", BLOCK_SIZE: "300", BATCH_COLLECT: "0"}
    made = create(tmp_path / "t", "record", options=options)
    write = made.bulk_insert if step == "bulk_insert" else made.upsert
    write(batch(KEYS))
    if step == "compaction":
        assert made.compact() is not None
    assert max(threads) > 1
    assert made.check().ok
    assert None not in lookup(made, KEYS)[0]


def test_a_write_leaves_the_cache_alone(table):
    lookup(table, KEYS)
    held, misses = table._cache.held, table._cache.misses
    table.upsert(batch(KEYS, "p0", ts=2))
    assert (table._cache.held, table._cache.misses) == (held, misses)


def test_cached_answers_follow_commits_compaction_and_rollback(table):
    """One handle with a cache says after each step what a handle without one says."""

    def same():
        asked = [*KEYS, "new0", "new1", "absent"]
        answer = table.lookup(asked)
        assert answer.equals(fresh(table).lookup(asked))
        return dict(zip(asked, answer["file_id"].to_pylist(), strict=True))

    before = same()
    table.upsert(batch(["k0", "new0"], "p7", ts=2))
    assert same()["new0"] is not None
    table.delete(KEYS[:5])
    assert same()["k0"] is None
    assert table.compact() is not None
    assert same()["k0"] is None
    last = table.upsert(batch(["k0", "new1"], "p7", ts=3)).instant
    assert same()["k0"] is not None
    table.rollback(last)
    assert same()["k0"] is None
    table.drop_index()
    table.build_index()
    found = same()
    assert (found["k0"], found["new1"], found["k9"]) == (None, None, before["k9"])


class Watched(LocalStorage):
    """A storage that notes what is listed and opened in the folder of the index."""

    def list(self, path):
        SEEN.append(("list", path)) if "record_index" in path else None
        return super().list(path)

    def open(self, path):
        SEEN.append(("open", path)) if "record_index" in path else None
        return super().open(path)


SEEN: list[tuple[str, str]] = []


@pytest.mark.parametrize("capacity", ["0", "1000000"])
def test_a_table_that_did_not_change_is_not_listed_or_opened_again(table, capacity):
    table.upsert(batch(["one more"]))
    opened = Table(Watched.at(table.storage.root), {CACHE: capacity})
    first, fresh_stats = lookup(opened, KEYS)
    assert {kind for kind, _ in SEEN} == {"list", "open"}
    SEEN.clear()
    again, stats = lookup(opened, KEYS)
    assert again == first
    assert opened.scan(keys=KEYS[:3]).to_arrow().num_rows == 3
    assert not SEEN
    assert stats.blocks_decoded == (0 if int(capacity) else fresh_stats.blocks_decoded)
    table.delete(KEYS[:1])
    assert lookup(opened, KEYS)[0] == [(None, None), *first[1:]]
    assert {kind for kind, _ in SEEN} == {"list", "open"}
    SEEN.clear()


def test_what_is_kept_open_is_bounded_and_dealt_out_once(table, monkeypatch):
    """Lookups at the same time, of more shards than stay open."""
    monkeypatch.setattr("keymark.table.metadata.shard._OPENED", 2)
    opened = fresh(table)
    expected, _ = lookup(opened, KEYS)
    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(lambda _: lookup(opened, KEYS), range(12)))
    for places, stats in answers:
        assert places == expected
        assert stats.blocks_decoded == SHARDS
    shards = opened.state().metadata.opened_shards("record_index")
    assert len(shards[0].opened._idle) == 2
    travelled = pickle.loads(pickle.dumps(opened.state().metadata))
    assert "_opened" not in travelled.__dict__


def test_a_handle_sees_what_others_do_at_once(table):
    """Writes, compaction, a move to more shards, a rollback and a build of the index anew."""
    asked = [*KEYS, "new0", "absent"]
    kept, writer = Table.open(table.storage.root), Table.open(table.storage.root)
    steps = [
        lambda: writer.upsert(batch(["k0", "new0"], "p7", ts=2)),
        lambda: writer.delete(KEYS[:5]),
        writer.compact,
        lambda: writer.reshard_index(SHARDS + 2),
        lambda: writer.upsert(batch(["k1"], "p8", ts=4)),
        writer.rollback,
        lambda: (writer.drop_index(), writer.build_index()),
    ]
    for step in steps:
        kept.lookup(asked)
        step()
        assert kept.lookup(asked).equals(fresh(table).lookup(asked))


def test_the_answer_has_the_order_and_the_repetitions_of_the_keys_asked(table):
    asked = ["k9", "absent", "k3", "k9", "absent", "k9"]
    answer = table.lookup(asked)
    assert answer["record_key"].to_pylist() == asked
    ids = answer["file_id"].to_pylist()
    assert ids[0] == ids[3] == ids[5] is not None
    assert ids[1] is ids[4] is None
    assert table.lookup([]).num_rows == 0
    with pytest.raises(InputError, match="a record key is null"):
        table.lookup(["k9", None])


def tasks_of(spark, work):
    """The stages' numbers of tasks of the Spark jobs that `work` starts, and its answer."""
    context = spark.sparkContext
    group = str(uuid.uuid4())
    context.setJobGroup(group, "counted")
    answer = work()
    tracker = context.statusTracker()
    jobs = [tracker.getJobInfo(number) for number in tracker.getJobIdsForGroup(group)]
    context.setLocalProperty("spark.jobGroup.id", None)
    return [tracker.getStageInfo(s).numTasks for job in jobs for s in job.stageIds], answer


@pytest.mark.spark
def test_many_keys_are_a_spark_job_of_two_tasks_for_each_core(tmp_path, spark):
    made = create(tmp_path / "t", "record", options={GROUPS: "11"})
    made.bulk_insert(batch(KEYS))
    asked = [*KEYS, "absent", *KEYS[:3]]
    opened = Table.open(str(tmp_path / "t"), options=DISTRIBUTED, spark=spark)
    expected = fresh(made).lookup(asked)
    stats = LookupStats()
    tasks, answer = tasks_of(spark, lambda: opened.lookup(asked, stats=stats))
    assert stats.shards_read == 11
    assert tasks == [2 * spark.sparkContext.defaultParallelism]
    assert answer.equals(expected)
    tasks, answer = tasks_of(spark, lambda: opened.lookup(["k1", "k1"], stats=stats))
    assert tasks == [1]
    assert answer["file_id"].null_count == 0


@pytest.mark.spark
def test_few_keys_start_no_spark_job(table, spark):
    opened = Table.open(table.storage.root, spark=spark)
    tasks, _ = tasks_of(spark, lambda: opened.lookup(KEYS))
    assert tasks == []


@pytest.mark.spark
def test_a_frame_of_keys_is_asked_in_its_session(table, spark):
    opened = Table.open(table.storage.root, options=DISTRIBUTED)
    asked = ["k7", "absent", "k7", "k1"]
    frame = spark.createDataFrame([(key, "x" * 100) for key in asked], "id string, `a``b` string")
    answer = opened.lookup(frame.coalesce(1))
    assert opened._spark is not None
    assert answer.equals(fresh(table).lookup(asked))
    keyed = spark.createDataFrame([(key,) for key in asked], "record_key string")
    assert opened.lookup(keyed.coalesce(1)).equals(answer)
    with pytest.raises(InputError, match="record key field id is null or empty in row 1"):
        opened.lookup(spark.createDataFrame([("k1",), (None,)], "id string").coalesce(1))


@pytest.mark.spark
def test_of_a_frame_only_the_key_columns_are_collected(table, spark):
    frame = spark.createDataFrame([("k1", "p1")], "id string, dt string")
    bomb = frame.selectExpr("id", "dt", "raise_error('was collected') AS v")
    assert table.lookup(bomb)["file_id"].null_count == 0
