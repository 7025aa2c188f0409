"""Base files: Hudi's read, ours written, both with the footer that Hudi expects."""

import io
import json
import math
import random
import struct
import uuid
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from base_files import reader_of

from keymark.table.errors import CorruptFileError, InputError, InvalidOptionError
from keymark.table.format import schema
from keymark.table.format.bloom.filter import DYNAMIC, SIMPLE, BloomFilter
from keymark.table.format.parquet import base_file as parquet
from keymark.table.format.parquet.base_file import (
    BaseFileOptions,
    FooterOptions,
    read_base_file,
    read_footer,
)
from keymark.table.storage.local_storage import LocalStorage
from keymark.table.storage.storage import BytesReader

DATA = Path(__file__).parents[2] / "data" / "base_files"
HUDI = json.loads((DATA / "records.json").read_text())
NAMES = ["bulk_insert", "upsert", "types"]
SMALL = FooterOptions(bloom_entries=100, bloom_fpp=1e-3, bloom_max_entries=200)


def reader(name):
    return reader_of((DATA / f"{name}.parquet").read_bytes())


def rows(count, *, seed=1):
    rng = random.Random(seed)
    keys = [str(uuid.UUID(int=rng.getrandbits(128))) for _ in range(count)]
    columns = {
        "_hoodie_commit_time": ["20240101000000000"] * count,
        "_hoodie_commit_seqno": [f"20240101000000000_0_{i}" for i in range(count)],
        "_hoodie_record_key": keys,
        "_hoodie_partition_path": ["2024/01/09"] * count,
        "_hoodie_file_name": ["f.parquet"] * count,
        "uuid": keys,
        "n": list(range(count)),
        "city": [f"city {rng.randrange(20)}" for _ in range(count)],
        "tags": [[rng.choice("abc")] * rng.randrange(3) for _ in range(count)],
    }
    return pa.table(columns)


def write(table, **options):
    return parquet.write_base_file(table, options=BaseFileOptions(**({"footer": SMALL} | options)))


@pytest.mark.parametrize("name", NAMES)
def test_footers_of_hudi(name):
    footer = read_footer(reader(name))
    keys = pq.read_table(DATA / f"{name}.parquet", columns=["_hoodie_record_key"]).column(0)
    assert footer.num_rows == len(keys)
    assert footer.min_key == min(keys.to_pylist())
    assert footer.max_key == max(keys.to_pylist())
    assert footer.bloom_type == (DYNAMIC if name == "types" else SIMPLE)
    bloom = BloomFilter.parse(footer.bloom_text, footer.bloom_type, name)
    assert bloom.contains(keys).all()
    entries = 60000 if name == "types" else 1000
    made = BloomFilter.create(
        type_code=footer.bloom_type, entries=entries, fpp=1e-9, max_entries=100000
    )
    made.add(keys)
    assert made.serialize() == footer.bloom_text


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("codec", ["gzip", "snappy", "zstd", "uncompressed"])
def test_files_of_hudi_written_again(name, codec):
    source = reader(name)
    footer = read_footer(source)
    table = read_base_file(source)
    avro = (footer.metadata.metadata or {}).get(b"parquet.avro.schema", b"{}").decode()
    ours = reader_of(
        parquet.write_base_file(
            table, options=BaseFileOptions(codec=codec, avro_schema=avro), previous=footer
        )
    )
    again = read_base_file(ours)
    assert again.to_pylist() == table.to_pylist()
    assert again.schema.names == table.schema.names
    found = read_footer(ours)
    assert found.bloom_text == footer.bloom_text
    assert found.bloom_type == footer.bloom_type
    assert (found.min_key, found.max_key) == (footer.min_key, footer.max_key)
    assert found.metadata.metadata[b"parquet.avro.schema"].decode() == avro
    if codec == "gzip":
        assert ours.size <= 1.05 * source.size


