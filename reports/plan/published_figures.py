"""The published figures of Hudi's record index beside what a calibration predicts for them.

Nothing was tuned to them: predictions are written down once, and the page is made of what
was written. The figures are of Hudi 0.14.0 on ten m5.4xlarge; docs/results/seeds.md has their
sources. What they do not say is taken as it is here, and the page says so.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

from pydantic import TypeAdapter, ValidationError

from keymark.harness.store.results import wrong_keys
from keymark.harness.store.units import Unit
from keymark.indexes.installed import specs
from keymark.indexes.workload import Workload, files_for
from keymark.reports.errors import ReportError
from keymark.reports.plan.calibration import Calibration
from keymark.reports.plan.formulas import POINT_QUERY
from keymark.reports.plan.predict import PARTS, Estimate, farthest, quantity, total
from keymark.reports.plan.render import worded
from keymark.reports.plan.untold import left_open, telling
from keymark.reports.render.format_values import amount
from keymark.reports.render.text import clean

WIDEST = 4.0
"""A range that is more times as wide tells nothing."""
TABLE = Workload(
    rows=2e9,
    batch=400_000,
    cores=160,
    partitions=1_000,
    files=files_for(2e9, 500.0, 1_000),
    shards=1_000,
    new_share=0.5,
    row_bytes=500.0,
)
"""1 TB, and batches of 200 MB. Partition paths and the share of new keys are not published."""
QUERIED = Workload(
    rows=8e8,
    batch=1,
    cores=160,
    partitions=1_000,
    files=20_000,
    shards=1_000,
    row_bytes=500.0,
)
"""400 GB in 20,000 file groups. Rows and cluster are not published: those of the other table."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """What was published.

    Attributes:
        key: its name in files.
        words: what it is.
        published: its value, in base units; of a share, of what is left.
        unit: its base unit; empty of a share.
        quantities: that add up to it.
        with_index: whether with the record index. For a share: by what it is of without it.
        at: the workload.
    """

    key: str
    words: str
    published: float
    unit: str
    quantities: tuple[str, ...]
    with_index: bool
    at: Workload


_SECONDS, _BYTES = Unit.SECONDS.value, Unit.BYTES.value
FIGURES = (
    Figure(key="write", words="a write takes 72 % less: 0.28 of that with global simple",
           published=0.28, unit="", quantities=PARTS, with_index=True, at=TABLE),
    Figure(key="lookup", words="a lookup of 400,000 keys takes 72 % less: 0.28",
           published=0.28, unit="", quantities=("lookup",), with_index=True, at=TABLE),
    Figure(key="shuffle_without", words="shuffle of a lookup with global simple",
           published=85e9, unit=_BYTES, quantities=("shuffle",), with_index=False, at=TABLE),
    Figure(key="shuffle_with", words="shuffle of a lookup with the record index",
           published=700e6, unit=_BYTES, quantities=("shuffle",), with_index=True, at=TABLE),
    Figure(key="query_without", words="a query by key without the record index",
           published=977.0, unit=_SECONDS, quantities=(POINT_QUERY,), with_index=False, at=QUERIED),
    Figure(key="query_with", words="a query by key with the record index",
           published=12.0, unit=_SECONDS, quantities=(POINT_QUERY,), with_index=True, at=QUERIED),
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Foretold:
    """What is predicted of a figure.

    Attributes:
        key: the figure's.
        estimate: value and range; None where the calibration has no constants for it.
        beyond: how many times the workload is beyond the calibration.
        open: what the calibration cannot tell about it, and the run that would; empty: nothing.
    """

    key: str
    estimate: Estimate | None
    beyond: float
    open: str

    def verdict(self, published: float) -> str:
        """`inside`, `outside`, or `cannot tell`."""
        found = self.estimate
        if found is None or found.low <= 0 or found.high > WIDEST * found.low:
            return "cannot tell"
        return "inside" if found.low <= published <= found.high else "outside"


@dataclass(frozen=True, slots=True, kw_only=True)
class Foresight:
    """The file of predictions.

    Attributes:
        schema_version: of the file.
        engine: that they are about.
        runs: that its calibration was fitted to.
        where: the machine of these, in words.
        figures: by figure, in their order.
    """

    schema_version: Literal[1] = 1
    engine: str
    runs: tuple[str, ...]
    where: str
    figures: tuple[Foretold, ...]

    def to_json(self) -> str:
        """The file."""
        return json.dumps(asdict(self), indent=1, allow_nan=False) + "\n"


def foresee(calibration: Calibration) -> Foresight:
    """Predict all figures."""
    return Foresight(
        engine=calibration.engine,
        runs=calibration.runs,
        where=calibration.where,
        figures=tuple(_foretold(calibration, figure) for figure in FIGURES),
    )


def _foretold(calibration: Calibration, figure: Figure) -> Foretold:
    sides = _sides(figure)
    found = [
        total([quantity(calibration, name, index, figure.at) for name in figure.quantities])
        for index in sides
    ]
    opened = [left_open(calibration, figure.quantities, index, figure.at) for index in sides]
    estimate = None
    if all(each.value > 0 for each in found):
        widened = [
            Estimate(each.value, each.low, each.high + sum(left.values()))
            for each, left in zip(found, opened, strict=True)
        ]
        estimate = widened[0] if figure.unit else _share(*widened)
    left = max(opened, key=lambda each: sum(each.values()))
    most = max(left, key=lambda name: left[name], default="")
    return Foretold(
        key=figure.key,
        estimate=estimate,
        beyond=farthest(calibration, figure.at),
        open=telling(calibration, most, figure.at) if most else "",
    )


def _sides(figure: Figure) -> list[str]:
    """The index that a figure is about; of a share the record index and global simple.

    Of the indexes whose shuffle was published the record index has the least, global simple the
    most.
    """
    shuffles = {s.name: s.published_shuffle for s in specs().values() if s.published_shuffle}
    indexed = min(shuffles, key=shuffles.__getitem__)
    plain = max(shuffles, key=shuffles.__getitem__)
    if not figure.unit:
        return [indexed, plain]
    return [indexed if figure.with_index else plain]


def _share(one: Estimate, other: Estimate) -> Estimate:
    """One by the other: their ends are off independently of each other, by ratio."""
    value = one.value / other.value
    up = math.hypot(_log(one.high, one.value), _log(other.value, other.low))
    down = math.hypot(_log(one.value, one.low), _log(other.high, other.value))
    return Estimate(value, value * math.exp(-down), value * math.exp(up))


def _log(more: float, less: float) -> float:
    """The logarithm of a ratio of at least 1; of an end at zero as if that were a millionth."""
    return math.log(max(more / max(less, more * 1e-6), 1.0))


def load(path: Path) -> Foresight:
    """Read predictions that were written down.

    Raises:
        ReportError: the file cannot be read, or is damaged.
    """
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        found = TypeAdapter(Foresight).validate_python(document)
    except ValidationError as error:
        raise ReportError(f"{path} has no predictions: {clean(wrong_keys(error))}") from error
    except (OSError, ValueError, RecursionError) as error:
        raise ReportError(f"the predictions {path} cannot be read: {error}") from error
    if [each.key for each in found.figures] != [figure.key for figure in FIGURES]:
        raise ReportError(f"{path} has other figures than {', '.join(f.key for f in FIGURES)}")
    return found


_PAGE = """\
# The published figures, predicted

