"""Ask the key generators of real Apache Hudi for record keys and partition paths.

    python make_key_generators.py hudi-spark3.5-bundle_2.12-0.15.0.jar OUT.json

Needs PySpark 3.5. The generators are called as an upsert calls them: on Avro records, in a JVM
whose zone is UTC. Each answer is the text, or null where the generator raised.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from pyspark.sql import SparkSession

KEYGEN = "org.apache.hudi.keygen"
COLUMNS = {
    "k": "string",
    "k2": "int",
    "p": "string",
    "q": "string",
    "l": "long",
    "i": "int",
    "d": "double",
    "f": "float",
    "b": "boolean",
    "day": {"type": "int", "logicalType": "date"},
    "at": {"type": "long", "logicalType": "timestamp-micros"},
}
# How Avro's JSON names the branch of a union.
BRANCH = {"day": "int", "at": "long"}

KEYS = [
    {"k": "a", "k2": 1, "p": "x", "q": "y"},
    {"k": None, "k2": 2, "p": None, "q": "y"},
    {"k": "", "k2": 3, "p": "", "q": "u v"},
    {"k": "x:y,z", "k2": None, "p": "2024/01/02", "q": "a=b%c"},
    {"k": None, "k2": None, "p": "ü😀", "q": "[{^}]\\?*'\":#"},
    {"k": "", "k2": None, "p": "~!$&()+;<>@|,.-_`", "q": "\x01\x7f"},
]
NUMBERS = [
    {"l": 0, "i": 0, "d": 0.0, "f": 0.0, "day": 0, "at": 0},
    {"l": None, "i": None, "d": None, "f": None, "day": None, "at": None},
    {"l": 1700000000, "i": 1700000000, "d": 1.7e9, "f": 1.7e9, "day": 19675, "at": 1700000000123456},
    {"l": 1700000000123, "i": -1, "d": 1700000000123.9, "f": -1.5, "day": -1, "at": -1},
    {"l": -1, "i": 86399, "d": -0.9, "f": 86399.0, "day": 11016, "at": -1001},
    {"l": 951782400000, "i": 951782400, "d": 951782400.0, "f": 1e9, "day": 20000, "at": 951782400000000},
    {"l": 1700000000123456, "i": 86400, "d": 1e5, "f": 1e5, "day": 1, "at": 1720000000000001},
    {"l": 253402300799999, "i": 2147483647, "d": 1e12, "f": 2.0, "day": 2, "at": 253402300799999999},
]
TEXTS = [
    "2024-02-29T23:30:15.123Z",
    "2024-02-29T23:30:15Z",
    "2024-02-29T23:30:15.123+0800",
    "2024-02-29T23:30:15.1+08:00",
    "2024-03-31T01:59:59.999-0330",
    "2024-02-29 23:30:15",
    "2024-2-9 3:5:6",
    "20240229",
    "29/02/24",
    "20240229233015",
    "Feb 29, 2024 11:30 PM",
    "Thu 29 February 2024",
    "2024-060",
    "",
    "nonsense",
    None,
    "2024-02-30 00:00:00",
    "1969-12-31 23:59:59",
]
TIME = "hoodie.keygen.timebased."


def cases() -> list[dict]:
    """What is asked: class, key fields, partition fields, options, rows."""
    found = []

    def add(kind, keys, partition, rows, **options):
        options = {name.replace("__", "."): value for name, value in options.items()}
        found.append(
            {"class": kind, "keys": keys, "partition": partition, "options": options, "rows": rows}
        )

    styles = [{}, {"hive": "true"}, {"encode": "true"}, {"hive": "true", "encode": "true"}]
    for style in styles:
        add("Simple", "k", "p", KEYS, **style)
        add("Simple", "k2", "q", KEYS, **style)
        add("Complex", "k", "p", KEYS, **style)
        add("Complex", "k,k2", "p,q", KEYS, **style)
        add("Complex", "k2,k", "q", KEYS, **style)
        add("Nonpartitioned", "k", "", KEYS, **style)
        add("Nonpartitioned", "k,k2", "", KEYS, **style)
        add("Custom", "k", "p:SIMPLE", KEYS, **style)
        add("Custom", "k,k2", "p:simple,q:Simple", KEYS, **style)
        add("Custom", "k", "", KEYS, **style)
    numbers = [{"k": "a", **row} for row in NUMBERS]
    zones = ["UTC", "GMT+8:00", "America/New_York", "Asia/Kolkata", "GMT-03:30", "EST"]
    for kind in ("UNIX_TIMESTAMP", "EPOCHMILLISECONDS", "EPOCHMICROSECONDS", "SCALAR"):
        for field in ("l", "i", "d", "f", "day", "at"):
            add("TimestampBased", "k", field, numbers, type=kind, out="yyyy/MM/dd/HH")
        for zone in zones:
            add("TimestampBased", "k", "l", numbers, type=kind, out="yyyy-MM-dd HH:mm", out_zone=zone)
            add("TimestampBased", "k", "i", numbers, type=kind, out="yyyyMMddHH", zone=zone)
        for style in styles:
            add("TimestampBased", "k", "l", numbers, type=kind, out="yyyy/MM/dd", **style)
    for unit in "NANOSECONDS MICROSECONDS MILLISECONDS seconds MINUTES HOURS DAYS".split():
        add("TimestampBased", "k", "l", numbers, type="SCALAR", unit=unit, out="yyyy-MM-dd HH:mm:ss")
        add("TimestampBased", "k", "day", numbers, type="SCALAR", unit=unit, out="yyyy-MM-dd")
    outputs = [
        "yyyy", "yy", "y", "yyy", "yyyyyy", "YYYY", "xxxx", "M", "MM", "MMM", "MMMM", "d", "dd",
        "D", "DDD", "H", "HH", "k", "kk", "h", "hh", "K", "KK", "m", "mm", "s", "ss", "S", "SS",
        "SSS", "SSSSSS", "a", "E", "EEE", "EEEE", "e", "w", "ww", "Z", "ZZ", "ZZZ", "x-'W'ww-e",
        "yyyy'/'MM", "'year='yyyy", "''yy''", "yyyy.MM.dd'T'HH:mm:ss.SSSZ", "yyyy_MM", "xx", "eee",
    ]
    for pattern in outputs:
        for zone in ("UTC", "GMT+8:00", "Asia/Kolkata"):
            add("TimestampBased", "k", "l", numbers, type="EPOCHMILLISECONDS", out=pattern, out_zone=zone)
    texts = [{"k": "a", "p": text} for text in TEXTS]
    inputs = [
        "yyyy-MM-dd'T'HH:mm:ss.SSSZ",
        "yyyy-MM-dd'T'HH:mm:ssZ,yyyy-MM-dd'T'HH:mm:ss.SSSZ",
        "yyyy-MM-dd'T'HH:mm:ss.SZZ",
        "yyyy-MM-dd HH:mm:ss",
        "y-M-d H:m:s",
        "yyyyMMdd",
        "dd/MM/yy",
        "yyyyMMddHHmmss",
        "MMM dd, yyyy hh:mm a",
        "EEE d MMMM yyyy",
        "yyyy-DDD",
        "yyyy-MM-dd HH:mm:ss,yyyyMMdd,dd/MM/yy",
        "yyyyMMdd,yyyyMMddHHmmss",
    ]
    for kind in ("DATE_STRING", "MIXED"):
        for pattern in inputs:
            # Commas are also what separates patterns, unless another delimiter is named.
            split = {"delimiter": ";"} if "MMM dd, " in pattern else {}
            add("TimestampBased", "k", "p", texts, type=kind, into=pattern, out="yyyy-MM-dd HH", **split)
            add("TimestampBased", "k", "p", texts, type=kind, into=pattern, out="yyyyMMddHH",
                in_zone="America/New_York", out_zone="GMT+8:00", **split)
            add("TimestampBased", "k", "p", texts, type=kind, into=pattern, out="yyyyMMddHHZ",
                in_zone="", out_zone="", **split)
            add("TimestampBased", "k", "p", texts, type=kind, into=pattern, out="yyyyMMddHHZ",
                in_zone="", out_zone="Asia/Kolkata", **split)
    add("TimestampBased", "k", "l", numbers, type="MIXED", into="yyyyMMdd", out="yyyy")
    add("TimestampBased", "k", "p", texts, type="EPOCHMILLISECONDS", out="yyyy")
    both = [{**row, "p": "x/y", "q": None, "k2": 7} for row in numbers]
    for style in styles:
        add("Custom", "k", "p:simple,l:timestamp", both, type="EPOCHMILLISECONDS", out="yyyy/MM", **style)
        add("Custom", "k,k2", "l:TIMESTAMP,q:SIMPLE", both, type="EPOCHMILLISECONDS", out="yyyyMM", **style)
    return found


OPTIONS = {
    "hive": "hoodie.datasource.write.hive_style_partitioning",
    "encode": "hoodie.datasource.write.partitionpath.urlencode",
    "type": f"{TIME}timestamp.type",
    "unit": f"{TIME}timestamp.scalar.time.unit",
    "into": f"{TIME}input.dateformat",
    "delimiter": f"{TIME}input.dateformat.list.delimiter.regex",
    "in_zone": f"{TIME}input.timezone",
    "out": f"{TIME}output.dateformat",
    "out_zone": f"{TIME}output.timezone",
    "zone": f"{TIME}timezone",
}


class Asker:
    """Real generators on Avro records."""

    def __init__(self, jar: str) -> None:
        os.environ["TZ"] = "UTC"
        builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
        builder = builder.config("spark.driver.extraClassPath", jar)
        builder = builder.config("spark.driver.extraJavaOptions", "-Duser.timezone=UTC")
        self.jvm = builder.getOrCreate()._jvm
        fields = [{"name": n, "type": ["null", t], "default": None} for n, t in COLUMNS.items()]
        text = json.dumps({"type": "record", "name": "r", "fields": fields})
        self.schema = self.jvm.org.apache.avro.Schema.Parser().parse(text)
        self.records: dict[str, object] = {}

    def record(self, row: dict) -> object:
        """The Avro record of a row."""
        values = {}
        for name, kind in COLUMNS.items():
            value = row.get(name)
            branch = kind if isinstance(kind, str) else BRANCH[name]
            values[name] = None if value is None else {branch: value}
        text = json.dumps(values)
        if text not in self.records:
            decoder = self.jvm.org.apache.avro.io.DecoderFactory.get().jsonDecoder(self.schema, text)
            reader = self.jvm.org.apache.avro.generic.GenericDatumReader(self.schema)
            self.records[text] = reader.read(None, decoder)
        return self.records[text]

    def answer(self, case: dict) -> list:
        """[key, path] of each row; None where the generator raised, for all if it has no form."""
        properties = self.jvm.org.apache.hudi.common.config.TypedProperties()
        properties.setProperty("hoodie.datasource.write.recordkey.field", case["keys"])
        properties.setProperty("hoodie.datasource.write.partitionpath.field", case["partition"])
        for name, value in case["options"].items():
            properties.setProperty(name, value)
        name = f"{KEYGEN}.{case['class']}AvroKeyGenerator"
        try:
            generator = self.jvm
            for part in name.split("."):
                generator = getattr(generator, part)
            generator = generator(properties)
        except Exception:
            return [[None, None] for _ in case["rows"]]
        return [
            [_try(generator.getRecordKey, self.record(row)), _try(generator.getPartitionPath, self.record(row))]
            for row in case["rows"]
        ]


def _try(method, record):
    try:
        return method(record)
    except Exception:
        return None


def main() -> None:
    """Ask all cases."""
    asker = Asker(sys.argv[1])
    found = []
    for case in cases():
        case["options"] = {OPTIONS[name]: value for name, value in case["options"].items()}
        case["answers"] = asker.answer(case)
        found.append(case)
    # Rows are the same in many cases: each list of rows is written once.
    rows: list = []
    for case in found:
        if case["rows"] not in rows:
            rows.append(case["rows"])
        case["rows"] = rows.index(case["rows"])
    lines = [json.dumps(case, ensure_ascii=True, separators=(",", ":")) for case in found]
    head = json.dumps(rows, ensure_ascii=True, separators=(",", ":"))
    Path(sys.argv[2]).write_text(f'{{"rows":{head},"cases":[\n' + ",\n".join(lines) + "\n]}\n")


if __name__ == "__main__":
    main()
