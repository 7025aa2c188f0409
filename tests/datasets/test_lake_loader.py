from __future__ import annotations

import pytest

from keymark.datasets.errors import DatasetError
from keymark.datasets.generate.generated import GeneratedDataset
from keymark.datasets.specs.lake_loader import expand
from keymark.datasets.specs.spec import load_spec

FACT = {
    "numRounds": 3,
    "roundsDistribution": [10_000, 1_000],
    "numColumns": 15,
    "recordSize": 300,
    "updateRatio": 0.25,
    "totalPartitions": 20,
    "partitionDistributionMatrixOpt": [[0.05] * 20, *[[0.5, 0.5, *[0.0] * 18]] * 2],
    "updatePatterns": "Zipf",
    "numPartitionsToUpdate": 9,
    "zipfianShape": 2.0,
}


def expanded(**parameters):
    return expand({"lake_loader": parameters})


def refusal(**parameters):
    with pytest.raises(DatasetError) as caught:
        expanded(**parameters)
    return str(caught.value)


def test_a_fact_table():
    found = expanded(**FACT)
    assert (found["rows"], found["updates"], found["inserts"], found["deletes"]) == (
        10_000,
        250,
        750,
        0,
    )
    assert (found["date_partitions"], found["partition_path"]) == (20, ["partition"])
    assert found["insert_shares"] == [0.5, 0.5]
    shares = found["update_choice"]["shares"]
    assert found["update_choice"]["kind"] == "partitions"
    assert len(shares) == 9
    assert sum(shares) == pytest.approx(1)
    assert shares[0] / shares[2] == pytest.approx(9)
    # texts of 20 to 39 characters
    assert found["payload_bytes"] == 29


def test_columns_have_lake_loaders_names_and_types():
    columns = expanded(numColumns=15, roundsDistribution=5)["columns"]
    assert list(columns) == [
        *("key", "partition", "round", "ts"),
        *("textField10", "textField21", "textField32", "textField43", "textField54"),
        *("longField15", "decimalField6", "longField27", "longField38", "intField19"),
        "textField110",
    ]
    kinds = [kind["kind"] for kind in columns.values()]
    assert kinds[:4] == ["uuid", "partition", "version", "ordering"]
    assert kinds[4:] == [*["payload"] * 5, "long", "float", "long", "long", "int", "payload"]


def test_the_defaults_are_lake_loaders():
    found = expanded()
    assert (found["rows"], found["updates"], found["inserts"]) == (1_000_000, 0, 1_000_000)
    assert found["partition_path"] == []
    assert len(found["columns"]) == 10
    assert "update_choice" not in found


def test_keys_in_the_order_of_time_and_other_names():
    for name in ("primaryKeyType", "keyType"):
        assert expanded(**{name: "TemporallyOrdered"})["columns"]["key"] == {"kind": "uuid7"}


def test_updates_of_all_partitions_are_uniform_and_of_some_alike():
    both = {"totalPartitions": 4, "updateRatio": 0.5}
    assert "update_choice" not in expanded(**both, numPartitionsToUpdate=4)
    some = expanded(**both, numPartitionsToUpdate=2)["update_choice"]
    assert some == {"kind": "partitions", "shares": [0.5, 0.5]}


def test_what_stands_beside_the_section_wins():
    assert expand({"lake_loader": {}, "rows": 7, "name": "mine"})["rows"] == 7
    plain = {"rows": 7}
    assert expand(plain) == plain


@pytest.mark.parametrize(
    ("parameters", "part"),
    [
        ({"recordSise": 1}, "lake_loader.recordSise: unknown parameter (did you mean 'recordSize'"),
        ({"outputPath": "x"}, "lake_loader.outputPath: has no equivalent: `data write --out`"),
        ({"targetDataFileSize": 1}, "lake_loader.datagenFileSize: has no equivalent"),
        ({"numColumns": 4}, "lake_loader.numColumns: Input should be greater"),
        ({"updatePatterns": "Hot"}, "lake_loader.updatePatterns: Input should be 'Uniform'"),
        ({"roundsDistribution": [9, 2, 3]}, "roundsDistribution: rounds after the load"),
        ({"updateRatio": 0.5}, "without it lake-loader makes no updates"),
        ({"totalPartitions": 2, "numPartitionsToUpdate": 3}, "numPartitionsToUpdate: 3 of 2"),
        ({**FACT, "numRounds": 4}, "3 rows for 4 rounds"),
        ({**FACT, "totalPartitions": 19}, "rows of 20 shares for 19 partitions"),
        (
            {"numRounds": 2, "partitionDistributionMatrixOpt": [[0.9, 0.1], [0.5, 0.4]]},
            "each row must add up to 1",
        ),
        (
            {"numRounds": 1, "partitionDistributionMatrixOpt": [[*[0.3] * 3, *[0.02] * 5]]},
            "the load is spread like none of",
        ),
        (
            {"totalPartitions": 200, "numPartitionsToUpdate": 150, "updateRatio": 0.5},
            "numPartitionsToUpdate: at most 100",
        ),
    ],
)
def test_what_has_no_equivalent_is_refused_by_name(parameters, part):
    assert part in refusal(**parameters)


def test_all_mistakes_come_at_once():
    text = refusal(outputPath="x", recordSise=1, numColumns=0)
    assert all(name in text for name in ("outputPath", "recordSise", "numColumns"))


def test_a_section_in_a_file_makes_a_dataset(tmp_path):
    path = tmp_path / "fact.toml"
    path.write_text(
        "[lake_loader]\n"
        "roundsDistribution = [2000, 100]\n"
        "totalPartitions = 5\n"
        "updateRatio = 0.4\n"
        'updatePatterns = "Zipf"\n'
        "numPartitionsToUpdate = 3\n",
        "utf-8",
    )
    spec = load_spec(path, {"rows": 1_000, "columns.key.kind": "uuid7"})
    assert (spec.rows, spec.columns["key"].kind) == (1_000, "uuid7")
    assert GeneratedDataset(spec).batch_counts(1) == (40, 60)
    path.write_text("[lake_loader]\nstartRound = 1\n", "utf-8")
    with pytest.raises(DatasetError, match=r"fact\.toml: lake_loader\.startRound"):
        load_spec(path)
