"""Schemas: Avro text as Hudi writes it, and tables brought into a schema."""

import datetime as dt
import decimal
import json

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keymark.table.errors import InputError, UnsupportedTableError
from keymark.table.format import schema as schemas

# extraMetadata.schema of a commit that Hudi 0.15.0 wrote.
HUDI = (
    '{"type":"record","name":"t_record","namespace":"hoodie.t","fields":[{"name":"uuid","type":'
    '"string"},{"name":"dt","type":["null","string"],"default":null},{"name":"ts","type":"long"},'
    '{"name":"c_int","type":"int"},{"name":"c_long","type":["null","long"],"default":null},'
    '{"name":"c_float","type":["null","double"],"default":null},{"name":"c_double","type":'
    '["null","double"],"default":null},{"name":"c_bool","type":["null","boolean"],"default":null}'
    ',{"name":"c_str","type":"string"},{"name":"c_date","type":["null",{"type":"int",'
    '"logicalType":"date"}],"default":null},{"name":"c_ts","type":{"type":"long","logicalType":'
    '"timestamp-micros"}},{"name":"c_dec","type":["null",{"type":"fixed","name":"fixed",'
    '"namespace":"hoodie.t.t_record.c_dec","size":5,"logicalType":"decimal","precision":10,'
    '"scale":3}],"default":null},{"name":"c_dec30","type":["null",{"type":"fixed","name":"fixed",'
    '"namespace":"hoodie.t.t_record.c_dec30","size":13,"logicalType":"decimal","precision":30,'
    '"scale":10}],"default":null},{"name":"c_bin","type":"bytes"},{"name":"c_st","type":{"type":'
    '"record","name":"c_st","namespace":"hoodie.t.t_record","fields":[{"name":"x","type":"int"},'
    '{"name":"y","type":"string"}]}},{"name":"c_arr","type":{"type":"array","items":"int"}},'
    '{"name":"c_null","type":["null","string"],"default":null}]}'
)
META = (
    '{"name":"_hoodie_commit_time","type":["null","string"],"doc":"","default":null},'
    '{"name":"_hoodie_commit_seqno","type":["null","string"],"doc":"","default":null},'
    '{"name":"_hoodie_record_key","type":["null","string"],"doc":"","default":null},'
    '{"name":"_hoodie_partition_path","type":["null","string"],"doc":"","default":null},'
    '{"name":"_hoodie_file_name","type":["null","string"],"doc":"","default":null},'
)


def test_hudi_schema_there_and_back():
    read = schemas.from_avro(HUDI)
    assert read.field("c_dec30").type == pa.decimal128(30, 10)
    assert read.field("c_ts") == pa.field("c_ts", pa.timestamp("us", "UTC"), nullable=False)
    assert read.field("c_arr").type == pa.list_(pa.field("element", pa.int32(), nullable=False))
    name, namespace = schemas.avro_names("t")
    assert schemas.to_avro(read, record_name=name, namespace=namespace) == HUDI
    full = schemas.to_avro(schemas.with_meta(read), record_name=name, namespace=namespace)
    assert full == HUDI.replace('"fields":[', '"fields":[' + META, 1)
    assert schemas.from_avro(full).names[:5] == list(schemas.META_COLUMNS)
    assert schemas.without_meta(schemas.from_avro(full)) == read


def test_names_are_made_legal():
    assert schemas.avro_names("my-table.é") == ("my__table_____record", "hoodie.my__table____")
    assert schemas.avro_names("1st") == ("__st_record", "hoodie.__st")


kinds = st.recursive(
    st.sampled_from(
        [
            pa.bool_(), pa.int32(), pa.int64(), pa.float32(), pa.float64(), pa.string(),
            pa.binary(), pa.date32(), pa.timestamp("us"), pa.timestamp("us", "UTC"),
            pa.decimal128(38, 38), pa.decimal128(1, 0),
        ]
    ),
    lambda inner: st.one_of(
        st.builds(lambda k, n: pa.list_(pa.field("element", k, n)), inner, st.booleans()),
        st.builds(lambda k, n: pa.map_(pa.string(), pa.field("value", k, n)), inner, st.booleans()),
        st.lists(st.tuples(inner, st.booleans()), min_size=1, max_size=3).map(
            lambda members: pa.struct(
                [pa.field(f"m{i}", k, n) for i, (k, n) in enumerate(members)]
            )
        ),
    ),
    max_leaves=8,
)  # fmt: skip


