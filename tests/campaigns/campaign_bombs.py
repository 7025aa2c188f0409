"""Small files that claim or become gigabytes: a typed error or a bounded answer, below 512 MB.

Each case writes one file and reads it in a child process with little address space.
"""

from __future__ import annotations

import base64
import gzip
import io
import random
import struct
import sys
import zlib
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from bounded import bounded
from campaign import Outcome
from table_cases import create, rows

from keymark import cli as run_bench
from keymark.harness.measure import event_log
from keymark.harness.store.store import RunFolder
from keymark.table.format.avro.records import encode_bytes, encode_long, encode_text
from keymark.table.format.bloom.filter import (
    DYNAMIC,
    DYNAMIC_HEADER,
    SIMPLE,
    SIMPLE_HEADER,
    BloomFilter,
)
from keymark.table.format.bloom.text import BloomText
from keymark.table.format.hfile.block import BYTES_PER_CHECKSUM, HEADER_SIZE, BlockKind, BlockReader
from keymark.table.format.hfile.reader import HFileReader
from keymark.table.format.log.block import MAGIC
from keymark.table.format.log.reader import read_blocks
from keymark.table.format.parquet.base_file import read_base_file
from keymark.table.rows.files import read_data, read_keys
from keymark.table.storage.storage import BytesReader
from keymark.table.timeline.archived import decode_archive
from keymark.table.timeline.avro_file import decode_container, load_schema
from keymark.table.timeline.commit_metadata import decode_commit

sys.path.insert(0, str(Path(__file__).parents[1] / "reports"))

from synthetic_runs import sample, write_run

SEEDS = 6
DEEP = (2_000, 100_000, 1_000_000)
Draw = random.Random
Action = Callable[[], object]


def _source(data: bytes) -> BytesReader:
    return BytesReader(name="bomb", data=data)


def _parquet(kind: str, draw: Draw) -> bytes:
    number = draw.choice([2_000_000, 10_000_000])
    columns = {
        "dictionary": lambda: pa.DictionaryArray.from_arrays(
            pa.array([0], pa.int32()).take(pa.array([0] * number, pa.int8())),
            pa.array(["x" * draw.choice([1_000, 100_000])]),
        ),
        "runs": lambda: pa.nulls(number * 20, pa.int64()).fill_null(7),
        "nulls": lambda: pa.nulls(number * 20, pa.string()),
        "booleans": lambda: pa.nulls(number * 20, pa.bool_()).fill_null(True),
        "nested": lambda: pa.array([["x" * 65_536]] * 50_000),
        "large values": lambda: pa.array(["x" * (50 << 20)] * 6),
    }
    sink = io.BytesIO()
    codec = draw.choice(["gzip", "zstd", "snappy", "none"])
    if kind in ("booleans", "large values") and codec == "none":
        codec = "zstd"  # As they are, they would be no bomb, but a large file.
    plain = kind == "large values"
    pq.write_table(pa.table({"k": columns[kind]()}), sink, compression=codec,
                   use_dictionary=not plain, row_group_size=number * 20)  # fmt: skip
    return sink.getvalue()


def _parquet_read(kind: str, draw: Draw, folder: Path) -> Action:
    data = _parquet(kind, draw)
    if draw.random() < 0.5:
        return lambda: read_base_file(_source(data)).num_rows
    path = folder / "rows.parquet"
    path.write_bytes(data)
    table = create(folder / "t")
    table.upsert(rows(["a"]))
    if draw.random() < 0.5:
        return lambda: table.upsert(read_data([path], table))
    return lambda: len(read_keys(path, table))


def _claimed_page(draw: Draw) -> Action:
    data = bytearray(_parquet("runs", Draw(1)))
    for _ in range(20):
        data[draw.randrange(4, min(len(data) - 200, 400))] = draw.choice([0xFF, 0x7F, 0x80, 0xFE])
    return lambda: read_base_file(_source(bytes(data))).num_rows


def _hfile_block(draw: Draw) -> Action:
    size = draw.choice([1 << 20, 64 << 20, 200 << 20, 255 << 20])
    compressed = gzip.compress(bytes(size), 6)
    claimed = draw.choice([size, size + 1, 2**31 - 1, 100])
    whole = HEADER_SIZE + len(compressed)
    sizes = (whole - HEADER_SIZE, claimed, -1, 0, BYTES_PER_CHECKSUM, whole)
    block = struct.pack(">8siiqBii", b"DATABLK*", *sizes) + compressed
    return lambda: len(BlockReader(_source(block), 0, None).read(0, BlockKind.DATA))


