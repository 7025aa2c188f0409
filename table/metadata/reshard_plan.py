"""What says that the record index is being dealt out to another number of file groups.

    .hoodie/.keymark/build/reshard/plan.json
    .hoodie/.keymark/build/reshard/switching                    while the switch moves files
    .hoodie/.keymark/build/reshard/<folder>/record_index/...    files of the new file groups
    .hoodie/metadata/.hoodie/<instant>.indexing.inflight        from the plan to the switch

The files lie aside until the switch moves them into the metadata table. There Hudi's readers count
a file slice from when its instant is on the timeline, completed or not, as an action that writes
(AbstractTableFileSystemView, whose timeline is getWriteTimeline). So until then the instant is of
the action `indexing`, which Hudi's readers and writers leave alone. It keeps Keymark from archiving
past it. A plan whose instant is not pending, or is completed, has ended.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace

from keymark.table.errors import CommitConflictError, CorruptFileError, InputError
from keymark.table.layout.naming import METADATA, RESHARD
from keymark.table.storage.storage import Storage
from keymark.table.timeline.timeline import Timeline

INDEXING = "indexing"
RESHARDING = RESHARD.rpartition("/")[2]
PLAN = f"{RESHARD}/plan.json"
_SWITCHING = f"{RESHARD}/switching"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReshardPlan:
    """A re-sharding that was begun.

    Attributes:
        before, after: numbers of file groups.
        instant: of the commit that will name the new files.
        slices: base instant of each present file group, by file id.
        read: instants of the log blocks that the new base files have taken in, by file id.
        folder: the name of the folder for its files. Tasks of one that was given up may still put
            some, into another folder.
        by_service: a write's service works on it, under the lease from its beginning to its end:
            the next holder of the lease finds it at rest.
    """

    before: int
    after: int
    instant: str
    slices: Mapping[str, str]
    read: Mapping[str, tuple[str, ...]]
    folder: str
    by_service: bool = False

    @property
    def place(self) -> str:
        """The folder for its files, each at its path in the metadata table."""
        return f"{RESHARD}/{self.folder}"

    @property
    def action(self) -> str:
        """What the switch is: only a replace commit takes file groups out."""
        return "deltacommit" if self.after > self.before else "replacecommit"


def load_plan(storage: Storage) -> ReshardPlan | None:
    """The plan of the re-sharding that was begun; None if there is none.

    Raises:
        CorruptFileError: it is damaged.
    """
    try:
        data = storage.read(PLAN)
    except FileNotFoundError:
        return None
    try:
        found = json.loads(data)
        return ReshardPlan(
            before=int(found["before"]),
            after=int(found["after"]),
            instant=str(found["instant"]),
            slices={str(name): str(time) for name, time in found["slices"].items()},
            read={str(name): tuple(map(str, times)) for name, times in found["read"].items()},
            folder=str(found["folder"]),
            by_service=bool(found.get("by_service", False)),
        )
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        detail = (
            f"not the plan of a re-sharding ({error}); delete the folder {RESHARD}, and the next "
            "write takes back what was made"
        )
        raise CorruptFileError(PLAN, 0, detail) from error


def save_plan(storage: Storage, plan: ReshardPlan) -> None:
    """Keep a plan; it survives a power cut."""
    storage.commit(PLAN, _encoded(plan))


def note_switching(storage: Storage) -> None:
    """Say that files are being moved: after a death the next writer takes them back."""
    storage.commit(_SWITCHING, b"")


def is_switching(storage: Storage) -> bool:
    """Whether files were being moved; call it under the lease."""
    return storage.exists(_SWITCHING)


def take_over(storage: Storage, plan: ReshardPlan, *, by_service: bool) -> ReshardPlan:
    """Say who continues a plan; call it under the lease."""
    if plan.by_service != by_service:
        plan = replace(plan, by_service=by_service)
        storage.replace(PLAN, _encoded(plan))
    return plan


def _encoded(plan: ReshardPlan) -> bytes:
    return json.dumps(asdict(plan), indent=1).encode()


def resharding(storage: Storage) -> ReshardPlan | None:
    """The plan of the re-sharding that is under way."""
    plan = load_plan(storage)
    if plan is None:
        return None
    known = Timeline.load(storage, METADATA).instants
    found = [(i.action, i.completed) for i in known if i.time == plan.instant]
    return plan if found == [(INDEXING, False)] else None


def end_switch(storage: Storage, plan: ReshardPlan) -> None:
    """Forget a re-sharding whose commit is completed; call it under the lease.

    The commit has the files of an instant that was begun, as others have them.
    """
    timeline = Timeline.load(storage, METADATA)
    with contextlib.suppress(CommitConflictError):
        timeline.begin(plan.instant, plan.action)
    timeline.ensure_started(plan.instant, plan.action, b"")
    timeline.remove(plan.instant, INDEXING)
    storage.delete_tree(RESHARD)


def refuse_while_resharding(storage: Storage) -> None:
    """InputError while the record index is being dealt out to other file groups."""
    if resharding(storage) is not None:
        raise InputError("the record index is being re-sharded: finish or abort that first")
