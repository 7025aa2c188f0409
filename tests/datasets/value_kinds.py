"""Columns of every kind of value, for the tests of single columns and of whole streams."""

from __future__ import annotations

import datetime as dt

LONG = {"kind": "long", "low": -5, "high": 2**40}
STREET = {"kind": "choice", "pool": "street", "size": 9, "null_share": 0.3}
POINT = {"kind": "struct", "fields": {"x": {"kind": "float", "low": -90, "high": 90}, "y": LONG}}
KINDS = {
    "bool": {"kind": "bool", "null_share": 0.5},
    "int": {"kind": "int", "low": -(2**31), "high": 2**31 - 1},
    "long": {"kind": "long", "low": -(2**61), "high": 2**60, "fixed": True},
    "float": {"kind": "float", "low": -1, "high": 16_000_000},
    "double": {"kind": "double", "low": -(2**40), "high": 2**40, "null_share": 0.01},
    "cents": {"kind": "decimal", "low": -(10**9), "high": 10**9},
    "whole": {"kind": "decimal", "low": -9, "high": 9, "precision": 1, "scale": 0},
    "fine": {"kind": "decimal", "low": -2, "high": 2, "precision": 38, "scale": 18},
    "date": {"kind": "date", "low": dt.date(1582, 10, 1), "high": dt.date(2100, 1, 1)},
    "at": {"kind": "timestamp", "low": dt.date(1910, 1, 1), "high": dt.date(2100, 1, 1)},
    "clock": {
        "kind": "timestamp",
        "low": dt.date(1910, 1, 1),
        "high": dt.date(2100, 1, 1),
        "local": True,
        "null_share": 0.1,
    },
    "choice": {"kind": "choice", "values": ["it's", "a\\n", ""], "null_share": 0.2, "fixed": True},
    "name": {"kind": "template", "text": "{first_name} {last_name}", "size": 50},
    "order": {"kind": "template", "text": "Order {number} for {city}, 'é🙂'", "null_share": 0.1},
    "empty": {"kind": "template", "text": ""},
    "constant": {"kind": "template", "text": "{{x}}"},
    "bytes": {"kind": "binary", "size": 21},
    "digits": {"kind": "payload", "null_share": 0.1},
    "struct": {"kind": "struct", "fields": {"a": STREET, "point": POINT}, "null_share": 0.2},
    "list": {"kind": "list", "items": STREET, "high": 3, "null_share": 0.1},
    "pair": {"kind": "list", "items": LONG, "low": 2, "high": 2},
    "points": {"kind": "list", "items": {**POINT, "null_share": 0.2}, "high": 2},
    "lists": {"kind": "list", "items": {"kind": "list", "items": {"kind": "bool"}, "high": 2}},
    "map": {"kind": "map", "keys": ["k", "k'2", "ü"], "values": STREET, "high": 3},
    "maps": {
        "kind": "map",
        "keys": [f"k{index}" for index in range(9)],
        "values": {"kind": "list", "items": POINT, "high": 2},
        "low": 1,
        "null_share": 0.2,
    },
}