def _hfile_trailer(draw: Draw) -> Action:
    path = Path(__file__).parents[1] / "data/hfile/hudi_0.15.0_record_index_base.hfile"
    data = bytearray(path.read_bytes())
    for _ in range(draw.choice([1, 3, 10])):
        data[-draw.randrange(1, 4_096)] = draw.choice([0xFF, 0x7F, 0x80])
    return lambda: sum(len(keys) for keys, _ in HFileReader(_source(bytes(data))).scan())


def _log(draw: Draw) -> Action:
    huge = draw.choice([2**31 - 1, 2**62, -1, 2**31])
    body = struct.pack(">iii", 1, draw.choice([2, 3, 4]), draw.choice([0, 1, 2**31 - 1]))
    body += struct.pack(">q", huge) + bytes(draw.choice([0, 100, 1 << 20]))
    size = draw.choice([len(body), huge])
    return lambda: len(read_blocks(_source(MAGIC + struct.pack(">q", size) + body), complete=True))


def _bloom(draw: Draw) -> Action:
    huge = draw.choice([2**31 - 1, 2**30, 1])
    kind = draw.choice([SIMPLE, DYNAMIC])
    head = (-1, draw.choice([1, 30, 2**31 - 1]), 1, huge)
    body = SIMPLE_HEADER.pack(*head) if kind == SIMPLE else DYNAMIC_HEADER.pack(
        *head, huge, 1, draw.choice([1, 2**31 - 1])
    )  # fmt: skip
    text = base64.b64encode(body + bytes(draw.choice([0, 1_000])))
    parse = draw.choice([BloomFilter.parse, BloomText.parse])
    return lambda: parse(text, kind, "bomb").contains(pa.array(["a"])).sum()


def _commit(draw: Draw) -> Action:
    deep, number = draw.choice(DEEP), "9" * draw.choice([5_000, 1_000_000])
    texts = [
        "[" * deep,
        '{"a":' * deep + "1" + "}" * deep,
        f'{{"partitionToWriteStats": {{"p": [{{"path": "x", "fileSizeInBytes": {number}}}]}}}}',
        f'{{"partitionToWriteStats": {{"p": [{{"path": "x", "numWrites": {number}}}]}}}}',
        '{"partitionToWriteStats": {"p": ' + "[" * deep + "]" * deep + "}}",
        '{"partitionToWriteStats": {"p": [{"path": "x", "numWrites": 1e400}]}}',
    ]
    data = draw.choice(texts).encode()
    return lambda: decode_commit(data, "bomb.commit").rows


def _container(draw: Draw) -> Action:
    schema = load_schema("clean_metadata")
    deep = draw.choice(DEEP)
    text = draw.choice(
        [
            schema.text,
            '{"type":"array","items":' * deep + '"null"' + "}" * deep,
            '{"type": "record", "name": "r", "fields": []}',
        ]
    )
    codec = draw.choice([b"null", b"deflate"])
    record = encode_long(draw.choice([2**62, 2**31, -(2**62), 1])) * 50
    payload = zlib.compress(bytes(100 << 20))[2:-4] if codec == b"deflate" else record
    header = encode_long(2) + encode_text("avro.schema") + encode_text(text)
    header += encode_text("avro.codec") + encode_bytes(codec) + encode_long(0)
    count = encode_long(draw.choice([1, 2**62]))
    data = b"Obj\x01" + header + bytes(16) + count + encode_bytes(payload) + bytes(16)
    return lambda: decode_container(data, "bomb.clean", schema)


def _archive(draw: Draw) -> Action:
    content = draw.randbytes(50) + encode_long(2**62) * 20
    body = struct.pack(">iii", 1, 3, 0) + struct.pack(">q", len(content)) + content
    body += struct.pack(">iq", 0, len(body) + 4 + 8 + 8)
    return lambda: len(decode_archive(_source(MAGIC + struct.pack(">q", len(body)) + body)))


