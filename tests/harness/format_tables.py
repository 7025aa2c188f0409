"""Tables of Delta and Iceberg made by hand, by their specifications, without their code."""

from __future__ import annotations

import base64
import json
import struct
import uuid
import zlib
from pathlib import Path

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq

Z85 = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
B85 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~"

FIELDS = [("uuid", "string"), ("ts", "long"), ("dt", "string")]
KEPT = {
    "keymark.table.name": "t",
    "keymark.recordkey.fields": "uuid",
    "keymark.ordering.field": "ts",
}


def rows(keys, **columns):
    count = len(keys)
    return pa.table({"uuid": list(keys), "ts": list(range(count)), **columns})


def add(path, *, dt="a", vector=None, stats=None):
    action = {"path": path, "partitionValues": {"dt": dt}, "size": 1, "dataChange": True}
    action |= {"deletionVector": vector} if vector else {}
    return {"add": {**action, **({"stats": json.dumps(stats)} if stats else {})}}


def make_delta(table, versions, *, configuration=None):
    """A table of Delta by day; the first version describes it."""
    log = table / "_delta_log"
    log.mkdir(parents=True)
    fields = [
        {"name": name, "type": kind, "nullable": True, "metadata": {}} for name, kind in FIELDS
    ]
    metadata = {
        "id": "0",
        "schemaString": json.dumps({"type": "struct", "fields": fields}),
        "partitionColumns": ["dt"],
        "configuration": KEPT if configuration is None else dict(configuration),
    }
    for number, actions in enumerate(versions):
        told = [{"metaData": metadata}, *actions] if number == 0 else actions
        (log / f"{number:020d}.json").write_text("\n".join(map(json.dumps, told)))
    return table


def bitmap(positions):
    """A set of positions below 2^32, each container an array."""
    parts = {}
    for position in sorted(positions):
        parts.setdefault(position >> 16, []).append(position & 0xFFFF)
    header = b"".join(struct.pack("<HH", key, len(low) - 1) for key, low in parts.items())
    offsets = b"".join(struct.pack("<I", 0) for _ in parts)
    held = b"".join(struct.pack(f"<{len(low)}H", *low) for low in parts.values())
    one = struct.pack("<II", 12346, len(parts)) + header + offsets + held
    return struct.pack("<Iq", 1681511377, 1) + struct.pack("<I", 0) + one


def vector(table, positions):
    """A deletion vector in a file of its own; its descriptor."""
    name, data = uuid.UUID(int=7), bitmap(positions)
    file = table / f"deletion_vector_{name}.bin"
    file.parent.mkdir(parents=True, exist_ok=True)
    crc = struct.pack(">I", zlib.crc32(data))
    file.write_bytes(b"\x01" + struct.pack(">i", len(data)) + data + crc)
    text = base64.b85encode(name.bytes).decode().translate(str.maketrans(B85, Z85))
    return {
        "storageType": "u",
        "pathOrInlineDv": text,
        "offset": 1,
        "sizeInBytes": len(data),
        "cardinality": len(positions),
    }


DATA_FILE = {
    "type": "record",
    "name": "r2",
    "fields": [
        {"name": "content", "type": "int"},
        {"name": "file_path", "type": "string"},
        {"name": "file_format", "type": "string"},
        {
            "name": "partition",
            "type": {
                "type": "record",
                "name": "r102",
                "fields": [{"name": "dt", "type": ["null", "string"]}],
            },
        },
        {"name": "record_count", "type": "long"},
    ],
}
ENTRY = {
    "type": "record",
    "name": "manifest_entry",
    "fields": [
        {"name": "status", "type": "int"},
        {"name": "sequence_number", "type": ["null", "long"]},
        {"name": "data_file", "type": DATA_FILE},
    ],
}
MANIFEST = {
    "type": "record",
    "name": "manifest_file",
    "fields": [
        {"name": "manifest_path", "type": "string"},
        {"name": "content", "type": "int"},
        {"name": "sequence_number", "type": "long"},
    ],
}


def entry(path, *, dt="a", content=0, status=1):
    return {
        "status": status,
        "sequence_number": None,
        "data_file": {
            "content": content,
            "file_path": path,
            "file_format": "PARQUET",
            "partition": {"dt": dt},
            "record_count": 1,
        },
    }


def make_iceberg(table, entries, *, location, properties=None):
    """A table of Iceberg by day, one snapshot, which names its files below a location."""
    folder = table / "metadata"
    folder.mkdir(parents=True)

    def avro(name, schema, records):
        with (folder / name).open("wb") as file:
            fastavro.writer(file, fastavro.parse_schema(schema), records)

    avro("m0.avro", ENTRY, entries)
    manifest = {"manifest_path": f"{location}/metadata/m0.avro", "content": 0}
    avro("snap-1.avro", MANIFEST, [{**manifest, "sequence_number": 3}])
    fields = [
        {"id": number, "name": name, "required": False, "type": kind}
        for number, (name, kind) in enumerate(FIELDS, start=1)
    ]
    spec = {"source-id": 3, "field-id": 1000, "name": "dt", "transform": "identity"}
    metadata = {
        "format-version": 2,
        "location": location,
        "schemas": [{"schema-id": 0, "type": "struct", "fields": fields}],
        "current-schema-id": 0,
        "partition-specs": [{"spec-id": 0, "fields": [spec]}],
        "default-spec-id": 0,
        "properties": KEPT if properties is None else properties,
        "current-snapshot-id": 1,
        "snapshots": [
            {
                "snapshot-id": 1,
                "manifest-list": f"{location}/metadata/snap-1.avro",
                "summary": {
                    "operation": "overwrite",
                    "added-data-files": "2",
                    "added-delete-files": "1",
                    "added-records": "5",
                },
            }
        ],
        "metadata-log": [{"metadata-file": f"{location}/metadata/v1.metadata.json"}],
    }
    (folder / "v2.metadata.json").write_text(json.dumps(metadata))
    (folder / "version-hint.text").write_text("2")
    return table


def write(path, table):
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(table, path)
