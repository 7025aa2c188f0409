"""A specification whose generated keys look like those of a profiled table, and its TOML text.

Shapes, lengths, partition sizes and bytes are taken over, values are not: days stand for partition
values, a filler of the same length for a prefix, and one payload for all other columns. What a
generated dataset cannot have is said in the notes.
"""

from __future__ import annotations

import itertools
import json
import re
import string
from dataclasses import dataclass, field
from typing import Any, get_args

from keymark.datasets.columns.keys import Hashed
from keymark.datasets.columns.kinds import Partition
from keymark.datasets.errors import DatasetError
from keymark.datasets.profiles.profile import KeyColumn, Partitions, Profile
from keymark.datasets.profiles.shapes import fitted
from keymark.datasets.specs.spec import DatasetSpec

_ALL = 0.99  # a few keys of another kind make no other shape
_GROWS = 0.9
_DENSE = 2  # numbers with more gaps than values are no sequence
_FAR = 0.2
_SHORT = 5  # between the lengths of a country's code and of a hash
_DAYS_MAX = 20_000
_TEXTS_MAX = 1_000
_PAYLOAD_MAX, _PREFIX_MAX, _WIDTH_MAX, _LENGTH_MAX = 1_000_000, 1_000, 100, 32_000
_PER_MS_MAX, _START_MAX = 10**6, 10**15
_GROWING = ("uuid7", "sequence", "numbered")
_FILLER = "k"
_LETTERS = {
    "a-z": string.ascii_lowercase,
    "A-Z": string.ascii_uppercase,
    "0-9": string.digits,
    "hex": string.digits + "abcdef",
    "other ASCII": "-_.:/+=@#~%,;!?&*|()[]{}<>^$ ",
    "2 bytes": "".join(map(chr, range(0xE0, 0x180))),
    "3 bytes": "".join(map(chr, range(0x4E00, 0x4F00))),
    "4 bytes": "".join(map(chr, range(0x1F600, 0x1F650))),
}
_ALPHABET = 200
_HEX_DIGITS = get_args(Hashed.model_fields["digits"].annotation)


@dataclass(frozen=True, slots=True)
class LookAlike:
    """A dataset like a table.

    Attributes:
        settings: the specification, as `keymark.datasets.specs.spec` reads it.
        notes: how it differs from the table.
    """

    settings: dict[str, Any]
    notes: tuple[str, ...]

    @property
    def toml(self) -> str:
        """The specification as a TOML file."""
        lines = ["# Made by `keymark data profile` from shapes and sizes, not from values."]
        lines += [f"# {' '.join(note.split())}" for note in self.notes]
        tables = {key: value for key, value in self.settings.items() if isinstance(value, dict)}
        lines += [
            f"{key} = {_toml(value)}" for key, value in self.settings.items() if key not in tables
        ]
        for name, table in tables.items():
            lines += ["", f"[{name}]", *(f"{key} = {_toml(inner)}" for key, inner in table.items())]
        return "\n".join([*lines, ""])

    @property
    def spec(self) -> DatasetSpec:
        """The specification, checked."""
        return DatasetSpec.model_validate(self.settings)