def _event_log(draw: Draw, folder: Path) -> Action:
    deep = draw.choice(DEEP)
    size = draw.choice([1 << 30, 2 << 30])
    path = folder / "app-1.zstd"
    with pa.CompressedOutputStream(str(path), "zstd") as stream:
        if draw.random() < 0.6:
            line = draw.choice([b"x", b"[", b"\n", b" ", b'{"a":'])
            for _ in range(size >> 23):
                stream.write(line * ((8 << 20) // len(line)))
        else:
            stream.write(b'{"Event":' * deep + b"1" + b"}" * deep + b"\n")
    return lambda: len(event_log.read(path))


def _run_folder(draw: Draw, folder: Path) -> Action:
    path = write_run(folder / "run", [sample()])
    deep = draw.choice(DEEP)
    name = draw.choice(["run.json", "samples.jsonl", "stages.jsonl", "canary.jsonl"])
    text = draw.choice(["[" * deep, '{"a":' * deep + "1" + "}" * deep, f'{{"x": {"9" * deep}}}'])
    (path / name).write_text(text + "\n")
    if draw.random() < 0.5:
        return lambda: _command("report", str(path), "--out", str(folder / "out"))
    return lambda: (
        len(RunFolder.open(path).samples()) + len(RunFolder.open(path).read_record().document)
    )


def _document(draw: Draw, folder: Path) -> Action:
    deep = draw.choice(DEEP)
    path = folder / draw.choice(["x.toml", "x.json"])
    value = draw.choice(["[" * deep + "]" * deep, "9" * deep, '"' + "x" * (64 << 20) + '"'])
    path.write_text(value if path.suffix == ".json" else f"a = {value}\n")
    size = ("--records", "1000000", "--batch", "1000", "--keys-stay")
    run = str(write_run(folder / "run", [sample()]))
    return draw.choice(
        [
            lambda: _command("plan", *size, "--prices", str(path)),
            lambda: _command("plan", *size, "--calibration", str(path)),
            lambda: _command("gate", run, run, "--policy", str(path)),
            lambda: _command("gate", str(path), run),
            lambda: _command("run", str(path)),
            lambda: _command("run", "quickstart", "--set", f"dataset.rows={value[: 10**5]}"),
            lambda: _command("data", "describe", str(path)),
        ]
    )


def _foreign(draw: Draw, folder: Path) -> Action:
    """Rows in files of other kinds, under names of known ones."""
    table = create(folder / "t")
    table.upsert(rows(["a"]))
    path = folder / f"rows{draw.choice(['.parquet', '.csv', '.jsonl', '.jsonl.gz', '.csv.gz'])}"
    if draw.random() < 0.5:
        values = pa.DictionaryArray.from_arrays(pa.array([0] * 100_000), pa.array(["x" * 65_536]))
        options = pa.ipc.IpcWriteOptions(compression="zstd")
        batch = pa.table({"k": values})
        with pa.ipc.new_file(str(path), batch.schema, options=options) as writer:
            writer.write_table(batch)
    else:
        path.write_bytes(gzip.compress(bytes(200 << 20)))
    return lambda: table.upsert(read_data([path], table))


def _command(*words: str) -> str:
    code = run_bench.main(list(words))
    if code == 4:
        raise AssertionError(f"{words} ended in 4")
    return f"exit code {code}"


PARQUET = ("dictionary", "runs", "nulls", "booleans", "nested", "large values")
READERS: dict[str, Callable[[Draw, Path], Action]] = {
    "Parquet pages that lie": lambda draw, _: _claimed_page(draw),
    "HFile block": lambda draw, _: _hfile_block(draw),
    "HFile trailer": lambda draw, _: _hfile_trailer(draw),
    "log block": lambda draw, _: _log(draw),
    "bloom filter": lambda draw, _: _bloom(draw),
    "commit": lambda draw, _: _commit(draw),
    "Avro container": lambda draw, _: _container(draw),
    "archive": lambda draw, _: _archive(draw),
    "event log": _event_log,
    "run folder": _run_folder,
    "document": _document,
    "foreign rows": _foreign,
}


@dataclass(frozen=True)
class Bombs:
    """The campaign."""

    seed: int = 35
    seconds: float = 120.0
    share: int = 10

    def cases(self) -> Sequence[str]:
        """Every kind of file, in several sizes."""
        kinds = [*(f"Parquet of {kind}" for kind in PARQUET), *READERS]
        return [f"{kind} #{number}" for number in range(SEEDS) for kind in kinds]

    def run(self, case: str, folder: Path) -> Outcome:
        """Read the file of a case."""
        kind = case.rpartition(" #")[0]
        draw = Draw(f"{self.seed} {case}")
        parquet = kind.removeprefix("Parquet of ")
        prepare = READERS.get(kind, lambda d, f: _parquet_read(parquet, d, f))
        answer = bounded(prepare(draw, folder), folder)
        outcome = Outcome(Counter({"bombs": 1, f"answers: {answer.kind}": 1}))
        promise = answer.broken()
        outcome.failures += [f"{case}: {promise}"] if promise else []
        return outcome


CAMPAIGN = Bombs()
