from __future__ import annotations

import tomllib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from keymark.datasets.errors import DatasetError
from keymark.datasets.profiles.folders import KeyCounts
from keymark.datasets.profiles.look_alike import look_alike
from keymark.datasets.profiles.profile import (
    KeyColumn,
    Lengths,
    Partitions,
    Profile,
    ProfileRequest,
)
from keymark.datasets.profiles.shapes import look_at

ROWS = 1_000


def column(texts, name="id", **facts):
    """A column's facts from all of its texts, as Spark would tell them."""
    tails = [len(text) - len(text.rstrip("0123456789")) for text in texts]
    heads = {text[: len(text) - tail] for text, tail in zip(texts, tails, strict=True)}
    digits = [text[len(text) - tail :] for text, tail in zip(texts, tails, strict=True)]
    sizes = [len(text) for text in texts]
    numbers = [int(each) for each in digits if each]
    known = {
        "name": name,
        "type": "string",
        "rows": len(texts),
        "distinct": len(set(texts)),
        "lengths": Lengths(
            min=min(sizes), mean=sum(sizes) / len(sizes), p50=0, p90=0, p99=0, max=max(sizes)
        ),
        "bytes_mean": sum(len(text.encode()) for text in texts) / len(texts),
        "low": min(texts),
        "high": max(texts),
        "uuids": 0.0,
        "versions": {4: 0.0, 7: 0.0},
        "hexes": float(all(set(text) <= set("0123456789abcdefABCDEF") for text in texts)),
        "alike": 0.0,
        "prefix": heads.pop() if len(heads) == 1 else None,
        "digits": (min(tails), max(tails)),
        "padded": sum(len(each) > 1 and each[0] == "0" for each in digits) / len(texts),
        "numbers": (min(numbers), max(numbers)) if numbers else None,
        "sample": look_at(texts),
    }
    return KeyColumn(**{**known, **facts})


def profiled(*columns, partitions=None, by_partition=None, other_bytes=0.0, **counts):
    rows = columns[0].rows
    known = {"rows": rows, "nulls": 0, "distinct": rows, "repeated": 0, "most": 1}
    return Profile(
        request=ProfileRequest(
            name="a table",
            record_key=tuple(each.name for each in columns),
            partition_path=("dt",) if partitions else (),
        ),
        counts=KeyCounts(**{**known, **counts}),
        columns=columns,
        partitions=partitions,
        largest_shard=1 / 16,
        by_ordering=None,
        by_partition=by_partition,
        other_bytes=other_bytes,
        stored_bytes=None,
        sampled=rows,
    )


def kind_of(texts, *, keep_prefix=False, **facts):
    alike = look_alike(profiled(column(texts, **facts)), keep_prefix=keep_prefix)
    assert alike.spec.rows == len(texts)
    assert tomllib.loads(alike.toml) == alike.settings
    return alike.settings["columns"]["id"], alike.notes


def numbers(form, first=0, step=1):
    return [format(first + step * number, form) for number in range(ROWS)]


def test_numbers_as_texts():
    assert kind_of(numbers("d"))[0] == {"kind": "numbered", "prefix": "", "width": 0}
    assert kind_of(numbers("07d"))[0]["width"] == 7
    assert kind_of(numbers("d", 5_000_000))[0]["width"] == 7
    kind, notes = kind_of(numbers("d", 50_000_000, 4_000))
    assert kind["width"] == 8
    assert notes == ("id: numbers have gaps, which are closed",)


def test_a_prefix_is_data():
    texts = [f"acme:{text}" for text in numbers("04d")]
    assert kind_of(texts)[0] == {"kind": "numbered", "prefix": "kkkkk", "width": 4}
    assert kind_of(texts, keep_prefix=True)[0]["prefix"] == "acme:"
    assert kind_of([f"a\nb{text}" for text in texts], keep_prefix=True)[0]["prefix"] == "k" * 8


def test_columns_of_numbers():
    facts = {"type": "bigint"}
    assert kind_of(numbers("d"), **facts)[0] == {"kind": "sequence"}
    assert kind_of(numbers("d", 4_000_000), **facts)[0] == {"kind": "sequence", "start": 10**6}
    kind, notes = kind_of(numbers("d", 10**18), **facts)
    assert kind == {"kind": "sequence", "start": 10**15}
    assert notes == ("id: numbers of 19 digits get fewer",)


