"""What the pages of the site are made of: questions, and what each run has to say to them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import quote

from keymark.reports.render.grids import Grid
from keymark.reports.site.comparisons import Comparison

MOST_BYTES = 1_000_000
"""The largest size of a page."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What a page of the site answers.

    Attributes:
        key: names its page.
        name: of the page among others.
        title: the question.
        about: what is measured, in a sentence.
        charts: keys of the charts of a report that belong to it; sections of a report have
            questions of their own.
    """

    key: str
    name: str
    title: str
    about: str
    charts: tuple[str, ...] = ()


QUESTIONS = (
    Question(
        key="write",
        name="Writes",
        title="How long does a write take?",
        about="The whole time of an upsert or a delete, from the call until it is visible.",
        charts=("write_latency", "spread", "null_columns", "delete", "purge", "phases"),
    ),
    Question(
        key="lookup",
        name="Lookups",
        title="How fast is a lookup of keys?",
        about="The time in which the file of each of many keys is found.",
        charts=("lookup", "lookup_again", "lookup_few"),
    ),
    Question(
        key="shuffle",
        name="Shuffle",
        title="How much does an upsert shuffle?",
        about="Bytes that Spark sends between its tasks to find where rows belong.",
        charts=("shuffle",),
    ),
    Question(
        key="query",
        name="Queries",
        title="How fast is a query?",
        about="The time in which one record, or the rows of one value, are read.",
        charts=(
            *("point_query", "point_query_spark", "column_query", "range_query"),
            *("point_query_cold", "range_query_cold"),
        ),
    ),
    Question(
        key="storage",
        name="Index size",
        title="How large is the index?",
        about="Bytes of the index on storage; base files are not part of it.",
        charts=("storage",),
    ),
    Question(
        key="building",
        name="Building",
        title="How long does it take to build an index?",
        about="Building the index of a table that has rows already.",
        charts=("build_index",),
    ),
    Question(
        key="growth",
        name="Growth",
        title="What becomes of it as the table grows?",
        about="The same work on tables and with batches of several sizes.",
    ),
    Question(
        key="hudi",
        name="Beside Hudi",
        title="How does Keymark compare with Apache Hudi?",
        about="The same index on the same data in both, as ratios within each repetition.",
    ),
    Question(
        key="formats",
        name="Formats",
        title="Which table format answers which question best?",
        about="Hudi, Delta and Iceberg on the same rows, batches and reads.",
    ),
    Question(
        key="releases",
        name="Releases",
        title="What changed between releases of Apache Hudi?",
        about="The same index on the same data in several releases, as multiples of the first one.",
    ),
    Question(
        key="model",
        name="Lookup model",
        title="Does a lookup take K + (M/N)·c?",
        about="The model of Hudi's RFC-8: M keys in N shards, all of which are read at a time.",
    ),
    Question(
        key="published",
        name="Published figures",
        title="What did the index's authors publish, and what do we find?",
        about="Figures of Hudi's record index beside those of each run; multiples of another "
        "index are medians of the ratios within each repetition.",
    ),
    Question(
        key="planner",
        name="Planner's score",
        title="How far are the planner's predictions off?",
        about="Keymark's own calibration, asked about the cells of each run and compared.",
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """What one run has to say to a question.

    Attributes:
        title: of the chart or table.
        sentence: what it shows.
        grid: the numbers.
        inline: the picture as it stands in a page; empty for a table.
        file: the chart's file within the site, without its ending; empty for a table.
    """

    title: str
    sentence: str
    grid: Grid
    inline: str = ""
    file: str = ""

    @property
    def href(self) -> str:
        """The file as links name it."""
        return quote(self.file)


@dataclass(frozen=True, slots=True, kw_only=True)
class Spot:
    """Who is fastest on one table with one batch.

    Attributes:
        measure: key of what was measured.
        is_anywhere: whether it is among indexes that find a key anywhere in the table, or among
            all.
        shape: name of the keys' shape; empty without.
        rows: of the table.
        batch: rows of a batch, or keys of a lookup.
        first: the index with the lowest median.
        color: of that index; empty where others may be as good.
        words: how far ahead it is, or which others may be as good.
    """

    measure: str
    is_anywhere: bool
    shape: str
    rows: int
    batch: int
    first: str
    color: str
    words: str

    @property
    def is_clear(self) -> bool:
        """Whether there is a winner."""
        return bool(self.color)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunEntry:
    """A run as the other pages of the site see it; texts are safe to show.

    Attributes:
        run_id: names its folder below `runs/`.
        started: the day.
        scenario: its name.
        machine: what it was measured on, and what.
        label: whose run it is, and whether the maintainers repeated it.
        is_ours: whether it is the maintainers' run.
        verified: whether no answer was wrong.
        ended: cells that ended at a limit of memory or time.
        sentence: its answer.
        noise: of the machine.
        shown: what it says to each question, by key.
        spots: who was fastest where.
        compared: the run beside each one that repeats it, or that it repeats.
    """

    run_id: str
    started: str
    scenario: str
    machine: str
    label: str
    is_ours: bool
    verified: bool
    ended: int
    sentence: str
    noise: str
    shown: Mapping[str, Sequence[Shown]]
    spots: Sequence[Spot]
    compared: Sequence[Comparison]

    @property
    def is_contested(self) -> bool:
        """Whether a run that repeats it, or that it repeats, disagrees."""
        return any(each.agrees is False for each in self.compared)

    @property
    def href(self) -> str:
        """Its page, from the root of the site."""
        return f"runs/{quote(self.run_id)}/index.html"


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """An entry of the navigation."""

    href: str
    title: str


PAGES = (
    Link(href="index.html", title="Overview"),
    *(Link(href=f"{each.key}.html", title=each.name) for each in QUESTIONS),
    Link(href="history.html", title="History"),
    Link(href="method.html", title="Method"),
)
"""The pages of the site, beside those of runs."""
