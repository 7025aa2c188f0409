"""What says that the record index is being dealt out to another number of file groups.

    .hoodie/.keymark/build/reshard/plan.json
    .hoodie/metadata/.hoodie/<instant>.deltacommit.inflight      to more file groups
    .hoodie/metadata/.hoodie/<instant>.replacecommit.inflight    to fewer

While the instant is pending, files of it lie beside those of the present file groups. Nobody counts
them, archives past it or takes it for a dead writer's. A plan whose instant is not pending has
ended.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace

from keymark.table.errors import CorruptFileError, InputError
from keymark.table.layout.naming import BUILD, METADATA
from keymark.table.storage.storage import Storage
from keymark.table.timeline.timeline import Timeline

RESHARDING = "reshard"
RESHARD = f"{BUILD}/{RESHARDING}"
PLAN = f"{RESHARD}/plan.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReshardPlan:
    """A re-sharding that was begun.

    Attributes:
        before, after: numbers of file groups.
        instant: of the commit that will name the new files.
        slices: base instant of each present file group, by file id.
        read: instants of the log blocks that the new base files have taken in, by file id.
        by_service: a write's service works on it, under the lease from its beginning to its end:
            whoever has the lease finds it at rest.
    """

    before: int
    after: int
    instant: str
    slices: Mapping[str, str]
    read: Mapping[str, tuple[str, ...]]
    by_service: bool = False

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


def take_over(storage: Storage, plan: ReshardPlan, *, by_service: bool) -> ReshardPlan:
    """Say who goes on with a plan; call it under the lease."""
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
    pending = Timeline.load(storage, METADATA).pending()
    return plan if any(instant.time == plan.instant for instant in pending) else None


def refuse_while_resharding(storage: Storage) -> None:
    """InputError while the record index is being dealt out to other file groups."""
    if resharding(storage) is not None:
        raise InputError("the record index is being re-sharded: finish or abort that first")