Of {count} figures that Hudi's authors published of the record index, {counts[inside]} lie inside
the predicted range, {counts[outside]} outside, and {counts[cannot tell]} cannot be told: their
range ends at more than {widest:g} times its start, or the calibration has no constants for them.

The predictions are for {engine}, by a calibration on {where}. Nothing was tuned to the figures: the
predictions were written to `{file}` before anybody looked for explanations, and later
changes of the formulas do not change them.

```
{command}
```

| published | value | predicted | beyond the calibration | | why |
|---|---:|---:|---:|---|---|
{rows}

## What is taken as given
- The published runs: Hudi 0.14.0 on ten `m5.4xlarge` ({table.cores} cores), {table.rows:,.0f} rows
  of {table.row_bytes:,.0f} bytes, batches of 200 MB ({table.batch:,.0f} rows), {table.shards:,}
  file groups of the record index. For the query {queried.files:,.0f} file groups of 400 GB.
- Not published, and assumed: {table.partitions:,} partition paths, {table.new_share:.0%} new rows
  in a batch all over the table, keys of {table.key_bytes:.0f} bytes without order. For the query
  rows of the same size ({queried.rows:,.0f} of them) and the same cluster.
- The calibration's machine has other cores and disks, and no network. Ratios of two indexes and
  bytes carry over, seconds only in their order of magnitude.
"""


def page(made: Foresight, why: Mapping[str, str], *, file: str, command: str) -> str:
    """The page, in Markdown: its finding, the table, what was taken as given.

    Args:
        made: the predictions.
        why: sentences on figures, by their keys, written after the predictions.
        file: of the predictions, as the page names it.
        command: that makes both.
    """
    verdicts = [
        each.verdict(figure.published) for each, figure in zip(made.figures, FIGURES, strict=True)
    ]
    counts = {word: verdicts.count(word) for word in ("inside", "outside", "cannot tell")}
    rows = [
        _row(figure, each, why.get(figure.key, ""))
        for figure, each in zip(FIGURES, made.figures, strict=True)
    ]
    return _PAGE.format(
        count=len(FIGURES),
        counts=counts,
        widest=WIDEST,
        engine=clean(made.engine),
        where=clean(made.where),
        file=file,
        command=command,
        rows="\n".join(rows),
        table=TABLE,
        queried=QUERIED,
    )


def _row(figure: Figure, each: Foretold, why: str) -> str:
    found, verdict = each.estimate, each.verdict(figure.published)
    words = "no constants for it"
    if found is not None:
        plain = f"{found.value:.2f} ({found.low:.2f} to {found.high:.2f})"
        words = worded(found, figure.unit) if figure.unit else plain
    published = amount(figure.published, figure.unit) if figure.unit else f"{figure.published:.2f}"
    reasons: Sequence[str] = [why] if why else []
    if verdict == "cannot tell" and not why and each.open:
        reasons = [f"a constant is not told; `{each.open}` would tell it"]
    beyond = f"{each.beyond:,.0f} times"
    return f"| {figure.words} | {published} | {words} | {beyond} | {verdict} | {''.join(reasons)} |"
