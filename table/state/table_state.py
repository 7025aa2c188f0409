"""One consistent reading of a table: what it says about itself at one moment."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa

from keymark.table.errors import CorruptFileError
from keymark.table.format.schema import from_avro, with_meta, without_meta
from keymark.table.layout.model import BaseFile
from keymark.table.layout.naming import parse_base_file
from keymark.table.layout.view import Listing, Snapshot, snapshot
from keymark.table.metadata.partitions import FILES
from keymark.table.metadata.reader import MetadataTable
from keymark.table.metadata.shard import Validity
from keymark.table.properties.config import TableConfig, load_config
from keymark.table.runtime.clock import Clock
from keymark.table.state.late import fenced_times
from keymark.table.storage.storage import Storage
from keymark.table.timeline.timeline import Timeline, next_instant

_LOOKS = 3
_REMEDY = "table recover PATH"


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """What the holder of the lease did to a table since it was read.

    Attributes:
        time: its instant on the data's timeline; "" for none.
        written: the base files of that instant.
        deleted: names of deleted base files by partition path.
    """

    time: str = ""
    written: Sequence[BaseFile] = ()
    deleted: Mapping[str, Iterable[str]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class TableState:
    """One consistent reading of a table: config, both timelines, listing and snapshot."""

    storage: Storage
    config: TableConfig
    timeline: Timeline
    metadata: MetadataTable | None
    listing: Listing
    snapshot: Snapshot

    @classmethod
    def load(
        cls, storage: Storage, as_of: str | None = None, known: TableState | None = None
    ) -> TableState:
        """Read the table as it is, or as it was at an instant.

        Instants can be archived between the listing of a timeline and the reading of their files:
        then another look finds them gone from both.

        Args:
            storage: of the table.
            as_of: the instant; None for now.
            known: an earlier reading: where the timelines are as they were, so is the listing.
        """
        with _collector_paused():
            for _ in range(_LOOKS - 1):
                with contextlib.suppress(FileNotFoundError):
                    return cls._load(storage, as_of, known)
            return cls._load(storage, as_of, known)

    @classmethod
    def _load(cls, storage: Storage, as_of: str | None, known: TableState | None) -> TableState:
        config = load_config(storage)
        timeline = known.timeline.again() if known else Timeline.load(storage)
        metadata = None
        with naming_the_remedy():
            if FILES in config.metadata_partitions:
                metadata = _metadata_of(storage, timeline, known)
                if known is not None and known.shows(config, timeline, metadata):
                    return known.at(as_of)
                listing: Listing = metadata.listing()
            else:
                listing = list_storage(storage, without=fenced_times(storage))
            shown = snapshot(listing, timeline, as_of)
            # The newest commit says how rows are read.
            table_schema(timeline)
        return cls(
            storage=storage,
            config=config,
            timeline=timeline,
            metadata=metadata,
            listing=listing,
            snapshot=shown,
        )

    def shows(self, config: TableConfig, timeline: Timeline, metadata: MetadataTable) -> bool:
        """Whether it is a reading of the same instants."""
        return (
            self.metadata is not None
            and self.config == config
            and self.timeline.instants == timeline.instants
            and self.metadata.timeline.instants == metadata.timeline.instants
        )

    def at(self, as_of: str | None) -> TableState:
        """This reading with the snapshot of an instant; None for the latest."""
        if as_of == self.snapshot.as_of:
            return self
        return replace(self, snapshot=snapshot(self.listing, self.timeline, as_of))

    def next_instant(self, clock: Clock) -> str:
        """An instant after all that the table has."""
        timelines = [self.timeline] + ([self.metadata.timeline] if self.metadata else [])
        return next_instant(clock, self.config.zone, *timelines)

    def average_record_bytes(self) -> float | None:
        """Bytes per row of the latest commit that wrote rows; None before the first."""
        for instant in reversed(self.timeline.completed(("commit", "replacecommit"))):
            done = self.timeline.commit(instant)
            if done.rows:
                return done.bytes_written / done.rows
        return None

    def after(self, change: Change) -> TableState:
        """The table after a change of the holder's own: only the timelines are listed again.

        Where the data's timeline has more than that change, the table is read anew.
        """
        timeline = self.timeline.again()
        differing = set(timeline.instants) ^ set(self.timeline.instants)
        if not {instant.time for instant in differing} <= {change.time}:
            return TableState.load(self.storage)
        metadata = None
        if self.metadata is not None:
            own = self.metadata.timeline.again()
            metadata = MetadataTable(self.storage, own, Validity(own, timeline))
        listing = _changed(self.listing, change)
        return replace(
            self,
            timeline=timeline,
            metadata=metadata,
            listing=listing,
            snapshot=snapshot(listing, timeline),
        )


def _metadata_of(storage: Storage, timeline: Timeline, known: TableState | None) -> MetadataTable:
    if known is None or known.metadata is None:
        return MetadataTable.load(storage, timeline)
    own = known.metadata.timeline.again()
    return MetadataTable(storage, own, Validity(own, timeline))


@contextlib.contextmanager
def naming_the_remedy() -> Iterator[None]:
    """Name the command that goes back to the last whole commit where a file is torn."""
    try:
        yield
    except CorruptFileError as error:
        if _REMEDY in error.detail:
            raise
        detail = f"{error.detail}; `{_REMEDY}` goes back to the last whole commit"
        raise CorruptFileError(error.name, error.offset, detail) from error


def _changed(listing: Listing, change: Change) -> Listing:
    changed = {partition: dict(names) for partition, names in listing.items()}
    for file in change.written:
        changed.setdefault(file.partition_path, {})[file.name] = file.size
    for partition, names in change.deleted.items():
        for name in names:
            changed[partition].pop(name, None)
    return changed


def list_storage(storage: Storage, *, without: Collection[str] = ()) -> dict[str, dict[str, int]]:
    """The listing of a table without a metadata table: every folder that holds base files.

    Files of the instants `without` are left out.
    """
    listing: dict[str, dict[str, int]] = {}
    for status in storage.walk(""):
        folder, _, name = status.path.rpartition("/")
        file = parse_base_file(folder, name, status.size)
        if file is None or status.path.startswith(".hoodie/") or file.instant_time in without:
            continue
        listing.setdefault(folder, {})[name] = status.size
    return listing


@contextlib.contextmanager
def _collector_paused() -> Iterator[None]:
    """Python's garbage collector does nothing meanwhile.

    It would search the growing statistics of a commit of 20,000 files again and again, which took
    half of the time of opening such a table.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def table_schema(timeline: Timeline) -> str | None:
    """The Avro schema of the table's rows as the latest commit tells it; None before the first."""
    for instant in reversed(timeline.completed(("commit", "replacecommit"))):
        schema = timeline.commit(instant).schema
        if schema:
            return schema
    return None


def stored_schema(state: TableState) -> pa.Schema:
    """The columns of base files, meta columns first; those alone before any row."""
    text = table_schema(state.timeline)
    return with_meta(without_meta(from_avro(text)) if text else pa.schema([]))


def columns_of(storage: Storage) -> pa.Schema:
    """The columns of the table's rows, without meta columns; none before the first row."""
    with naming_the_remedy():
        text = table_schema(Timeline.load(storage))
    return without_meta(from_avro(text)) if text else pa.schema([])
