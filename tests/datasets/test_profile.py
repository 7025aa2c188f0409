from __future__ import annotations

import json
import tomllib

import numpy as np
import pytest

from keymark.datasets.generate.generated import GeneratedDataset
from keymark.datasets.profiles.look_alike import look_alike
from keymark.datasets.profiles.profile import ProfileRequest, described, profile
from keymark.datasets.specs.spec import DatasetSpec, load_spec

pytestmark = [pytest.mark.spark, pytest.mark.slow]

ROWS = 3_000
KEYS = {
    "a_uuid": {"kind": "uuid"},
    "b_uuid7": {"kind": "uuid7", "per_ms": 7},
    "c_sequence": {"kind": "sequence", "start": 100_000},
    "d_numbered": {"kind": "numbered", "prefix": "order-", "width": 9},
    "e_numbered": {"kind": "numbered", "prefix": "", "width": 0},
    "f_hashed": {"kind": "hashed", "digits": 64},
    "g_letters": {"kind": "letters", "length": 12},
    "h_one_shard": {"kind": "one_shard"},
}
SPEC = DatasetSpec.model_validate(
    {
        "name": "source",
        "rows": ROWS,
        "record_key": list(KEYS),
        "partition_path": ["dt"],
        "ordering": "ts",
        "date_partitions": 30,
        "date_format": "yyyy/MM/dd",
        "payload_bytes": 60,
        "columns": {
            **KEYS,
            "dt": {
                "kind": "partition",
                "of": "days",
                "sizes": "recent",
            },
            "ts": {"kind": "ordering"},
            "city": {"kind": "choice", "values": ["Berlin", "Lima"]},
            "payload": {"kind": "payload"},
        },
    }
)
REQUEST = ProfileRequest(
    name="source", record_key=tuple(KEYS), partition_path=("dt",), ordering="ts", sample=1_000
)


def profiled(spark, spec, request=REQUEST):
    return profile(GeneratedDataset(spec).load(spark), request, lambda _: None)


@pytest.fixture(scope="module")
def found(spark):
    return profiled(spark, SPEC)


def test_each_kind_of_key_is_recognised(found):
    alike = look_alike(found, keep_prefix=False)
    kinds = {name: alike.settings["columns"][name] for name in KEYS}
    assert kinds.pop("g_letters")["kind"] == "letters"
    assert kinds == {
        **{name: kind for name, kind in KEYS.items() if name != "g_letters"},
        "d_numbered": {"kind": "numbered", "prefix": "kkkkkk", "width": 9},
    }
    assert alike.settings["columns"]["dt"] == {
        "kind": "partition",
        "of": "days",
        "sizes": "recent",
    }
    expected = {"rows": ROWS, "date_partitions": 30, "date_format": "yyyy/MM/dd"}
    assert alike.settings | expected == alike.settings
    assert alike.settings["payload_bytes"] == pytest.approx(65, abs=1)


def test_a_look_alike_has_the_profile_of_its_source(spark, found):
    alike = look_alike(found, keep_prefix=False)
    again = profiled(spark, alike.spec)
    for source, copy in zip(found.columns, again.columns, strict=True):
        assert copy.type == source.type
        assert copy.lengths.mean == pytest.approx(source.lengths.mean, abs=0.5), source.name
        assert copy.bytes_mean == pytest.approx(source.bytes_mean, rel=0.05), source.name
        bits, bits_again = source.sample.entropy_bits, copy.sample.entropy_bits
        assert bits_again == pytest.approx(bits, rel=0.06), source.name
        assert copy.sample.one_hash == source.sample.one_hash, source.name
    assert np.allclose(again.partitions.sizes, found.partitions.sizes, rtol=0.05, atol=5)
    assert again.other_bytes == pytest.approx(found.other_bytes, abs=1)
    assert again.largest_shard == pytest.approx(found.largest_shard, abs=0.03)
    assert again.counts == found.counts


def test_no_value_is_written_and_a_prefix_only_if_it_is_kept(found):
    texts = [look_alike(found, keep_prefix=kept).toml for kept in (False, True)]
    assert "order-" not in texts[0]
    assert "order-" in texts[1]
    for secret in ("Berlin", "2024", "100001", *(column.low for column in found.columns)):
        if secret not in ("100000", "0"):
            assert secret not in texts[0], secret
            assert secret not in json.dumps(described(found)), secret


def test_the_file_is_a_specification(found, tmp_path):
    alike = look_alike(found, keep_prefix=True)
    path = tmp_path / "like.toml"
    path.write_text(alike.toml, "utf-8")
    assert tomllib.loads(alike.toml) == alike.settings
    assert load_spec(path) == alike.spec