@settings(deadline=None)
@given(st.lists(st.tuples(kinds, st.booleans()), min_size=1, max_size=5))
def test_every_schema_survives(columns):
    schema = pa.schema([pa.field(f"c{i}", k, n) for i, (k, n) in enumerate(columns)])
    text = schemas.to_avro(schema, record_name="t_record", namespace="hoodie.t")
    assert schemas.from_avro(text).equals(schema, check_metadata=True)


def test_other_avro_types():
    fields = [
        {"name": "a", "type": {"type": "enum", "name": "e", "symbols": ["X"]}},
        {"name": "b", "type": ["null", "e"]},
        {"name": "c", "type": {"type": "fixed", "name": "f", "size": 3}},
        {"name": "d", "type": {"type": "bytes", "logicalType": "decimal", "precision": 5}},
        {"name": "e", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "f", "type": ["string", "null"]},
        {"name": "g", "type": {"type": {"type": "string", "avro.java.string": "String"}}},
        {"name": "h", "type": {"type": "record", "name": "in", "fields": []}},
        {"name": "i", "type": "x.in"},
    ]
    text = json.dumps({"type": "record", "name": "r", "namespace": "x", "fields": fields})
    assert schemas.from_avro(text) == pa.schema(
        [
            pa.field("a", pa.string(), nullable=False),
            pa.field("b", pa.string()),
            pa.field("c", pa.binary(3), nullable=False),
            pa.field("d", pa.decimal128(5, 0), nullable=False),
            pa.field("e", pa.timestamp("ms", "UTC"), nullable=False),
            pa.field("f", pa.string()),
            pa.field("g", pa.string(), nullable=False),
            pa.field("h", pa.struct([]), nullable=False),
            pa.field("i", pa.struct([]), nullable=False),
        ]
    )


@pytest.mark.parametrize(
    "kind",
    [
        "nothing",
        ["null", "int", "string"],
        {"type": "long", "logicalType": "time-micros"},
        {"type": "bytes", "logicalType": "decimal", "precision": 39},
        {"type": "fixed", "name": "f", "size": 1 << 40},
        {"type": "fixed", "name": "f", "size": 1 << 70},
        {"type": "array"},
        {"type": 3},
        None,
    ],
)
def test_unknown_avro_types(kind):
    fields = [{"name": "a", "type": kind}]
    with pytest.raises(UnsupportedTableError):
        schemas.from_avro(json.dumps({"type": "record", "name": "r", "fields": fields}))


@pytest.mark.parametrize("text", ["", "{", '"int"', "[]", '{"type": "record"}', "3"])
def test_malformed_avro(text):
    with pytest.raises(UnsupportedTableError):
        schemas.from_avro(text)


@pytest.mark.parametrize(
    "item",
    [
        pa.field("a b", pa.int32()),
        pa.field("t", pa.time64("us")),
        pa.field("m", pa.map_(pa.int32(), pa.int32())),
        pa.field("u", pa.uint64()),
    ],
)
def test_columns_without_place(item):
    with pytest.raises(InputError, match=item.name):
        schemas.to_avro(pa.schema([item]), record_name="r", namespace="n")


TARGET = schemas.from_avro(HUDI)
ROW = {
    "uuid": "k", "dt": None, "ts": 1, "c_int": 2, "c_long": None, "c_float": 1.5,
    "c_double": None, "c_bool": True, "c_str": "s", "c_date": dt.date(2024, 1, 2),
    "c_ts": dt.datetime(2024, 1, 2, 3, 4, 5, 6, dt.UTC),
    "c_dec": decimal.Decimal("1.500"), "c_dec30": decimal.Decimal("-2.0000000001"),
    "c_bin": b"x", "c_st": {"x": 1, "y": "z"}, "c_arr": [1, 2], "c_null": None,
}  # fmt: skip


def test_conform_brings_types_and_order():
    loose = pa.schema(
        [
            pa.field("c_arr", pa.large_list(pa.field("item", pa.int16()))),
            pa.field("c_st", pa.struct([("y", pa.large_string()), ("x", pa.int8())])),
            pa.field("c_null", pa.null()),
            pa.field("c_dec", pa.decimal128(12, 4)),
            pa.field("c_ts", pa.timestamp("us", "Europe/Berlin")),
            pa.field("uuid", pa.dictionary(pa.int8(), pa.string())),
            pa.field("ts", pa.int32()),
            pa.field("c_bin", pa.large_binary()),
            pa.field("c_date", pa.date64()),
        ]
    )
    rest = [f for f in reversed(list(TARGET)) if f.name not in loose.names]
    table = pa.Table.from_pylist([ROW, ROW], schema=pa.schema(list(loose) + rest))
    done = schemas.conform(table, TARGET, "rows")
    assert done.schema.equals(TARGET, check_metadata=True)
    done.validate(full=True)
    assert done.to_pylist() == [ROW, ROW]
    assert schemas.conform(done[:0], TARGET, "rows").num_rows == 0


