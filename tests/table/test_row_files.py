"""Files of rows that a user hands in: what is refused, by file, line and column."""

from __future__ import annotations

import os
import re

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from child_process import in_child
from table_cases import create, data_rows, rows

from keymark.table.errors import InputError
from keymark.table.format.json_lines import MOST_COLUMNS, read_json_lines
from keymark.table.rows.files import RowWriter, read_data, read_keys

GOOD = '{"k": "b", "p": "x", "ts": 2, "v": "w"}\n'


def refused(tmp_path, text, message):
    path = tmp_path / "rows.jsonl"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(InputError, match=message) as caught:
        read_json_lines(path)
    assert str(path) in str(caught.value)


def test_a_repeated_column_is_named_with_its_line(tmp_path):
    refused(tmp_path, GOOD + '{"k": "b", "k": "c"}\n', "line 2: column 'k' is named twice")
    refused(tmp_path, GOOD * 3 + '{"k": "b", "\\u006b": "c"}\n', "line 4: column 'k' is named")
    refused(tmp_path, '{"s": {"a": 1, "a": 2}}\n', "line 1: column 'a' is named twice")


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_a_repeated_column_of_other_files_is_named(tmp_path, suffix):
    table = create(tmp_path / "t")
    table.upsert(rows(["a"]))
    path = tmp_path / f"rows{suffix}"
    if suffix == ".csv":
        path.write_text("k,p,ts,v,v\nb,x,2,w,z\n")
    else:
        columns = [pa.array([value]) for value in ("b", "x", 2, "w", "z")]
        pq.write_table(pa.Table.from_arrays(columns, ["k", "p", "ts", "v", "v"]), path)
    with pytest.raises(InputError, match=r"rows.*: column 'v' is named twice"):
        read_data([path], table)


@pytest.mark.parametrize("name", ["rows.parquet", "rows/part-0.parquet", "rows/day=x/part-0"])
def test_a_damaged_footer_is_refused_before_arrow_ends_the_process(tmp_path, name):
    """The column is said to have no nulls, and its size statistics count them."""
    table = create(tmp_path / "t")
    table.upsert(rows(["a"]))
    path = tmp_path / name
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(rows(["b"]), path)
    is_read = in_child(lambda: read_data([tmp_path / name.partition("/")[0]], table), rights=True)
    assert is_read["k"].to_pylist() == ["b"]
    optional, required = b"\x25\x02\x18\x01v", b"\x25\x00\x18\x01v"
    assert path.read_bytes().count(optional) == 1
    path.write_bytes(path.read_bytes().replace(optional, required))
    told = re.escape(str(path)) + " cannot be read: .*size statistics of 2 levels for v"
    with pytest.raises(InputError, match=told):
        in_child(lambda: read_data([tmp_path / name.partition("/")[0]], table), rights=True)
    if path.suffix == ".parquet":
        with pytest.raises(InputError, match=told):
            in_child(lambda: read_keys(path, table), rights=True)


@pytest.mark.parametrize(
    "text",
    [
        '{"v": ' + "[" * 100_000 + "]" * 100_000 + "}\n",
        '{"v": ' + '{"a":' * 100_000 + "1" + "}" * 100_000 + "}\n",
        "[" * 100_000,
    ],
)
def test_deep_nesting_does_not_end_the_process(tmp_path, text):
    refused(tmp_path, GOOD + text, "line 2: (values are nested more than 64|expected a JSON)")


@pytest.mark.parametrize("text", ['"x"', "1", "null", "[]", '{"k": "b"} 5', "]", '{"k": "b"}}'])
def test_what_is_no_object_is_refused(tmp_path, text):
    # Arrow's parser crashes at some of these, now and then.
    refused(tmp_path, GOOD * 50 + text + "\n", r"line 51: (expected|a bracket)")


@pytest.mark.parametrize("number", ["9" * 400, "1e999", "-1e999"])
def test_a_number_that_no_column_holds_is_refused(tmp_path, number):
    refused(tmp_path, GOOD + f'{{"v": {number}}}\n', "line 2: the number .* is too large")


