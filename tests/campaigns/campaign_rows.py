"""Rows that nobody should send: repeated columns, deep nesting, huge numbers, broken texts.

Each case is a file of rows for an upsert. It ends in one typed error that names the file (and the
line, where it has lines), or all its rows are in the table as the file says; in little memory.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from bounded import bounded
from campaign import Outcome
from table_cases import create, data_rows, rows

from keymark import Table
from keymark.table.rows.files import read_data

Row = dict[str, object]

GOOD: Row = {"k": "b", "p": "x", "ts": 2, "v": "w"}
SEEDS = 12


def _line(row: Row) -> str:
    return json.dumps(row, ensure_ascii=False)


def _open(depth: int, opening: str, closing: str) -> str:
    return f'{_line(GOOD)[:-1]}, "d": {opening * depth}1{closing * depth}}}'


def _twice(name: str, *, escaped: bool = False) -> str:
    again = f"\\u{ord(name[0]):04x}{name[1:]}" if escaped else name
    return f'{_line(GOOD)[:-1]}, "{again}": "z"}}'


def _with(name: str, raw: str) -> str:
    return "{" + ", ".join(
        f'"{key}": {raw if key == name else json.dumps(value)}' for key, value in GOOD.items()
    ) + "}"  # fmt: skip


REFUSED_LINES: dict[str, Callable[[random.Random], str]] = {
    "column twice": lambda draw: _twice(draw.choice(sorted(GOOD))),
    "column twice, escaped": lambda draw: _twice(draw.choice(sorted(GOOD)), escaped=True),
    "nested column twice": lambda _: f'{_line(GOOD)[:-1]}, "s": {{"a": 1, "a": 2}}}}',
    "lists in lists": lambda draw: _open(draw.choice([65, 2_000, 10**5, 10**6]), "[", "]"),
    "objects in objects": lambda draw: _open(draw.choice([65, 2_000, 10**5]), '{"a":', "}"),
    "brackets without end": lambda draw: _line(GOOD) + "\n" + "[" * draw.choice([70, 10**5]),
    "closing brackets, then opening ones": lambda _: "]" * 10**4 + "\n" + "[" * 10**4,
    "number of many digits": lambda draw: _with("ts", "9" * draw.choice([400, 5_000, 10**5])),
    "number with a huge exponent": lambda draw: _with("ts", f"1e{draw.choice([309, 400, 10**9])}"),
    "number beyond 64 bits": lambda _: _with("ts", "9223372036854775808"),
    "fraction in an integer column": lambda _: _with("ts", "1.5"),
    "NaN in an integer column": lambda _: _with("ts", "NaN"),
    "text in an integer column": lambda _: _with("ts", '"2"'),
    "lone surrogate": lambda draw: _with(draw.choice(["k", "p", "v"]), '"a\\ud800"'),
    "lone surrogate in a name": lambda _: f'{_line(GOOD)[:-1]}, "\\udfff": 1}}',
    "no object": lambda draw: draw.choice(["1", "null", '"x"', "[]", "true"]),
    "cut off": lambda draw: _line(GOOD)[: draw.randrange(1, len(_line(GOOD)) - 1)],
    "text without end": lambda _: '{"k": "b',
    "line of many megabytes": lambda draw: _with("v", '"' + "x" * draw.choice([5, 100]) * 2**20),
    "100,000 columns": lambda _: "{" + ",".join(f'"c{n}":1' for n in range(100_000)) + "}",
    "a column in each line": lambda _: "\n".join(f'{{"c{n}":1}}' for n in range(20_000)),
    "few columns, each in few lines": lambda _: "\n".join(
        f'{{"c{n % 4_000}":1}}' for n in range(160_000)
    ),
    "missing key": lambda _: '{"p": "x", "ts": 1, "v": "w"}',
    "null key": lambda _: _with("k", "null"),
    "empty key": lambda _: _with("k", '""'),
    "partition that leads out": lambda draw: _with(
        "p", json.dumps(draw.choice(["../x", "/x", "a/../..", "a\x00b", "x" * 10**5]))
    ),
    "another case of a column": lambda _: f'{_line(GOOD)[:-1]}, "K": "z"}}',
}
RIGHT_LINES: dict[str, Callable[[random.Random], Row]] = {
    "control characters in a key": lambda draw: {**GOOD, "k": f"b{chr(draw.randrange(1, 32))}c"},
    "NUL in a text": lambda _: {**GOOD, "v": "a\x00b"},
    "bidi and ANSI": lambda _: {**GOOD, "k": "\u202eb", "v": "\x1b[31m"},
    "brackets in a text": lambda _: {**GOOD, "v": '"[[[[{{{{\\"' * 100},
    "formula": lambda draw: {**GOOD, "k": draw.choice(["=1+1", "@x", "+1", "-1"])},
    "words for null": lambda draw: {**GOOD, "v": draw.choice(["NA", "null", "NaN", "N/A", ""])},
    "greatest number": lambda draw: {**GOOD, "ts": draw.choice([2**63 - 1, 0])},
    "longest text": lambda _: {**GOOD, "v": "x" * (1 << 20)},
    "astral letters": lambda _: {**GOOD, "k": "\U0001f600", "v": "\U0010ffff"},
}


def _repeated_parquet(path: Path, draw: random.Random) -> None:
    name = draw.choice(sorted(GOOD))
    columns = [pa.array([value]) for value in [*GOOD.values(), GOOD[name]]]
    pq.write_table(pa.Table.from_arrays(columns, [*GOOD, name]), path)


def _repeated_csv(path: Path, draw: random.Random) -> None:
    name = draw.choice(sorted(GOOD))
    path.write_text(f"{','.join([*GOOD, name])}\nb,x,2,w,z\n")


FILES: dict[str, tuple[str, Callable[[Path, random.Random], None]]] = {
    "column twice in Parquet": (".parquet", _repeated_parquet),
    "column twice in CSV": (".csv", _repeated_csv),
    "CSV name that is no UTF-8": (".csv", lambda p, _: _raw(p, b"k,p,ts,v\xff\nb,x,2,w\n")),
    "CSV value that is no UTF-8": (".csv", lambda p, _: _raw(p, b"k,p,ts,v\nb\xff,x,2,w\n")),
    "CSV row of another length": (".csv", lambda p, _: _raw(p, b"k,p,ts,v\nb,x,2,w,z\n")),
    "CSV line of 100 MB": (".csv", lambda p, _: _raw(p, b"k,p,ts,v\nb,x,2," + b"x" * (100 << 20))),
    "CSV of 100,000 columns": (
        ".csv",
        lambda p, _: _raw(p, b",".join(b"c%d" % n for n in range(10**5)) + b"\n"),
    ),
    "empty CSV": (".csv", lambda p, _: _raw(p, b"")),
    "Parquet that is none": (".parquet", lambda p, draw: _raw(p, b"PAR1" + draw.randbytes(500))),
    "JSON that is none": (".jsonl", lambda p, draw: _raw(p, draw.randbytes(500))),
}


def _raw(path: Path, content: bytes) -> None:
    path.write_bytes(content)


@dataclass(frozen=True)
class Rows:
    """The campaign."""

    seed: int = 31
    seconds: float = 120.0
    share: int = 12

    def cases(self) -> Sequence[str]:
        """Every kind of row or file, at drawn places among good rows."""
        kinds = [*REFUSED_LINES, *RIGHT_LINES, *FILES]
        return [f"{kind} #{number}" for number in range(SEEDS) for kind in kinds]

    def run(self, case: str, folder: Path) -> Outcome:
        """Upsert the file of a case."""
        kind = case.rpartition(" #")[0]
        draw = random.Random(f"{self.seed} {case}")
        table = create(folder / "t")
        table.upsert(rows(["a"]))
        before = draw.choice([0, 0, 3, 2_000])
        good = [_line({**GOOD, "k": f"g{number}"}) for number in range(before)]
        if kind in FILES:
            suffix, write = FILES[kind]
            path = folder / f"rows{suffix}"
            write(path, draw)
        else:
            path = folder / "rows.jsonl"
            bad = REFUSED_LINES[kind](draw) if kind in REFUSED_LINES else _line(
                RIGHT_LINES[kind](random.Random(case))
            )  # fmt: skip
            path.write_bytes("\n".join([*good, bad, ""]).encode())
        answer = bounded(lambda: _upsert(table, path), folder)
        outcome = Outcome(Counter({"files of rows": 1, f"answers: {answer.kind}": 1}))
        promise = answer.broken()
        if promise is None:
            expected = "right" if kind in RIGHT_LINES else "refused"
            promise = None if answer.kind == expected else f"{answer.kind}: {answer.text}"
        if promise is None:
            held = set(data_rows(Table.open(str(folder / "t"))))
            wanted = {"a"}
            if kind in RIGHT_LINES:
                wanted |= {f"g{number}" for number in range(before)}
                wanted.add(str(RIGHT_LINES[kind](random.Random(case))["k"]))
            promise = None if held == wanted else f"the table holds {sorted(held)[:5]}"
        if promise is not None:
            outcome.failures.append(f"{case}: {promise}")
        return outcome


def _upsert(table: Table, path: Path) -> object:
    return table.upsert(read_data([path], table))


CAMPAIGN = Rows()