def test_conform_nested_slices_and_nulls():
    kind = pa.map_(
        pa.string(),
        pa.field("value", pa.list_(pa.field("element", pa.int64(), nullable=False))),
    )
    loose = pa.map_(pa.large_string(), pa.list_(pa.int32()))
    values = [None, [("a", [1])], [], [("b", None), ("c", [2, 3])], [("d", [4])]]
    array = pa.array(values, loose)[1:]
    done = schemas.conform(pa.table({"m": array}), pa.schema([pa.field("m", kind)]), "rows")
    done.validate(full=True)
    assert done.column("m").to_pylist() == values[1:]
    struct = pa.struct([pa.field("x", pa.int64(), nullable=False)])
    array = pa.array([{"x": 1}, None, {"x": 3}], pa.struct([("x", pa.int32())]))
    done = schemas.conform(pa.table({"s": array[1:]}), pa.schema([pa.field("s", struct)]), "rows")
    assert done.column("s").to_pylist() == [None, {"x": 3}]


def test_only_visible_nulls_count():
    strict = pa.struct([pa.field("x", pa.int64(), nullable=False)])
    child = pa.array([1, None, None])
    hidden = pa.StructArray.from_arrays([child], ["x"], mask=pa.array([False, True, True]))
    assert conform_one(hidden, strict).column("c").to_pylist() == [{"x": 1}, None, None]
    shown = pa.StructArray.from_arrays([child], ["x"], mask=pa.array([False, True, False]))
    with pytest.raises(InputError, match="x holds nulls"):
        conform_one(shown, strict)
    lists = pa.list_(pa.field("element", pa.int64(), nullable=False))
    array = pa.array([[None], [1], [2, 3], None, [None]])
    assert conform_one(array[1:4], lists).column("c").to_pylist() == [[1], [2, 3], None]
    maps = pa.map_(pa.string(), pa.field("value", pa.int64(), nullable=False))
    array = pa.array([[("a", None)], [("b", 1)]], pa.map_(pa.string(), pa.int32()))
    assert conform_one(array[1:], maps).column("c").to_pylist() == [[("b", 1)]]
    for bad, kind in ((pa.array([[None], None]), lists), (array, maps)):
        with pytest.raises(InputError, match="holds nulls"):
            conform_one(bad, kind)


def conform_one(array, kind, *, nullable=True):
    return schemas.conform(
        pa.table({"c": array}), pa.schema([pa.field("c", kind, nullable)]), "rows"
    )


@pytest.mark.parametrize(
    ("array", "kind"),
    [
        (pa.array(["1"]), pa.int32()),
        (pa.array([1]), pa.string()),
        (pa.array([1.0]), pa.int64()),
        (pa.array([2**40]), pa.int32()),
        (pa.array([2**60 + 1]), pa.float64()),
        (pa.array([b"x"]), pa.string()),
        (pa.array([1], pa.timestamp("ns")), pa.timestamp("us", "UTC")),
        (pa.array([decimal.Decimal("1.55")]), pa.decimal128(5, 1)),
        (pa.array([dt.date(2024, 1, 2)]), pa.timestamp("us", "UTC")),
        (pa.array([{"x": 1}]), pa.struct([("y", pa.int64())])),
        (pa.array([[None]], pa.list_(pa.int64())), pa.list_(pa.field("e", pa.int64(), False))),
    ],
)
def test_conform_refuses(array, kind):
    with pytest.raises(InputError, match="'c'"):
        conform_one(array, kind)


def test_conform_refuses_columns_and_nulls():
    with pytest.raises(InputError, match="nulls"):
        conform_one(pa.array([None, 1]), pa.int64(), nullable=False)
    with pytest.raises(InputError, match="no column 'uuid'"):
        schemas.conform(pa.table({"ts": [1]}), TARGET, "rows")
    with pytest.raises(InputError, match="'more'"):
        schemas.conform(pa.table({"more": [1]}), TARGET, "rows")
    twice = pa.Table.from_arrays([pa.array([1]), pa.array([1])], names=["ts", "ts"])
    with pytest.raises(InputError, match="more than one"):
        schemas.conform(twice, pa.schema([("ts", pa.int64())]), "rows")
