"""The global simple index: a join by Spark that must not disturb the session or the names.

What is small is searched by threads; here everything is large.
"""

from __future__ import annotations

import pytest
from index_cases import DAMAGES, batch, create, damaged, files, lookup, with_policy

from keymark.indexes.shared import frame_join
from keymark.table.errors import CorruptFileError
from keymark.table.properties.options import LOCAL_BYTES

pytestmark = pytest.mark.spark

STRANGE = ["a=b", "u v", "x%2Fy", "ü€", "{b}*?[c]", "_hidden", ".dot", "back\\slash", "p:q"]


@pytest.fixture
def table(tmp_path, spark):
    options = {"hoodie.parquet.small.file.limit": "0", LOCAL_BYTES: "0"}
    table = create(tmp_path / "t [x] %41", "global_simple", options=options, spark=spark)
    table.bulk_insert(batch([f"k{n}" for n in range(len(STRANGE))], STRANGE))
    return table


def test_partition_names_are_taken_literally(table):
    places, stats = lookup(table, [f"k{n}" for n in range(len(STRANGE))] + ["absent", ""])
    assert [place for place, _ in places] == [*STRANGE, None, None]
    assert stats.files_read == len(STRANGE)


def test_a_key_twice_in_the_data_is_answered_once_by_the_first_file(table):
    with_policy(table, "none").insert(batch(["k4"], "z"))
    with_policy(table, "none").insert(batch(["k4"], "0"))
    assert [place for place, _ in lookup(table, ["k4", "k1"])[0]] == ["0", "u v"]


def test_the_settings_of_the_session_are_restored(table, spark):
    names = (frame_join._ARROW, "spark.sql.sources.parallelPartitionDiscovery.threshold")
    before = [spark.conf.get(name) for name in names]
    lookup(table, ["k1"])
    assert [spark.conf.get(name) for name in names] == before


def test_files_are_not_listed_in_a_job(table, spark):
    tracker = spark.sparkContext.statusTracker()
    spark.sparkContext.setJobGroup("lookup", "lookup")
    lookup(table, ["k1"])
    # Two broadcasts and the scan; a listing job would be a fourth.
    assert len(tracker.getJobIdsForGroup("lookup")) <= 3


@pytest.mark.parametrize("damage", DAMAGES)
def test_damage_is_named(table, damage):
    file = files(table)[2]
    damaged(table, file, damage)
    with pytest.raises(CorruptFileError, match=file.file_id):
        lookup(table, ["k1"])