def test_texts_must_be_unicode(tmp_path):
    refused(tmp_path, GOOD + '{"k": "\\ud800"}\n', "line 2: a text is not valid Unicode")
    refused(tmp_path, GOOD + '{"\\ud800": 1}\n', "line 2: a text is not valid Unicode")
    refused(tmp_path, GOOD.encode() + b'{"k": "\xff"}\n', "line 2: a text is not valid Unicode")
    refused(tmp_path, GOOD + '{"k": "b\n"}\n', "line 2: a text has no end")


def test_a_change_of_type_is_named_with_its_line(tmp_path):
    refused(tmp_path, GOOD * 2 + '{"k": 3}\n', "line 3: column 'k' changes its type")


def test_long_lines_and_many_columns_are_refused(tmp_path):
    refused(tmp_path, GOOD + '{"v": "' + "x" * (5 << 20) + '"}\n', "line 2 is longer than")
    many = "".join(f'{{"c{number}": 1}}\n' for number in range(MOST_COLUMNS + 1))
    refused(tmp_path, many, "has more than 5,000 columns")
    sparse = "".join(f'{{"c{number % 4000}": 1}}\n' for number in range(100_000))
    refused(tmp_path, sparse, "names 4,000 columns in 100,000 objects")


def test_good_rows_are_read_as_they_are(tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_text('\ufeff{"k": "[[[\\"{", "v": {"a": [1, NaN]}}\n\n{"k": "\x7f"} \n')
    assert read_json_lines(path)["k"].to_pylist() == ['[[["{', "\x7f"]
    path.write_text('{"k": "a",\n "v": 1}\n')
    assert read_json_lines(path).to_pylist() == [{"k": "a", "v": 1}]


def test_csv_that_was_written_is_read_again(tmp_path):
    table = create(tmp_path / "t")
    texts = ["NA", "null", "NaN", "", None, "=1+1", "a\nb"]
    given = pa.table(
        {
            "k": [f"k{number}" for number in range(len(texts))],
            "p": ["p"] * len(texts),
            "ts": [1] * len(texts),
            "v": pa.array(texts, pa.string()),
        }
    )
    table.upsert(given)
    path = tmp_path / "rows.csv"
    with RowWriter(path, given.schema) as writer:
        writer.write(given)
    before = data_rows(table)
    table.upsert(read_data([path], table))
    assert data_rows(table) == before


def test_a_csv_header_is_checked(tmp_path):
    table = create(tmp_path / "t")
    table.upsert(rows(["a"]))
    path = tmp_path / "rows.csv"
    path.write_bytes(b"k,p,ts,v\xff\nb,x,2,w\n")
    with pytest.raises(InputError, match="cannot be read"):
        read_data([path], table)
    path.write_bytes(os.fsencode(",".join(f"c{number}" for number in range(6000))))
    with pytest.raises(InputError, match=r"line 1 names more than 5,000 columns"):
        read_data([path], table)


def test_texts_of_the_table_stay_texts_in_json_lines(tmp_path):
    path = tmp_path / "more.jsonl"
    path.write_text('{"k": "a", "day": "2024-01-31"}\n{"k": "b", "day": null}\n')
    rows = read_json_lines(path, ["k", "day", "absent"])
    assert rows.to_pylist() == [{"k": "a", "day": "2024-01-31"}, {"k": "b", "day": None}]
    path.write_text('{"k": "a"}\n{"k": 7}\n')
    with pytest.raises(InputError, match=r"more\.jsonl, line 2: column 'k' is text in the table"):
        read_json_lines(path, ["k"])


def test_a_value_of_another_type_is_named_with_file_line_and_column(tmp_path):
    table = create(tmp_path / "t")
    table.upsert(rows([1]))
    path = tmp_path / "bad.csv"
    path.write_text("k,p,ts,v\na,p0,1,x\nb,p0,nine,y\n")
    with pytest.raises(InputError, match=r"bad\.csv, line 3: column 'ts': .*'nine'"):
        read_data([path], table)
    path = tmp_path / "bad.jsonl"
    path.write_text('{"k": "a", "ts": null}\n\n{"k": "b", "ts": "nine"}\n')
    told = r"bad\.jsonl, line 3: column 'ts' is int64 in the table, and a text here"
    with pytest.raises(InputError, match=told):
        read_data([path], table)
    path.write_text('{"k": "b", "ts": "2024-01-01"}\n')
    with pytest.raises(InputError, match=r"line 1: column 'ts' is int64"):
        read_data([path], table)