def test_gzip_without_shortcut(monkeypatch):
    table = rows(500)
    quick = reader_of(write(table))
    monkeypatch.setattr(parquet, "gzip_pages", lambda *_: None)
    plain = reader_of(write(table))
    assert plain.data != quick.data
    for source in (quick, plain):
        assert read_footer(source).metadata.row_group(0).column(2).compression == "GZIP"
        assert read_base_file(source).equals(table)


def test_types_are_hudis():
    ours = reader_of(write(read_base_file(reader("types"))))
    hudi = read_footer(reader("types")).metadata.schema
    mine = read_footer(ours).metadata.schema
    for i, name in enumerate(hudi.names):
        theirs, found = hudi.column(i), mine.column(i)
        if theirs.path.startswith("c_arr"):
            assert found.path == "c_arr.list.element"
            continue
        assert found.path == theirs.path
        assert found.physical_type == theirs.physical_type
        assert found.logical_type.type == theirs.logical_type.type, name
        assert found.length == theirs.length
        assert found.max_definition_level == theirs.max_definition_level
    entries = read_footer(ours).metadata.metadata
    assert b"ARROW:schema" not in entries


def test_footer_of_a_new_file():
    table = rows(50)
    ours = reader_of(write(table, avro_schema='{"x":1}'))
    footer = read_footer(ours)
    entries = footer.metadata.metadata
    assert set(entries) == {
        b"org.apache.hudi.bloomfilter",
        b"hoodie_bloom_filter_type_code",
        b"hoodie_min_record_key",
        b"hoodie_max_record_key",
        b"parquet.avro.schema",
        b"writer.model.name",
    }
    assert entries[b"writer.model.name"] == b"avro"
    bloom = BloomFilter.create(type_code=DYNAMIC, entries=100, fpp=1e-3, max_entries=200)
    bloom.add(table.column("_hoodie_record_key"))
    assert footer.bloom_text == bloom.serialize()
    assert read_base_file(ours).equals(table)


def test_simple_filters_carry_no_code():
    simple = FooterOptions(bloom_type=SIMPLE, bloom_entries=100)
    footer = read_footer(reader_of(write(rows(5), footer=simple)))
    assert footer.bloom_type == SIMPLE
    assert b"hoodie_bloom_filter_type_code" not in footer.metadata.metadata
    assert len(footer.bloom_text) > 100


def test_no_filter_no_range():
    footer = read_footer(reader_of(write(rows(5), footer=FooterOptions(bloom_enabled=False))))
    assert (footer.bloom_text, footer.min_key, footer.max_key) == (None, None, None)
    empty = reader_of(write(rows(1)[:0]))
    assert read_footer(empty).num_rows == 0
    assert read_base_file(empty).equals(rows(1)[:0])


def test_key_range_is_in_byte_order():
    # UTF-16 would put the emoji before the private-use character.
    table = rows(2)
    keys = pa.array(["\ue000", "😀"])
    table = table.set_column(2, "_hoodie_record_key", keys)
    footer = read_footer(reader_of(write(table)))
    assert (footer.min_key, footer.max_key) == ("\ue000", "😀")


def test_previous_filter_is_taken_over():
    old, new = rows(30), rows(10, seed=2)
    previous = read_footer(reader_of(write(old)))
    options = BaseFileOptions(footer=FooterOptions(bloom_type=SIMPLE, bloom_entries=7))
    same = read_footer(reader_of(parquet.write_base_file(old, options=options, previous=previous)))
    assert (same.bloom_type, same.bloom_text) == (DYNAMIC, previous.bloom_text)
    both = pa.concat_tables([old, new])
    inserted = new.column("_hoodie_record_key").combine_chunks()
    more = read_footer(
        reader_of(
            parquet.write_base_file(both, options=options, previous=previous, inserted=inserted)
        )
    )
    anew = read_footer(reader_of(write(both)))
    assert (more.bloom_type, more.bloom_text) == (DYNAMIC, anew.bloom_text)
    assert (more.min_key, more.max_key) == (anew.min_key, anew.max_key)
    bare = read_footer(reader_of(write(old, footer=FooterOptions(bloom_enabled=False))))
    built = read_footer(
        reader_of(
            parquet.write_base_file(
                old, options=BaseFileOptions(footer=SMALL), previous=bare, inserted=inserted
            )
        )
    )
    assert built.bloom_text == previous.bloom_text


