"""The formulas of the cost model against values worked out by hand, and how they grow."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keymark.harness.store.units import REQUEST_COUNTS
from keymark.indexes.bloom import cost as bloom_cost
from keymark.indexes.record import cost as record
from keymark.indexes.spec import TASKS, THREADS
from keymark.indexes.workload import (
    FILTER_BYTES,
    LOCAL_BYTES,
    PAGE_ROWS,
    Workload,
    files_for,
    rewritten,
    touched,
)
from keymark.reports.plan.decide import options_of
from keymark.reports.plan.formulas import (
    HUDI,
    KEYMARK,
    POINT_QUERIES,
    QUANTITIES,
    cost_model,
)
from keymark.table.index.build.footers import GroupSizing, estimate_groups
from keymark.table.index.protocol import index_name
from keymark.table.properties import options

amounts, mode_of, name_of = KEYMARK.amounts, KEYMARK.mode_of, KEYMARK.name_of
SMALL = Workload(rows=100_000, batch=1_000, cores=2, partitions=10, files=20, shards=4)

workloads = st.builds(
    Workload,
    rows=st.integers(1_000, 10**10),
    batch=st.integers(1, 10**7),
    cores=st.integers(1, 1_000),
    partitions=st.integers(1, 100),
    files=st.integers(100, 10**6),
    shards=st.integers(1, 10_000),
    local_shards=st.integers(1, 10_000).map(float),
    buckets=st.integers(1, 10**6),
    new_share=st.floats(0, 1),
    ordered=st.booleans(),
    local_bytes=st.sampled_from([0.0, float(64 << 20), 1e18]),
)


@pytest.mark.parametrize(
    ("at", "most"),
    [
        ({"rows": 5e7, "shards": 16}, 10_000),
        ({"rows": 1e9, "shards": 89}, 89),
        ({"rows": 1e9, "shards": 49, "ordered": True}, 49),
        ({"rows": 1e12, "shards": 20_000}, 20_000),
    ],
)
def test_a_table_gets_as_many_file_groups_as_were_predicted(at, most):
    """Hudi takes 48 bytes a mapping; keys that grow with time take half of them."""
    given = options_of(HUDI, "record", replace(SMALL, **at))
    ends = [int(given[f"{record.PREFIX}.{end}.filegroup.count"]) for end in ("min", "max")]
    assert ends == [at["shards"], most]
    sizing = GroupSizing(minimum=ends[0], maximum=ends[1])
    assert estimate_groups(int(at["rows"]), sizing) == at["shards"]


def test_types_of_indexes_are_those_of_tables():
    told = {
        index: options_of(KEYMARK, index, SMALL)["hoodie.index.type"] for index in KEYMARK.known
    }
    assert {index: index_name(kind) for index, kind in told.items()} == {i: i for i in told}


def test_draws_at_random_touch_places_by_the_exponential():
    # 20 files, 20 updates: 20 * (1 - 1/e).
    assert touched(20, 20) == pytest.approx(20 * (1 - math.exp(-1)))
    assert touched(20, 1e9) == 20
    assert touched(1e9, 20) == pytest.approx(20, rel=1e-6)


def test_a_record_lookup_is_n_lookups_of_m_over_n_keys():
    asked = record.tag(replace(SMALL, shards=4, cores=2), TASKS)
    assert asked["keys"] == 500
    assert asked["shards_tasks"] == 2
    # As many cores as shards and more make no difference any more.
    wide = replace(SMALL, shards=4, cores=64)
    assert record.tag(wide, TASKS)["keys"] == 250


def test_blocks_are_decoded_once_however_many_keys_they_hold():
    # 100,000 keys of 104 bytes in 4 shards: 2.6 MB each, 2.48 blocks of 1 MiB.
    blocks = 25_000 * 104 / (1 << 20)
    many = record.decoded_bytes(replace(SMALL, batch=10**9))
    assert many == pytest.approx(4 * blocks * (1 << 20), rel=1e-6)
    # One shard of 9.918 blocks, 20 keys at random: 9.918 * (1 - e^(-20/9.918)) of them.
    few = record.decoded_bytes(replace(SMALL, batch=20, shards=1))
    assert few == pytest.approx(9.918 * (1 - math.exp(-20 / 9.918)) * (1 << 20), rel=1e-3)


def test_few_keys_of_each_block_get_smaller_blocks():
    table = replace(SMALL, rows=10**9, shards=100)
    few, all_of_them = replace(table, batch=400), replace(table, batch=10**8)
    assert record.block_bytes(few) == 1 << 16
    assert record.block_bytes(all_of_them) == 1 << 20
    sized = replace(few, block_bytes=1 << 16)
    # 400 blocks of 64 KiB instead of 400 of 1 MiB.
    assert record.decoded_bytes(few) / record.decoded_bytes(sized) == pytest.approx(16, rel=0.05)
    assert options_of(KEYMARK, "record", sized)["hoodie.hfile.block.size"] == "65536"
    assert "hoodie.hfile.block.size" not in options_of(KEYMARK, "record", few)


@pytest.mark.parametrize(
    ("files", "block", "measured"),
    [
        (40, 1 << 16, 24.2 / 21.7),
        (20_000, 1 << 16, 47.99 / 47.67),
        (20_000, 1 << 14, 48.85 / 47.67),
    ],
)
def test_an_index_is_larger_the_smaller_its_blocks(files, block, measured):
    """Of blocks of 1 MiB: docs/results/seeds_experiments.md, key_stores.md."""
    table = replace(SMALL, rows=10**7, files=files)
    stored = [
        record.index_bytes(replace(table, block_bytes=size), TASKS)["rows_random"]
        for size in (block, 1 << 20)
    ]
    assert stored[0] / stored[1] == pytest.approx(measured, abs=0.015)


@pytest.mark.parametrize(
    ("files", "one_load", "measured"),
    [(220, True, 23.6), (800, True, 27.0), (1_000, True, 27.5), (1_000, False, 44.3)],
)
def test_a_mapping_is_longer_the_more_files_it_may_name(files, one_load, measured):
    """Bytes a key: docs/results/index_size.md, plan_score.md, at_size.md, mappings.md."""
    of_few = 21.2
    at = replace(SMALL, files=files, one_load=one_load)
    longer = [record.index_bytes(each, TASKS)["rows_random"] / at.rows for each in (SMALL, at)]
    assert longer[0] == pytest.approx(1, rel=1e-6)
    assert of_few * longer[1] == pytest.approx(measured, rel=0.1)
    ordered = replace(at, ordered=True)
    assert record.index_bytes(ordered, TASKS)["rows_ordered"] == at.rows


def test_many_files_need_more_shards():
    few = replace(SMALL, rows=10**9)
    assert record.fewest_shards(replace(few, files=10_000)) == pytest.approx(
        (1 + 1.3 * 0.9695) * record.fewest_shards(few), abs=1
    )


@given(workloads)
def test_a_block_size_is_named_only_where_it_saves_work(at):
    chosen = replace(at, block_bytes=record.block_bytes(at))
    assert record.decoded_bytes(chosen) <= record.decoded_bytes(at) * (1 + 1e-9)
    assert record.decoded_blocks(chosen) >= record.decoded_blocks(at) * (1 - 1e-9)


def test_simple_reads_the_keys_in_reach():
    few = replace(SMALL, partitions=100, batch=1)
    assert amounts("tag", "global_simple", few, THREADS)["rows"] == 50_000
    local = amounts("tag", "simple", few, THREADS)
    assert local["rows"] == pytest.approx(50_000 * touched(100, 1) / 100)


def test_what_a_row_costs_is_one_constant_and_what_starting_costs_is_two():
    for name in ("tag/record", "tag/bloom", "write/all", "bootstrap/record"):
        quantity, index = name.split("/")[0], KEYMARK.indexes_of(name)[0]
        tasks, threads = (amounts(quantity, index, SMALL, mode) for mode in (TASKS, THREADS))
        shared = set(tasks) & set(threads)
        assert shared & {"rows", "keys", "row_mb", "block_mb"}, name
        assert {each for each in shared if each.startswith("once")} == set()
        assert all(tasks[each] == threads[each] for each in shared)


def test_a_join_of_spark_sorts():
    joined = amounts("tag", "global_simple", SMALL, TASKS)
    assert joined["sorted"] == pytest.approx(50_000 * math.log2(50_000))


def test_ranges_of_random_keys_leave_every_file_and_those_of_ordered_ones_few():
    assert bloom_cost.candidates(SMALL, 20) == 20_000
    # Half of the batch is new and beyond all ranges; the rest is in one file a partition.
    assert bloom_cost.candidates(replace(SMALL, ordered=True), 20) == 5_000
    local = amounts("tag", "bloom", SMALL, TASKS)["pairs"]
    assert local == 1_000 * 2 / SMALL.cores


@pytest.mark.parametrize("mode", [TASKS, THREADS])
@pytest.mark.parametrize(
    ("local", "whole"), [("bloom", "global_bloom"), ("simple", "global_simple")]
)
def test_a_lookup_by_key_alone_looks_into_every_partition(local, whole, mode):
    """400,000 keys of 100,000,000 rows asked `bloom` and `global_bloom` for equally many pairs."""
    at = replace(SMALL, batch=5, partitions=10, files=40)
    asked = amounts("lookup", local, at, mode)
    assert asked == amounts("lookup", whole, at, mode) == amounts("tag", whole, at, mode)
    assert asked != amounts("tag", local, at, mode)


def test_copy_on_write_rewrites_whole_files():
    one = replace(SMALL, batch=1, new_share=0.0)
    assert rewritten(one) == pytest.approx(touched(20, 1))
    all_new = replace(SMALL, batch=10**6, new_share=1.0)
    assert rewritten(all_new) == pytest.approx(10)  # the smallest of each partition
    full = replace(all_new, row_bytes=10**5)
    assert rewritten(full) == 0  # no small file takes them
    copied = amounts("write", "record", replace(SMALL, batch=10**6), TASKS)
    assert copied["row_mb"] == pytest.approx(100_000 * SMALL.row_bytes / 2 / 1e6)
    assert copied["files_tasks"] == 10


def test_keymark_encodes_the_pages_with_an_updated_row_and_copies_the_others():
    # 10 pages a file, and 40 updates over 20 files.
    at = replace(SMALL, rows=20 * 20_480, batch=40, new_share=0.0)
    files = touched(20, 40)
    whole = HUDI.amounts("write", "record", at, TASKS)
    assert whole["row_mb"] == pytest.approx(files * 20_480 * at.row_bytes / 2 / 1e6)
    assert "copied_mb" not in whole
    paged = amounts("write", "record", at, TASKS)
    assert paged["row_mb"] + paged["copied_mb"] == pytest.approx(whole["row_mb"])
    assert paged["row_mb"] / whole["row_mb"] == pytest.approx(touched(10, 40 / files) / 10)
    # A file of fewer than two pages is encoded whole.
    assert amounts("write", "record", replace(at, rows=20 * 4_000), TASKS)["copied_mb"] == 0


def test_new_rows_of_a_bucket_table_touch_the_files_of_their_buckets():
    at = replace(SMALL, batch=20, new_share=1.0, buckets=20)
    copied = amounts("write", "bucket", at, TASKS)
    assert copied["files_tasks"] == pytest.approx(touched(20, 20) / 2)


def test_a_shuffle_moves_every_key_once():
    shuffled = replace(SMALL, local_bytes=0, broadcast_bytes=-1)
    name = KEYMARK.equation_of("shuffle", "global_simple", shuffled)
    assert name == "shuffle/simple"
    moved = amounts("shuffle", "global_simple", shuffled, TASKS)
    assert moved == {"once": 1, "rows_random": 100_000, "keys_random": 1_000}
    longer = amounts("shuffle", "global_simple", replace(shuffled, key_bytes=72), TASKS)
    assert longer["rows_random"] == 200_000


@pytest.mark.parametrize(
    ("index", "changes"),
    [
        ("record", {"local_bytes": 0.0, "broadcast_bytes": -1}),
        ("global_simple", {}),
        ("global_simple", {"local_bytes": 0.0, "broadcast_bytes": 10 << 20}),
    ],
    ids=["record", "threads", "broadcast"],
)
def test_nothing_is_shuffled(index, changes):
    assert KEYMARK.equation_of("shuffle", index, replace(SMALL, **changes)) is None


def test_spark_takes_over_where_the_product_says_so():
    # 8 bytes of work for each byte of 40 of a key: 64 MiB are 209,716 keys.
    few = replace(SMALL, rows=1e7, batch=209_715)
    assert mode_of("tag", "record", few) == THREADS
    assert mode_of("tag", "record", replace(few, batch=209_716)) == TASKS
    # An eighth of the files' bytes: 512 MiB of files.
    size = (512 << 20) / 20
    rows = 20 * (size - FILTER_BYTES) / SMALL.row_bytes
    assert mode_of("tag", "global_simple", replace(SMALL, rows=rows - 1)) == THREADS
    assert mode_of("tag", "global_simple", replace(SMALL, rows=rows + 1)) == TASKS
    assert name_of("tag", "bucket") == "tag/bucket"
    assert name_of("shuffle", "record") is None


def test_what_the_planner_knows_of_the_product_is_true():
    assert str(LOCAL_BYTES) == options._DEFAULTS[options.LOCAL_BYTES]
    assert str(PAGE_ROWS) == options._DEFAULTS[options.PAGE_ROWS]


def test_a_table_has_the_fewest_files_that_hold_its_rows():
    assert files_for(1_000, 100, 10) == 10
    # 125,398,829 bytes a file but for its filter.
    assert files_for(125_398_829 + 1, 1, 1) == 2


works = st.sampled_from(
    [
        (model, quantity, index, mode)
        for model in (KEYMARK, HUDI)
        for quantity in QUANTITIES
        for index in model.known
        for mode in ((TASKS,) if model.of_hudi else (TASKS, THREADS))
        if model.name_of(quantity, index)
    ]
)


def amounts_of(work, at):
    model, quantity, index, mode = work
    return model.amounts(quantity, index, at, mode)


def test_hudi_works_in_tasks_and_shuffles_for_every_index_that_joins():
    few = replace(SMALL, rows=1_000, batch=1)
    for index in HUDI.known:
        assert HUDI.mode_of("tag", index, few) == TASKS
        shuffled = HUDI.equation_of("shuffle", index, few)
        assert (shuffled is None) == HUDI.known[index].owns_layout
    assert set(HUDI.known) == set(KEYMARK.known) - {"hbase"}
    # An index that is not in the metadata table costs the names of new files there.
    assert HUDI.name_of("index", "global_simple") == "index/all"
    assert HUDI.name_of("index", "record") == "index/all"
    # One that is costs them beside its own entries.
    kept = HUDI.amounts("index", "record", SMALL, TASKS)
    assert (kept["keys"], kept["files"]) == (250, pytest.approx(rewritten(SMALL) / 2))
    pairs = HUDI.amounts("shuffle", "global_bloom", SMALL, TASKS)["pairs"]
    assert pairs == 1_000 * 20


def test_a_query_by_key_opens_every_file_or_the_one_that_the_index_names():
    assert amounts("point_query", "global_bloom", SMALL, TASKS) == {
        "once": 1, "files": 10, "rows": 50_000,
    }  # fmt: skip
    # Keys that grow: of 20 files in 10 partitions one in each partition may hold the key.
    ordered = amounts("point_query", "simple", replace(SMALL, ordered=True), TASKS)
    assert (ordered["files"], ordered["rows"]) == (10, 25_000)
    for model in (KEYMARK, HUDI):
        found = model.amounts("point_query", "record", SMALL, TASKS)
        listed = {"listed_groups": 4} if model.of_hudi else {}
        assert found == {"once": 1, "listed": 20, "rows": 5_000, **listed}
    names = [KEYMARK.name_of(name, "record") for name in POINT_QUERIES]
    assert names == ["point_query/record", "point_query_spark/record"]
    assert HUDI.name_of("point_query_spark", "record") is None
    assert HUDI.name_of("point_query", "bucket") == "point_query/bucket"


def test_a_lookup_of_hudis_is_tagging_in_which_a_call_and_a_file_cost_otherwise():
    own = {"once_tasks", "files", "footers"}
    for index in ("record", "global_simple", "bloom"):
        tagging = HUDI.amounts("tag", index, SMALL, TASKS)
        asked = HUDI.amounts("lookup", index, SMALL, TASKS)
        assert HUDI.name_of("lookup", index) == HUDI.name_of("tag", index)
        assert set(tagging) - set(asked) == own & set(tagging)
        assert asked["once_lookup"] == 1
        assert all(asked[name] == value for name, value in tagging.items() if name not in own)
    # 4 tasks of two cores sample 4 file groups each.
    assert HUDI.amounts("lookup", "record", SMALL, TASKS)["sampled"] == 8
    # Releases before 1.1 do not.
    work = {
        release: cost_model(f"hudi@{release}").amounts("lookup", "record", SMALL, TASKS)
        for release in ("0.15.0", "1.0.2", "1.1.0", "1.2.0")
    }
    assert [release for release in work if "sampled" in work[release]] == ["1.1.0", "1.2.0"]


@given(workloads, works)
def test_amounts_are_finite_and_not_negative(at, work):
    for amount in amounts_of(work, at).values():
        assert math.isfinite(amount)
        assert amount >= 0


@given(workloads, works, st.floats(1, 100))
def test_a_larger_table_is_never_less_work(at, work, factor):
    less, more = amounts_of(work, at), amounts_of(work, replace(at, rows=at.rows * factor))
    for amount, value in less.items():
        if work[1] in ("write", *REQUEST_COUNTS) or (work[0].of_hudi and work[1] == "index"):
            continue  # full files take no new rows, so that fewer are rewritten
        assert more[amount] >= value * (1 - 1e-9)


@given(workloads, works, st.floats(1, 100))
def test_a_larger_batch_is_never_less_work(at, work, factor):
    less, more = amounts_of(work, at), amounts_of(work, replace(at, batch=at.batch * factor))
    for amount, value in less.items():
        if amount != "copied_mb":  # more pages are encoded, so that fewer are copied
            assert more[amount] >= value * (1 - 1e-6)


@given(workloads, works, st.integers(2, 50))
def test_more_cores_are_never_more_work(at, work, factor):
    less, more = amounts_of(work, at), amounts_of(work, replace(at, cores=at.cores * factor))
    for amount, value in less.items():
        assert more[amount] <= value * (1 + 1e-9)


@given(workloads)
def test_what_a_task_holds_is_finite(at):
    for model in (KEYMARK, HUDI):
        for index in model.known:
            assert 0 < model.cost(index).memory(at) < math.inf


def test_what_a_task_of_hudis_holds():
    at = replace(SMALL, rows=2e9, batch=400_000, files=8_000, partitions=1_000, shards=1_000)
    # The keys of a file, 250,000 of 36 bytes.
    assert HUDI.cost("global_simple").memory(at) == 250_000 * (36 + 120)
    # 400 keys of a file group, and a block.
    assert HUDI.cost("record").memory(at) == pytest.approx(400 * 292 + (1 << 20))
    # Two keys for each of 8,000 files, a filter twice, 25 keys of a file.
    held = 200_000 / touched(8_000, 200_000)
    bloom = 8_000 * (2 * 156 + 150) + 2 * FILTER_BYTES + held * 156
    assert HUDI.cost("global_bloom").memory(at) == pytest.approx(bloom)
    assert HUDI.cost("bloom").memory(at) <= bloom


def test_hudi_shuffles_the_batch_beside_tagging():
    dealt_out = HUDI.amounts("shuffle_rest", "record", SMALL, TASKS)
    assert dealt_out == {"once": 1, "batch_mb": pytest.approx(0.104)}
    assert KEYMARK.name_of("shuffle_rest", "record") is None
