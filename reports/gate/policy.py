"""What a gate demands of each metric: a policy file in TOML, laid over defaults.

Without a file every counter is required, with the tolerance of `harness/store/units.py`, and every
time is advisory, with five per cent. A file has a table `[[rule]]` for each exception. Globs say
which numbers a rule is about; of several rules about one number a later one overrides what it
names.
"""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from keymark.harness.store.results import PHASES
from keymark.harness.store.units import METRICS, Better
from keymark.reports.errors import PolicyError
from keymark.reports.gate.run_numbers import Key
from keymark.reports.render.text import clean

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

TIME_TOLERANCE = 0.05
"""Relative growth of a time that a gate finds, where a policy names no other."""

_SHUFFLED = ("shuffle_write_bytes", "shuffle_read_bytes")
UNSTEADY = ("jobs", "tasks", "input_bytes", *_SHUFFLED)
"""Counters that differ between two repetitions of real Hudi, and are advisory there."""

UNSTEADY_REQUESTS = ("get_requests", "head_requests")
REQUESTS_TOLERANCE = 0.25
"""Growth of these requests that is let pass where Hadoop's client of S3 counts them.

It counts a request when it ends, and one of a background thread may end in the next step. Beside
the server's own count, two of 40 steps differed: by 1 HEAD of 278, and by 19 GETs of 104 and 2
HEADs. Lists, puts and deletions were counted exactly.
"""

CHANCE = 0.06
"""Growth of index bytes that is let pass where files are named at random.

The names lie in every entry of a record index: of 18 loads of equal rows, three compressed worse
than the others, by up to 3.9 %. The harness names files from a seed; then none of this is let pass.
"""
_TOTAL_CHANCE = 0.009
"""The same for all bytes of a table, and for bytes that Spark shuffles.

Hudi shuffles the place of each record: two runs of one upsert of 300 rows differed by 0.22 %.
"""
_INDEX_BYTES = ("index_bytes", "bytes_per_key")

_GLOB = frozenset("*?[")


class Kind(StrEnum):
    """How a metric is compared."""

    COUNTER = "counter"
    TIME = "time"


class Level(StrEnum):
    """What a metric has to say in the verdict."""

    REQUIRED = "required"
    ADVISORY = "advisory"
    IGNORED = "ignored"


@dataclass(frozen=True, slots=True, kw_only=True)
class Demand:
    """What a gate demands of one number.

    Attributes:
        kind: compared as a counter, or statistically as times are.
        tolerance: relative growth that is let pass; for a time, growth that must be found.
        better: direction of improvement.
        level: whether it decides the verdict.
        repeats: of a counter, whether equal code gives equal counts; it may vary by chance if not.
    """

    kind: Kind
    tolerance: float
    better: Better
    level: Level
    repeats: bool = True


def _word(enum: type[StrEnum]) -> BeforeValidator:
    """A text as a member of an enumeration; the nearest one is named where there is none."""

    def read(value: object) -> object:
        names = [member.value for member in enum]
        if not isinstance(value, str) or value not in names:
            raise ValueError(f"{value!r} is none of {', '.join(names)}{_near(str(value), names)}")
        return enum(value)

    return BeforeValidator(read)


class PolicyRule(BaseModel):
    """One `[[rule]]`: globs that say which numbers, and what is demanded of them."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    cell: str = "*"
    step: str = "*"
    phase: str = "*"
    metric: str = "*"
    kind: Annotated[Kind | None, _word(Kind)] = None
    tolerance: Annotated[float, Field(ge=0.0, le=10.0)] | None = None
    direction: Annotated[Better | None, _word(Better)] = None
    level: Annotated[Level | None, _word(Level)] = None

    def about(self, key: Key) -> bool:
        """Tell whether the rule is about this number."""
        return (
            fnmatchcase(key.cell, self.cell)
            and fnmatchcase(key.step, self.step)
            and fnmatchcase(key.phase, self.phase)
            and fnmatchcase(key.metric, self.metric)
        )


class Policy(BaseModel):
    """A policy file; an empty one demands the defaults."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    rule: Annotated[
        tuple[PolicyRule, ...], BeforeValidator(lambda v: tuple(v) if isinstance(v, list) else v)
    ] = ()

    def demand(self, key: Key, *, native: bool = True, seeded: bool = True) -> Demand:
        """What is demanded of one number.

        Args:
            key: the number; its metric is one of `METRICS`.
            native: its engine is Keymark's own.
            seeded: files of both sides were named from a seed.
        """
        metric = METRICS[key.metric]
        repeats = metric.counter and (native or key.metric not in UNSTEADY)
        level = Level.REQUIRED if repeats else Level.ADVISORY
        kind = Kind.COUNTER if metric.counter else Kind.TIME
        better = metric.better
        tolerance: float | None = None
        for rule in self.rule:
            if rule.about(key):
                kind, level = rule.kind or kind, rule.level or level
                better = rule.direction or better
                tolerance = tolerance if rule.tolerance is None else rule.tolerance
        if tolerance is None:
            tolerance = (
                _counter_tolerance(key, native=native, seeded=seeded)
                if kind is Kind.COUNTER
                else TIME_TOLERANCE
            )
        return Demand(kind=kind, tolerance=tolerance, better=better, level=level, repeats=seeded)