def test_row_groups():
    table = rows(1000)
    ours = reader_of(write(table, block_size=table.nbytes // 4))
    assert 4 <= read_footer(ours).metadata.num_row_groups <= 5
    assert read_base_file(ours).equals(table)


def dictionary_columns(table):
    group = read_footer(reader_of(write(table))).metadata.row_group(0)
    columns = [group.column(i) for i in range(group.num_columns)]
    return {c.path_in_schema for c in columns if c.has_dictionary_page}


@pytest.mark.parametrize("count", [300, 20000])
def test_dictionaries_where_values_repeat(count):
    assert dictionary_columns(rows(count)) == {
        "_hoodie_commit_time",
        "_hoodie_partition_path",
        "_hoodie_file_name",
        "city",
        "tags.list.element",
    }


def test_dictionaries_of_nested_columns():
    table = rows(200).append_column(
        "deep",
        pa.array(
            [{"m": [("k", [i % 3, i])], "s": {"x": "same"}} for i in range(200)],
            pa.struct(
                [
                    ("m", pa.map_(pa.string(), pa.list_(pa.int64()))),
                    ("s", pa.struct([("x", pa.string())])),
                ]
            ),
        ),
    )
    found = {path for path in dictionary_columns(table) if path.startswith("deep")}
    assert found == {"deep.m.key_value.key", "deep.s.x"}
    assert read_base_file(reader_of(write(table))).to_pylist() == table.to_pylist()


def test_columns_with_nan_have_no_range():
    """Arrow leaves NaN out of ranges, Spark compares it as the highest number."""
    nan = math.nan
    table = rows(3)
    for name, values in {
        "a": [1.0, nan, None],
        "b": [1.0, 2.0, None],
        "s": [{"x": nan, "y": 1.0}, None, {"x": 1.0, "y": None}],
        "l": [[1.0], [nan], []],
        "m": [[("k", nan)], [], None],
    }.items():
        kind = pa.map_(pa.string(), pa.float64()) if name == "m" else None
        table = table.append_column(name, pa.array(values, kind))
    group = read_footer(reader_of(write(table))).metadata.row_group(0)
    columns = [group.column(i) for i in range(group.num_columns)]
    without = {column.path_in_schema for column in columns if column.statistics is None}
    assert without == {"a", "s.x", "l.list.element", "m.key_value.value"}


def test_columns_with_negative_zero_have_no_dictionary():
    """Parquet's filter on dictionaries tells it from zero, Spark's comparison does not."""
    table = rows(40)
    for name, value, kind in (
        ("a", -0.0, pa.float32()),
        ("b", 0.0, pa.float64()),
        ("c", -0.0, pa.float64()),
    ):
        table = table.append_column(name, pa.array([value, None] * 20, kind))
    table = table.append_column("s", pa.array([{"x": -0.0, "y": 1.0}] * 40))
    # One among many, where a sample would miss it.
    table = table.append_column("d", pa.array([1.0] * 39 + [-0.0]))
    found = dictionary_columns(table)
    assert not {"a", "c", "d", "s.x"} & set(found)
    assert {"b", "s.y"} <= set(found)


def test_many_values_that_repeat():
    # 1000 different values in 40,000 rows: far more than the sample shows at a glance.
    rng = random.Random(5)
    table = rows(40000).set_column(
        7,
        "city",
        pa.array([f"a rather long city name {rng.randrange(1000)}" for _ in range(40000)]),
    )
    assert "city" in dictionary_columns(table)


def test_timestamps_are_micros():
    stamps = pa.array([1704164645678], pa.timestamp("ms", "UTC"))
    ours = reader_of(write(rows(1).append_column("at", stamps)))
    kind = read_base_file(ours).schema.field("at").type
    assert kind == pa.timestamp("us", "UTC")
    local = reader_of(write(rows(1).append_column("at", stamps.cast(pa.timestamp("us")))))
    assert read_base_file(local).schema.field("at").type == pa.timestamp("us")


def test_columns_and_ranges(tmp_path):
    table = rows(40000)
    ours = write(table, codec="uncompressed")
    assert len(ours) > parquet._WHOLE_READ
    folder = tmp_path / "2024/01/09"
    folder.mkdir(parents=True)
    (folder / "f.parquet").write_bytes(ours)
    read = []

    class Watched:
        def __init__(self, inner):
            self.inner, self.name, self.size = inner, inner.name, inner.size

        def read(self, offset, length):
            read.append(length)
            return self.inner.read(offset, length)

    source = Watched(LocalStorage(str(tmp_path)).open("2024/01/09/f.parquet"))
    wanted = ["city", "absent", "_hoodie_record_key"]
    found = read_base_file(source, wanted)
    assert found.equals(table.select(["city", "_hoodie_record_key"]))
    assert sum(read) < len(ours) // 2
    assert read_base_file(source, footer=read_footer(source)).equals(table)


def test_unknown_codec():
    with pytest.raises(InvalidOptionError, match="lzo"):
        BaseFileOptions(codec="lzo")
    assert BaseFileOptions(codec="GZIP").codec == "GZIP"


def test_empty_key():
    table = rows(1).set_column(2, "_hoodie_record_key", pa.array([""]))
    with pytest.raises(InputError):
        write(table)


def footer_only(data):
    (length,) = struct.unpack("<I", data[-8:-4])
    return len(data) - 8 - length


def test_damaged_files():
    data = write(rows(20))
    start = footer_only(data)
    for end in [0, 3, 8, 11, len(data) // 2, len(data) - 1]:
        source = BytesReader(name="cut", data=data[:end])
        with pytest.raises(CorruptFileError, match=r"^cut "):
            read_footer(source)
    huge = data[:-8] + struct.pack("<I", 2**31) + b"PAR1"
    with pytest.raises(CorruptFileError, match="smaller file"):
        read_footer(BytesReader(name="f", data=huge))
    torn = data[:start] + b"\xff" * (len(data) - 8 - start) + data[-8:]
    with pytest.raises(CorruptFileError, match="Thrift"):
        read_footer(BytesReader(name="f", data=torn))
    pages = data[:4] + bytes(start - 4) + data[start:]
    with pytest.raises(CorruptFileError, match=r"^f "):
        read_base_file(BytesReader(name="f", data=pages))


def test_conformed_table_reads_as_its_schema():
    table = read_base_file(reader("types"))
    target = schema.with_meta(
        schema.from_avro(
            read_footer(reader("types")).metadata.metadata[b"parquet.avro.schema"].decode()
        )
    )
    conformed = schema.conform(table, target, "rows")
    assert conformed.schema.equals(target)
    again = read_base_file(reader_of(write(conformed)))
    assert again.schema.equals(target)
    assert io.BytesIO(write(conformed)).getvalue()[:4] == b"PAR1"


def test_a_file_name_in_the_rows_that_is_no_text_is_damage():
    sink = pa.BufferOutputStream()
    table = pa.table({"_hoodie_file_name": ["f.parquet"] * 3, "v": [1, 2, 3]})
    pq.write_table(table, sink, compression="none", write_statistics=False)
    data = sink.getvalue().to_pybytes()
    assert read_base_file(BytesReader(name="p/f.parquet", data=data)).num_rows == 3
    damaged = BytesReader(name="p/f.parquet", data=data.replace(b"f.parquet", b"\xff.parquet"))
    with pytest.raises(CorruptFileError, match=r"^p/f\.parquet is damaged.*no UTF-8"):
        read_base_file(damaged)
