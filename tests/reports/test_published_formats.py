"""What is published of two formats, beside what a run measured of them."""

from __future__ import annotations

import pytest
from synthetic_formats import DELTA, ICEBERG, NATIVE, rounds_of, said_of

HUDI, COPIED = "hudi@1.2.0/record", "iceberg@1.10.0/merge_cow"


def published_of(path, told, **changes):
    return {
        topic: words
        for topic, words in said_of(path, told, **changes).items()
        if topic.startswith("Published")
    }


def test_what_was_published_of_two_formats_stands_beside_what_was_measured(tmp_path):
    told = {
        HUDI: {"upsert_1 total wall_s": [2.0, 2.0, 2.0]},
        COPIED: {"upsert_1 total wall_s": [9.0, 9.0, 9.0]},
        # Of the modes of a format the fastest stands for it.
        ICEBERG: {"upsert_1 total wall_s": [4.0, 5.0, 4.0]},
    }
    ((topic, words),) = published_of(tmp_path, told).items()
    assert topic == "Published: an upsert takes a quarter of what Iceberg 1.10 takes"
    assert words.startswith(
        "0.250x (10 TB in partitions, skewed updates: https://hudi.apache.org/blog/2026/08/05/"
        "migrating-from-apache-iceberg-to-hudi); here on 9 rows record · hudi@1.2.0 takes "
        "0.500x (0.400x to 0.500x) of merge_mor · iceberg@1.10.0; what differs: theirs is "
    )
    assert "Hudi 1.1.1 and Iceberg 1.10.0" in words
    assert "; here it is one machine, and " in words


def test_of_one_trial_published_figures_are_compared_by_rounds(tmp_path):
    told = {HUDI: rounds_of(1.0, 2.0, 3.0), DELTA: rounds_of(4.0, 8.0, 12.0)}
    ((topic, words),) = published_of(tmp_path, told, repetitions=1).items()
    assert "a sixth of what Delta 3.3 takes" in topic
    assert "takes 0.250x of merge_dv · delta@3.3.2; what differs" in words
    one = {HUDI: rounds_of(1.0), DELTA: rounds_of(4.0)}
    (words,) = published_of(tmp_path / "one", one, repetitions=1).values()
    assert "of merge_dv · delta@3.3.2, of fewer than 3 values;" in words


@pytest.mark.parametrize("cells", [(NATIVE, ICEBERG), ("hudi@1.2.0/bloom", ICEBERG), (HUDI, DELTA)])
def test_a_published_figure_needs_both_of_its_engines(tmp_path, cells):
    told = {cell: {"upsert_1 total wall_s": 1.0} for cell in cells}
    found = published_of(tmp_path, told)
    assert not any("Iceberg" in topic for topic in found)
