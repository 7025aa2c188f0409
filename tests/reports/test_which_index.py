from __future__ import annotations

import pytest
from synthetic_runs import sample, write_run

from keymark.indexes.installed import specs
from keymark.reports.model.projection import load
from keymark.reports.model.which_index import columns, which_index
from keymark.reports.sections.summary_page import which_index_markdown

SLOWER = {"record": 1.0, "global_simple": 4.0, "bucket": 0.5}


def cell(
    index, *, shape="random", rows=100, batch=10, scale=1.0, loaded=True, reads=(3.8, 3.8, 3.8)
):
    """(entry of run.json, samples) of a cell whose numbers are all `SLOWER[index] * scale`.

    `reads` are those of buckets, by repetition.
    """
    name = f"native/{index}/shape-{shape}/rows-{rows}/batch-{batch}"
    entry = {"cell": name, "shape": shape, "rows": rows, "batch": batch}
    samples = []
    for repetition, noise in enumerate((1.0, 1.1, 0.9)):
        at = {"cell": name, "index": index, "repetition": repetition}
        time = SLOWER.get(index, 2.0) * scale * noise
        samples += [
            sample(**at, value=2 * time),
            sample(**at, phase="tag", value=time),
            sample(**at, step="lookup", value=time),
            sample(**at, step="lookup", metric="keys", value=500.0),
            sample(
                **at,
                step="point_query_spark",
                value=reads[repetition] * scale * noise if index == "bucket" else time,
            ),
            sample(**at, metric="shuffle_write_bytes", value=1024.0),
        ]
    if loaded:
        at = {"cell": name, "index": index, "step": "bulk_insert", "round": 0}
        size = 31.0 * rows if index == "record" else 0.0
        samples.append(sample(**at, metric="index_bytes", value=size))
        samples.append(sample(**at, metric="keys", value=float(rows)))
    return entry, samples


def part_of(tmp_path, cells, **info):
    entries, samples = zip(*cells, strict=True)
    info = {"run_id": "r1", "scenario": {"name": "matrix"}, "cells": list(entries)} | info
    folder = tmp_path / "run"
    (run,) = load([write_run(folder, [each for some in samples for each in some], info)])
    return which_index(run)


def entries_of(part):
    heads = [head for head, _ in columns("global_simple")]
    assert part.grid.heads == tuple(heads)
    return {row.index: dict(zip(heads, row.entries, strict=True)) for row in part.grid.rows}


def every_cell(**more):
    return [
        cell(index, shape=shape, rows=rows, scale=scale, **more)
        for index in SLOWER
        for shape, rows, scale in (
            ("random", 50, 0.5),
            ("random", 100, 1.0),
            ("time_ordered", 100, 0.25),
            ("skewed", 100, 3.0),
        )
    ]


def test_every_number_is_that_of_the_largest_random_keys(tmp_path):
    found = entries_of(part_of(tmp_path, every_cell()))
    record = found["record"]
    assert record["Keys looked up"].value == "500 /s"
    assert (record["Tagging"].value, record["Tagging"].spread) == ("1.00 s", "900 ms to 1.10 s")
    assert record["Upsert against global_simple"].value == "0.250x"
    assert record["Index on disk per key"].value == "31 B"
    assert record["Shuffle of an upsert"].value == "1.00 KiB"
    assert record["Tagging as the table grows"].value == "2.00x"
    assert record["Skewed against random"].value == "3.00x"
    assert record["Random against time-ordered"].value == "4.00x"
    assert record["To enable"].value == "2 options, 1 step"
    assert record["Server"].value == "none"
    assert found["global_simple"]["Upsert against global_simple"].value == "1"
    assert [found[index]["Finds a key"].value for index in SLOWER] == [
        "anywhere",
        "anywhere",
        "in its partition",
    ]