def test_digests_and_other_hex_texts():
    md5 = [f"{number * 0x9E3779B97F4A7C15 % 2**128:032x}" for number in range(ROWS)]
    assert kind_of([f"{text[:-1]}f" for text in md5])[0] == {"kind": "hashed", "digits": 32}
    kind, notes = kind_of([f"{text[:-1]}f".upper() for text in md5])
    assert kind["kind"] == "hashed"
    assert notes == ("id: hex digits are in lower case",)
    sha1 = [f"{text}abcdef{text[:2]}" for text in md5]
    kind, _ = kind_of([f"{text[:-1]}f" for text in sha1])
    assert kind == {"kind": "letters", "length": 37, "alphabet": "0123456789abcdef"}


def test_uuids():
    ids = [f"{number:08x}-0000-7000-8000-000000000000" for number in range(ROWS)]
    assert kind_of(ids, uuids=1.0, versions={4: 0.0, 7: 1.0})[0] == {"kind": "uuid7", "per_ms": 1}
    assert kind_of([*ids[1:], "none"], uuids=0.999, versions={4: 0.0, 7: 0.999})[0] == {
        "kind": "uuid7"
    }
    kind, notes = kind_of(ids, uuids=1.0, versions={4: 0.5, 7: 0.5})
    assert kind == {"kind": "uuid"}
    assert notes == ("id: UUIDs of other versions become version 4",)


def test_composite_keys_have_one_column_that_makes_them_unique():
    device = column([f"dev-{number % 7}" for number in range(ROWS)], "device")
    at = column(numbers("d", 10**9), "at", type="bigint")
    alike = look_alike(profiled(device, at), keep_prefix=False)
    columns = alike.spec.columns
    assert alike.settings["record_key"] == ["device", "at"]
    assert columns["device"].values == tuple(f"{number:05}" for number in range(7))
    assert columns["at"].kind == "sequence"
    few = column([str(number % 50) for number in range(ROWS)], "at", type="bigint")
    alike = look_alike(profiled(device, few), keep_prefix=False)
    assert alike.settings["columns"]["at"] == {"kind": "sequence"}
    assert alike.notes == ("no key column is unique by itself; here 'at' is",)


def test_names_that_a_specification_has_not():
    texts = numbers("d")
    both = (column(texts, "my\nkey"), column(texts, "my_key"), column(texts, "_9"))
    alike = look_alike(profiled(*both, other_bytes=9.6), keep_prefix=False)
    assert alike.settings["record_key"] == ["my_key", "my_key_2", "c_9"]
    assert alike.settings["name"] == "a_table"
    assert alike.settings["payload_bytes"] == 10
    assert len(alike.notes) == 3
    assert alike.spec.record_key == ("my_key", "my_key_2", "c_9")
    assert tomllib.loads(alike.toml) == alike.settings


@pytest.mark.parametrize(
    ("text_length", "date_format", "count", "of"),
    [(10, "yyyyMMdd", 9, "days"), (2, None, 9, "countries"), (2, None, 5_000, "hashes")],
)
def test_partition_paths(text_length, date_format, count, of):
    partitions = Partitions(
        sizes=np.full(count, 4), text_length=text_length, date_format=date_format
    )
    found = profiled(column(numbers("d")), partitions=partitions, by_partition=0.99)
    alike = look_alike(found, keep_prefix=False)
    assert alike.settings["columns"]["dt"] == {"kind": "partition", "of": of, "sizes": "flat"}
    assert alike.spec.date_partitions == count
    assert alike.notes == ("keys grow with the partition, here with the row number only",)


def test_a_key_of_partition_columns_alone_is_refused():
    partitions = Partitions(sizes=np.ones(3), text_length=1, date_format=None)
    with pytest.raises(DatasetError, match="all key columns are partition columns"):
        look_alike(profiled(column(["a", "b", "c"], "dt"), partitions=partitions), keep_prefix=True)


def test_what_is_left_out_is_said():
    found = profiled(column(numbers("d")), nulls=3, repeated=2, distinct=998)
    assert look_alike(found, keep_prefix=False).notes == (
        "2 keys come more than once; here each comes once",
        "3 rows without a key are left out",
    )


@given(st.lists(st.text(min_size=1, max_size=40), min_size=2, max_size=30, unique=True))
def test_texts_of_any_kind_give_a_valid_specification(texts):
    kind, _ = kind_of(texts, keep_prefix=True)
    assert kind["kind"] in ("letters", "numbered", "one_shard", "hashed")
