"""What Hudi 0.15's own key generators answered, row by row (tests/data/make_key_generators.py)."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest
from table_cases import DATA

from keymark.table.errors import InputError, InvalidOptionError
from keymark.table.keygen import partition_paths, record_keys
from keymark.table.keygen.facts import key_facts
from keymark.table.properties.config import TableConfig, parse_config
from keymark.table.properties.options import check_options

GOLDEN = json.loads((DATA / "hudi-0.15.0-key_generators.json").read_text())
TYPES = {
    "k": pa.string(),
    "k2": pa.int32(),
    "p": pa.string(),
    "q": pa.string(),
    "l": pa.int64(),
    "i": pa.int32(),
    "d": pa.float64(),
    "f": pa.float32(),
    "day": pa.date32(),
    "at": pa.timestamp("us", "UTC"),
}


# Where Hudi does something else than it seems to: a zone that is not the one named, a century that
# depends on the year in which it is asked.
REFUSED = ("'EST' is not a time zone", "yy is not supported in input")


def config_of(case) -> TableConfig:
    kind = f"org.apache.hudi.keygen.{case['class']}KeyGenerator"
    given = check_options({**case["options"], "hoodie.datasource.write.keygenerator.class": kind})
    partition = [part for part in case["partition"].split(",") if part]
    facts = key_facts(case["keys"].split(","), partition, given)
    fixed = {
        "hoodie.table.name": "t",
        "hoodie.table.version": "6",
        "hoodie.timeline.layout.version": "1",
    }
    return parse_config({**fixed, **facts})


def batch_of(rows) -> pa.Table:
    numbers = {"day": pa.int32(), "at": pa.int64()}
    columns = {
        name: pa.array([row.get(name) for row in rows], numbers.get(name, kind)).cast(kind)
        for name, kind in TYPES.items()
    }
    return pa.table(columns)


def answers(make, batch, config):
    """The answer for each row; None where there is none."""
    try:
        return make(batch, config).to_pylist()
    except InputError:
        if batch.num_rows == 1:
            return [None]
        rows = [batch.slice(number, 1) for number in range(batch.num_rows)]
        return [found for row in rows for found in answers(make, row, config)]


def cases():
    for number, case in enumerate(GOLDEN["cases"]):
        options = {name.rpartition(".")[2]: value for name, value in case["options"].items()}
        name = "-".join([case["class"], case["partition"], *options.values()])
        yield pytest.param(case, id=f"{number}-{name}")


@pytest.mark.parametrize("case", list(cases()))
def test_answers_of_hudi(case):
    rows = GOLDEN["rows"][case["rows"]]
    wanted_keys, wanted_paths = zip(*case["answers"], strict=True)
    try:
        config = config_of(case)
        paths = answers(partition_paths, batch_of(rows), config)
    except InvalidOptionError as error:
        assert any(text in str(error) for text in REFUSED) or not any(wanted_paths)  # noqa: PT017
        return
    assert answers(record_keys, batch_of(rows), config) == list(wanted_keys)
    for row, path, wanted in zip(rows, paths, wanted_paths, strict=True):
        assert path == wanted or (path is None and unplaceable(wanted, row))


def unplaceable(path: str, row) -> bool:
    """What Hudi answers and no table of ours holds: absurd years, paths that no storage takes."""
    numbers = [row.get(name) for name in ("l", "i", "d", "f", "at", "day")]
    far = any(number is not None and abs(number) > 1e10 for number in numbers)
    return far or any(part in ("", ".", "..") for part in path.split("/"))