def _counter_tolerance(key: Key, *, native: bool, seeded: bool) -> float:
    """A metric's own tolerance, unless its engine or random names of files make it vary more."""
    if not native and key.metric in UNSTEADY_REQUESTS:
        return REQUESTS_TOLERANCE
    if seeded:
        return METRICS[key.metric].tolerance
    if key.metric in _INDEX_BYTES or (key.metric, key.phase) == ("bytes_written", "index"):
        return CHANCE
    of_table = (key.metric, key.phase) in (("bytes_written", "total"), ("table_bytes", "total"))
    if of_table or key.metric in _SHUFFLED:
        return _TOTAL_CHANCE
    return METRICS[key.metric].tolerance


def load(path: Path) -> Policy:
    """Read a policy file.

    Raises:
        PolicyError: there is none, or it is no policy; every mistake is named.
    """
    name = clean(path)
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise PolicyError(name, [f"no policy file: {error.strerror}"]) from error
    except (UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError) as error:
        raise PolicyError(name, [f"not TOML: {clean(error)}"]) from error
    try:
        policy = Policy.model_validate(document)
    except ValidationError as error:
        raise PolicyError(name, [_explain(each) for each in error.errors()]) from error
    mistakes = [wrong for number, rule in _numbered(policy) for wrong in _wrong(number, rule)]
    if mistakes:
        raise PolicyError(name, mistakes)
    return policy


def check_used(policy: Policy, keys: Sequence[Key], source: str) -> None:
    """Refuse rules that are about nothing that was measured: they would demand nothing.

    Args:
        policy: the policy.
        keys: every number of the base.
        source: the policy's file.

    Raises:
        PolicyError: a rule is about none of the numbers; the error has the nearest names.
    """
    mistakes = []
    for number, rule in _numbered(policy):
        if not any(rule.about(key) for key in keys):
            mistakes.append(f"rule {number}: nothing measured is meant{_nearest_part(rule, keys)}")
    if mistakes:
        raise PolicyError(clean(source), mistakes)


def _numbered(policy: Policy) -> Iterable[tuple[int, PolicyRule]]:
    return enumerate(policy.rule, start=1)


def _wrong(number: int, rule: PolicyRule) -> list[str]:
    found = []
    for field, names in (("metric", list(METRICS)), ("phase", list(PHASES))):
        given = getattr(rule, field)
        if not _GLOB.intersection(given) and given not in names:
            found.append(f"rule {number}: {field}: unknown {clean(given)!r}{_near(given, names)}")
    counted = rule.kind is Kind.COUNTER
    timed = [
        name for name, m in METRICS.items() if not m.counter and fnmatchcase(name, rule.metric)
    ]
    if counted and timed:
        found.append(f"rule {number}: kind: {timed[0]} does not repeat exactly and is no counter")
    return found


def _nearest_part(rule: PolicyRule, keys: Sequence[Key]) -> str:
    """Name the first part of a rule that alone excludes everything, and what comes near it."""
    for field in ("cell", "step", "phase", "metric"):
        names = sorted({getattr(key, field) for key in keys})
        given = getattr(rule, field)
        if not any(fnmatchcase(name, given) for name in names):
            return f": no {field} {clean(given)!r}{_near(given, names)}"
    return ": no number has all of its parts"


def _near(given: str, names: Sequence[str]) -> str:
    close = difflib.get_close_matches(given, names, n=1, cutoff=0.5)
    shown = [clean(name, 60) for name in names]
    if close:
        return f" (did you mean {clean(close[0], 60)!r}?)"
    return f" (known are {', '.join(shown[:12])})" if shown else ""


def _explain(detail: ErrorDetails) -> str:
    """One sentence about a pydantic error."""
    place = list(detail["loc"])
    if len(place) > 1 and place[0] == "rule":
        number, *rest = place[1:]
        where = f"rule {int(number) + 1}: {'.'.join(str(part) for part in rest)}".rstrip(": ")
        known = list(PolicyRule.model_fields)
    else:
        where, known = clean(".".join(str(part) for part in place)), list(Policy.model_fields)
    if detail["type"] == "extra_forbidden":
        return f"{clean(where)}: unknown key{_near(str(place[-1]), known)}"
    message = str(detail["msg"]).removeprefix("Value error, ")
    return f"{clean(where)}: {clean(message[0].lower() + message[1:])}"