def test_a_boost_is_more_than_a_tenth(tmp_path):
    """Buckets read in 0.95 of the yardstick's time, in every repetition."""
    found = entries_of(part_of(tmp_path, every_cell()))
    assert found["bucket"]["Point query against global_simple"].value == "0.950x"
    boosts = [found[index]["Boosts"].value for index in SLOWER]
    assert boosts == ["writes and reads", "the yardstick", "writes"]


def test_a_boost_is_shown_where_all_of_the_interval_is_below_nine_tenths(tmp_path):
    found = entries_of(part_of(tmp_path, every_cell(reads=(3.2, 3.3, 3.8))))["bucket"]
    reads = found["Point query against global_simple"]
    assert (reads.value, reads.spread) == ("0.825x", "0.800x to 0.950x")
    assert found["Boosts"].value == "writes"


def test_what_was_not_measured_says_so(tmp_path):
    cells = [cell(index, rows=rows, loaded=False) for index in SLOWER for rows in (50, 100)]
    record = entries_of(part_of(tmp_path, cells))["record"]
    missing = [head for head, entry in record.items() if entry.value == "not measured"]
    assert missing == [
        "Index on disk per key",
        "Skewed against random",
        "Random against time-ordered",
    ]


def test_without_the_yardstick_nothing_is_said_to_boost(tmp_path):
    cells = [cell(index, rows=rows) for index in ("record", "bucket", "bloom") for rows in (5, 9)]
    record = entries_of(part_of(tmp_path, cells))["record"]
    assert record["Boosts"].value == "not measured"
    assert record["Upsert against global_simple"].value == "not measured"


def test_an_index_in_a_server_is_not_called_free(tmp_path):
    cells = [cell(index, rows=rows) for index in ("record", "bloom", "hbase") for rows in (5, 9)]
    hbase = entries_of(part_of(tmp_path, cells))["hbase"]
    assert hbase["Index on disk per key"].value == "not measured"
    assert hbase["Index on disk per key"].spread == "it is in HBase"
    assert hbase["Server"].value == "HBase and ZooKeeper"


def test_cells_that_share_a_loaded_table_share_its_size(tmp_path):
    cells = [cell(index, batch=batch, loaded=batch == 10) for index in SLOWER for batch in (10, 20)]
    part = part_of(tmp_path, cells)
    assert entries_of(part)["record"]["Index on disk per key"].value == "31 B"
    assert "batches of 20" in part.source


@pytest.mark.parametrize(
    "cells",
    [
        [cell(index) for index in SLOWER],
        [cell(index, rows=rows) for index in ("record", "bucket") for rows in (5, 9)],
    ],
)
def test_one_kind_of_data_or_two_indexes_make_no_choice(tmp_path, cells):
    assert part_of(tmp_path, cells) is None


def test_an_unverified_cell_is_on_no_row(tmp_path):
    cells = every_cell()
    wrong = sample(cell=cells[-1][0]["cell"], index="bucket", verified=False, reason="a row")
    cells[-1][1].append(wrong)
    found = entries_of(part_of(tmp_path, cells))
    assert found["bucket"]["Skewed against random"].value == "not measured"
    assert found["record"]["Skewed against random"].value == "3.00x"


def test_the_document_names_its_source_and_its_columns(tmp_path):
    part = part_of(tmp_path, every_cell(), command=["python", "run_bench.py", "run", "matrix"])
    text = which_index_markdown(part)
    assert "Run r1 of scenario matrix, engine native" in text
    assert "    make install && python run_bench.py run matrix" in text
    assert all(f"- {head}: {meaning}." in text for head, meaning in part.columns if "_" not in head)
    rows = [line for line in text.splitlines() if line.startswith("| ")]
    assert {line.count("|") for line in rows} == {len(part.columns) + 2}
    assert "- bucket: options hoodie.index.type and hoodie.bucket.index.num.buckets" in text


def test_every_index_says_what_it_needs():
    assert not specs()["simple"].requirements.options
    assert [index for index, spec in specs().items() if spec.requirements.servers] == ["hbase"]
