"""A survey: one listing, the commits of the active timeline, and a few footers. Writes nothing.

An object store is asked for a page of the listing per 1,000 files, for each commit once, and for
some 30 ranges of sampled files, however large the table is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from keymark.table.errors import TableError, UnsupportedTableError
from keymark.table.layout.naming import (
    BOOTSTRAPPED,
    HOODIE,
    PROPERTIES,
    PROPERTIES_BACKUP,
)
from keymark.table.properties.config import decode_properties, no_table
from keymark.table.storage.storage import Storage
from keymark.table.survey import facts, samples
from keymark.table.survey.commits import Commit, decode
from keymark.table.survey.instants import TIMELINE, WRITES, SurveyInstant, instants
from keymark.table.survey.listing import (
    ListedFile,
    Listing,
    LogWrites,
    Slice,
    list_table,
    slices,
)
from keymark.table.survey.model import RecordIndexFacts, TableSurvey

VERSIONS = (6, 8, 9)
_FIRST_OWN_TIMELINE = 8
_PROBLEMS = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """The latest slices of a table, with the listing, instants and commits that show them.

    Attributes:
        properties: hoodie.properties.
        version: of the table.
        listing: of its folder.
        instants: of the active timeline, oldest first.
        commits: those that were read, by time, oldest first.
        replacements: the older replacecommits, by time: they say which file groups are gone.
        slices: the live file groups, by partition path and file id.
    """

    properties: Mapping[str, str]
    version: int
    listing: Listing
    instants: tuple[SurveyInstant, ...]
    commits: Mapping[str, Commit]
    replacements: Mapping[str, Commit]
    slices: Mapping[tuple[str, str], Slice]

    @property
    def writes(self) -> list[SurveyInstant]:
        """The completed writes of the active timeline."""
        return _writes(self.instants)

    @property
    def bases(self) -> list[ListedFile]:
        """The base files of the slices."""
        return [each.base for each in self.slices.values() if each.base]


def read_snapshot(storage: Storage, problems: list[str], *, commits: int | None = None) -> Snapshot:
    """The latest slices of a table.

    Args:
        storage: of the table's folder.
        problems: gets a line for each thing that could not be read.
        commits: the newest commits to read, beside older ones that replaced file groups; None: all
            of the active timeline.

    Raises:
        NotATableError: there is no hoodie.properties.
        UnsupportedTableError: another table version than 6, 8 and 9, or base files of no Parquet.
        StorageError: the folder cannot be listed.
    """
    properties, version = _properties(storage)
    listing = list_table(storage)
    problems += [f"{each.path} was left out: {each.reason}" for each in listing.obstacles]
    timeline = TIMELINE if version >= _FIRST_OWN_TIMELINE else HOODIE
    known = instants(listing.hidden, timeline)
    writes = _writes(known)
    left_out = 0 if commits is None else max(0, len(writes) - commits)
    older = [each for each in writes[:left_out] if each.action == "replacecommit"]
    replacements = _commits(storage, older, problems)
    read = _commits(storage, writes[left_out:], problems)
    completed = frozenset(each.time for each in writes)
    first = writes[0].time if writes else ""

    def visible(time: str) -> bool:
        """Whether the write of an instant was completed (containsOrBeforeTimelineStarts)."""
        return time in completed or time < first

    replaced = {
        place for each in (*replacements.values(), *read.values()) for place in each.replaced
    }
    # Before version 8 log files have the instant of their base file, whichever write made them.
    completions = {each.time: each.completion for each in writes if each.completion}
    own = LogWrites(visible, completions) if version >= _FIRST_OWN_TIMELINE else None
    return Snapshot(
        properties=properties,
        version=version,
        listing=listing,
        instants=known,
        commits=read,
        replacements=replacements,
        slices=dict(slices(listing.groups, visible, replaced, own)),
    )


def survey(path: str, storage: Storage, *, commits: int | None = None) -> TableSurvey:
    """Survey a table; arguments and errors as in `read_snapshot`, `path` as the user gave it."""
    problems: list[str] = []
    table = read_snapshot(storage, problems, commits=commits)
    properties = table.properties
    if bare := sum(file.instant == BOOTSTRAPPED for file in table.bases):
        problems.append(
            f"{bare:,} base files are of Hudi's bootstrap: they hold the meta columns alone, and "
            "their bytes count without the rest of the rows"
        )
    sampled = samples.read_footers(storage, table.bases, problems)
    rows, row_bytes = _rows(table, sampled)
    known = [*table.replacements.values(), *table.commits.values()]
    merge_on_read = properties.get("hoodie.table.type", "").upper() == "MERGE_ON_READ"
    return TableSurvey(
        path=path,
        name=properties.get("hoodie.table.name", ""),
        version=table.version,
        merge_on_read=merge_on_read,
        properties=properties,
        metadata_partitions=_names(properties.get("hoodie.table.metadata.partitions", "")),
        rows=rows,
        row_bytes=row_bytes,
        sampled_files=len(sampled),
        files=facts.file_facts(table.slices, table.writes),
        keys=samples.key_facts(
            _names(properties.get("hoodie.table.recordkey.fields", "")), sampled
        ),
        services=facts.services(
            table.instants,
            clusterings=sum(each.facts.operation == "CLUSTER" for each in known),
        ),
        filters=samples.filter_facts(sampled, problems),
        record_index=_record_index(storage, table.listing, problems),
        writes=tuple(each.facts for each in table.commits.values() if _changed_rows(each)),
        problems=_shortened(problems),
    )


def _writes(known: Sequence[SurveyInstant]) -> list[SurveyInstant]:
    return [each for each in known if each.completed and each.action in WRITES]


def table_version(storage: Storage) -> int:
    """The version of a table; errors as in `read_snapshot`."""
    return _properties(storage)[1]


def _properties(storage: Storage) -> tuple[dict[str, str], int]:
    """hoodie.properties, or its backup where a rewrite was cut off, and the table's version."""
    for path in (PROPERTIES, PROPERTIES_BACKUP):
        try:
            found = decode_properties(storage.read(path), path)
        except FileNotFoundError:
            continue
        if "hoodie.table.name" in found:
            break
    else:
        raise no_table(storage)
    text = found.get("hoodie.table.version", "")
    version = int(text) if text.isdecimal() and len(text) < 4 else 0
    if version not in VERSIONS:
        known = ", ".join(map(str, VERSIONS))
        raise UnsupportedTableError(
            f"{PROPERTIES}: hoodie.table.version={text or '(missing)'} is not read, only {known}"
        )
    if (base := found.get("hoodie.table.base.file.format", "PARQUET")).upper() != "PARQUET":
        raise UnsupportedTableError(f"{PROPERTIES}: base files of {base} are not read")
    return found, version