@dataclass(slots=True)
class _Draft:
    """Columns and notes as they come together."""

    keep_prefix: bool
    rows: int
    columns: dict[str, dict[str, Any]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    taken: set[str] = field(default_factory=set)

    def name(self, wanted: str) -> str:
        """A name that a specification allows and that no other column has."""
        plain = re.sub(r"[^A-Za-z0-9_]", "_", wanted)
        plain = plain if plain[:1].isalpha() else f"c{plain}"
        names = (plain if number == 1 else f"{plain}_{number}" for number in itertools.count(1))
        name = next(name for name in names if name.lower() not in self.taken)
        self.taken.add(name.lower())
        if name != wanted:
            self.notes.append(f"column {wanted!r} is called {name!r}")
        return name


def look_alike(found: Profile, *, keep_prefix: bool) -> LookAlike:
    """Make the specification that comes nearest to a profile.

    Args:
        found: the profile.
        keep_prefix: whether what stands before the numbers of all keys is taken over as it is.

    Raises:
        DatasetError: the key has no column that could make keys unique.
    """
    request = found.request
    draft = _Draft(keep_prefix=keep_prefix, rows=found.counts.distinct)
    own = [column for column in found.columns if column.name not in request.partition_path]
    if not own:
        raise DatasetError(f"{request.name}: all key columns are partition columns")
    carrier = max(own, key=lambda column: column.distinct)
    names = {column.name: draft.name(column.name) for column in own}
    for column in own:
        make = _unique if column is carrier or column.is_unique else _repeated
        draft.columns[names[column.name]] = make(column, draft)
    settings: dict[str, Any] = {"name": _identifier(request.name), "rows": draft.rows}
    names |= _partitioned(found, draft, settings)
    key = dict.fromkeys(names[name] for name in request.record_key)
    settings |= {"record_key": list(key)}
    if request.ordering:
        settings["ordering"] = draft.name(request.ordering)
        draft.columns[settings["ordering"]] = {"kind": "ordering"}
    if round(found.other_bytes):
        settings["payload_bytes"] = min(round(found.other_bytes), _PAYLOAD_MAX)
        draft.columns[draft.name("payload")] = {"kind": "payload"}
    _note_differences(found, draft, carrier)
    settings["columns"] = draft.columns
    return LookAlike(settings, tuple(draft.notes))


def _unique(column: KeyColumn, draft: _Draft) -> dict[str, Any]:
    """The kind of key whose shape a column has."""
    if column.is_integer:
        return _sequence(column, draft)
    if column.uuids >= _ALL:
        return _uuid(column, draft)
    if column.alike >= _ALL or column.sample.one_hash:
        return {"kind": "one_shard"}
    if column.prefix is not None and column.digits[0]:
        return _numbered(column, draft)
    size = column.lengths.min
    if column.hexes >= _ALL and column.lengths.max == size and size in _HEX_DIGITS:
        if "A-Z" in column.sample.characters:
            draft.notes.append(f"{column.name}: hex digits are in lower case")
        return {"kind": "hashed", "digits": size}
    return _letters(column, draft)


def _sequence(column: KeyColumn, draft: _Draft) -> dict[str, Any]:
    low, _ = column.numbers or (0, 0)
    _note_gaps(column, draft)
    digits = len(str(low)) if low > 0 else 1
    start = 10 ** (digits - 1)
    if start > _START_MAX:
        draft.notes.append(f"{column.name}: numbers of {digits} digits get fewer")
    return {"kind": "sequence"} | ({"start": min(start, _START_MAX)} if digits > 1 else {})


def _uuid(column: KeyColumn, draft: _Draft) -> dict[str, Any]:
    if column.versions[7] >= _ALL and column.uuids < 1:  # then bounds may be anything
        return {"kind": "uuid7"}
    if column.versions[7] >= _ALL:
        first, last = (int(text[:8] + text[9:13], 16) for text in (column.low, column.high))
        rate = round(draft.rows / (last - first + 1))
        return {"kind": "uuid7", "per_ms": min(max(rate, 1), _PER_MS_MAX)}
    if column.versions[4] < _ALL:
        draft.notes.append(f"{column.name}: UUIDs of other versions become version 4")
    return {"kind": "uuid"}


def _numbered(column: KeyColumn, draft: _Draft) -> dict[str, Any]:
    """Digits as wide as the table's: numbers start at 0 here."""
    prefix = column.prefix or ""
    if not draft.keep_prefix or "\n" in prefix:
        prefix = _FILLER * len(prefix)
    shortest, longest = column.digits
    low, _ = column.numbers or (draft.rows, 0)  # beyond what is counted
    _note_gaps(column, draft)
    width = 0
    if column.padded or shortest == longest:
        width = shortest
    elif low >= draft.rows:
        width = round(column.lengths.mean) - len(prefix)
    return {"kind": "numbered", "prefix": prefix[:_PREFIX_MAX], "width": min(width, _WIDTH_MAX)}


def _letters(column: KeyColumn, draft: _Draft) -> dict[str, Any]:
    """Letters of the same classes in the same shares, and then the row number."""
    if not column.type.startswith("string"):
        draft.notes.append(f"{column.name}: texts stand for values of type {column.type}")
    mean, number = column.lengths.mean, _mean_digits(draft.rows)
    classes = column.sample.characters
    alphabet = ""
    for name, (share, distinct) in classes.items():
        drawn = share - number / mean if name == "0-9" else share
        count = distinct if len(classes) == 1 else max(round(drawn * _ALPHABET), 0)
        letters = itertools.cycle(_LETTERS[name][:distinct])
        alphabet += "".join(itertools.islice(letters, count))
    length = min(max(round(mean - number), 1), _LENGTH_MAX)
    alphabet = alphabet if len(alphabet) > 1 else string.digits
    return {"kind": "letters", "length": length, "alphabet": alphabet}


def _repeated(column: KeyColumn, draft: _Draft) -> dict[str, Any]:
    """As many different values as the column has, of the same length."""
    if column.is_integer:
        low = 10 ** (len(str(abs(column.numbers[0]))) - 1) if column.numbers else 0
        return {"kind": "long", "low": low, "high": low + column.distinct - 1, "fixed": True}
    count = min(column.distinct, _TEXTS_MAX)
    if count < column.distinct:
        draft.notes.append(f"{column.name}: {count:,} values stand for {column.distinct:,}")
    width = round(column.lengths.mean)
    return {
        "kind": "choice",
        "values": [f"{number:0{width}d}" for number in range(count)],
        "fixed": True,
    }


def _partitioned(found: Profile, draft: _Draft, settings: dict[str, object]) -> dict[str, str]:
    """Add the partition column; returns its name for each of the table's partition columns."""
    partitions, wanted = found.partitions, found.request.partition_path
    if partitions is None:
        return {}
    name = draft.name(wanted[0])
    if len(wanted) > 1:
        draft.notes.append(f"{name!r} stands for the partition columns {', '.join(wanted)}")
    days = min(len(partitions.sizes), _DAYS_MAX)
    if days < len(partitions.sizes):
        draft.notes.append(f"{days:,} partitions stand for {len(partitions.sizes):,}")
    sizes, distance = fitted(partitions.sizes[:days])
    if distance > _FAR:
        draft.notes.append(
            f"partition sizes are like {sizes!r} at best: {distance:.0%} of the rows lie elsewhere"
        )
    settings |= {"partition_path": [name], "date_partitions": days}
    if partitions.date_format:
        settings["date_format"] = partitions.date_format
    draft.columns[name] = {"kind": "partition", "of": _paths(partitions), "sizes": sizes}
    return dict.fromkeys(wanted, name)


def _paths(partitions: Partitions) -> str:
    """The kind of partition path that is nearest: days, or texts that are short or not."""
    if partitions.date_format:
        return "days"
    most = Partition(kind="partition", of="countries").most or 0
    is_short = partitions.text_length < _SHORT and len(partitions.sizes) <= most
    return "countries" if is_short else "hashes"


def _note_gaps(column: KeyColumn, draft: _Draft) -> None:
    if column.numbers is None:
        return
    low, high = column.numbers
    if high - low + 1 > _DENSE * column.distinct:
        draft.notes.append(f"{column.name}: numbers have gaps, which are closed")


def _note_differences(found: Profile, draft: _Draft, carrier: KeyColumn) -> None:
    counts = found.counts
    if counts.repeated:
        draft.notes.append(f"{counts.repeated:,} keys come more than once; here each comes once")
    if counts.nulls:
        draft.notes.append(f"{counts.nulls:,} rows without a key are left out")
    if len(found.columns) > 1 and not carrier.is_unique:
        draft.notes.append(f"no key column is unique by itself; here {carrier.name!r} is")
    grows = any(kind["kind"] in _GROWING for kind in draft.columns.values())
    how = "with the row number only" if grows else "not at all"
    for what, value in (("ordering column", found.by_ordering), ("partition", found.by_partition)):
        if value is not None and value > _GROWS:
            draft.notes.append(f"keys grow with the {what}, here {how}")


def _mean_digits(rows: int) -> float:
    """Mean number of decimal digits of 0..rows-1."""
    bounds = [0, *(10**power for power in range(1, len(str(rows - 1)))), rows]
    spans = itertools.pairwise(bounds)
    digits = sum(place * (end - start) for place, (start, end) in enumerate(spans, 1))
    return float(digits / rows)


def _identifier(name: str) -> str:
    plain = re.sub(r"[^A-Za-z0-9_]", "_", name) or "table"
    return plain if not plain[0].isdigit() else f"_{plain}"


def _toml(value: object) -> str:
    """A value in TOML; texts are JSON's, whose escapes TOML has as well."""
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{key} = {_toml(inner)}" for key, inner in value.items()) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(map(_toml, value)) + "]"
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