def _commits(
    storage: Storage, writes: Sequence[SurveyInstant], problems: list[str]
) -> dict[str, Commit]:
    """The commits by time, oldest first; what cannot be read becomes a problem."""
    found = {}
    for instant in writes:
        try:
            found[instant.time] = decode(storage.read(instant.path), instant)
        except FileNotFoundError:
            problems.append(f"{instant.path} was archived, or taken back, meanwhile")
        except TableError as error:
            problems.append(f"a commit was left out: {error}")
    return found


def _changed_rows(commit: Commit) -> bool:
    """Whether a commit is a write of the user's and not one of the table's services."""
    return commit.facts.operation not in ("COMPACT", "LOG_COMPACT", "CLUSTER")


def _rows(table: Snapshot, sampled: Sequence[samples.SampledFile]) -> tuple[int, float]:
    """Rows of all base files and bytes of one; those of unknown files go by their bytes."""
    bases = table.bases
    rows_of = {path: rows for each in table.commits.values() for path, rows in each.rows.items()}
    rows_of |= {each.file.path: each.footer.num_rows for each in sampled}
    filter_bytes = max((each.filter_bytes for each in sampled), default=0)
    counted = [file for file in bases if file.path in rows_of]
    rows = sum(rows_of[file.path] for file in counted)
    size = sum(max(file.size - filter_bytes, 1) for file in counted)
    row_bytes = size / rows if rows else 0.0
    others = sum(max(f.size - filter_bytes, 0) for f in bases if f.path not in rows_of)
    return rows + (round(others / row_bytes) if row_bytes else 0), row_bytes


def _record_index(
    storage: Storage, listing: Listing, problems: list[str]
) -> RecordIndexFacts | None:
    shards = facts.shard_facts(listing.shards)
    if not shards:
        return None
    found = slices(listing.shards, lambda _: True)
    bases = [each.base for _, each in found if each.base]
    return RecordIndexFacts(
        shards=shards,
        partitioned=facts.is_partitioned(shards),
        key_bytes=samples.entry_bytes(storage, bases, problems),
    )


def _names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name.strip())


def _shortened(problems: Sequence[str]) -> tuple[str, ...]:
    """The first problems, and how many more there are."""
    more = len(problems) - _PROBLEMS
    kept = problems[:_PROBLEMS]
    return (*kept, f"and {more:,} more like these") if more > 0 else tuple(kept)
