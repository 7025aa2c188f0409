"""Changing the index of a table: what has to be done, what is different afterwards, doing it.

The index is a property of the table (`properties/facts.py`): it changes by this and nothing else.
Whatever the new index needs is made and proved first; one rewriting of hoodie.properties then
switches over. A switch that dies before leaves the table with its old index.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from keymark.indexes.installed import of_key_runs
from keymark.table.errors import DuplicateKeyError, InvalidOptionError, UnsupportedTableError
from keymark.table.index.build.footers import count_rows, estimate_groups
from keymark.table.index.build.target import BuildTarget
from keymark.table.index.build.uniqueness import FOLDER, repeated_rows
from keymark.table.index.choice import index_table_properties
from keymark.table.index.external import external_entries, rebuild
from keymark.table.index.protocol import index_name, load_index, spec_of
from keymark.table.keygen.stored import StoredKeys
from keymark.table.metadata.partitions import RECORD_INDEX
from keymark.table.properties.config import load_config, save_config
from keymark.table.properties.options import (
    INDEX_TYPE,
    RECORD_HASHES,
    TASK_MEMORY,
    index_properties,
)
from keymark.table.services.index.indexing import group_sizing
from keymark.table.services.maintain import TableServices
from keymark.table.state.table_state import TableState
from keymark.table.storage.lease import Lease
from keymark.table.storage.storage import Storage


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexSwitch:
    """A change of a table's index.

    Attributes:
        before: name of the index that the table has.
        after: name of the one that it gets.
        steps: what is done, in order; none where nothing changes.
        meaning: what is different from then on.
    """

    before: str
    after: str
    steps: tuple[str, ...]
    meaning: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Switcher:
    """Gives one table another index.

    Attributes:
        storage: of the table; that of the lease, to run.
        services: of the table, with the options that the new index would have.
        before: name of the index that the table has.
        given: options given for the switch.
    """

    storage: Storage
    services: TableServices
    before: str
    given: Mapping[str, str]

    def plan(self, after: str) -> IndexSwitch:
        """What a switch would do.

        Raises:
            InvalidOptionError: there is no such index, or an option does not fit it.
            UnsupportedTableError: the table cannot have it as it is laid out.
        """
        state = TableState.load(self.storage)
        facts = self._facts(state, after)
        steps = [*self._proofs(state, after)]
        builds = _builds(state, after)
        if builds:
            steps.append("build the record index from the keys of the base files, and prove it")
        enters = self._enters(state, after, facts)
        if enters:
            files = len(state.snapshot.files)
            steps.append(
                f"make the entries of {_entries(after, facts)} anew, from the keys of "
                f"{files} base files"
            )
        if _gets_key_runs(state, after):
            files = len(state.snapshot.files)
            steps.append(f"build the {after} index from the keys of {files} base files")
        changed = {n: v for n, v in facts.items() if state.config.properties.get(n) != v}
        gone = [n for n in index_properties() if n in state.config.properties and n not in facts]
        if changed or gone:
            texts = [f"{name}={value}" for name, value in sorted(changed.items())]
            texts += [f"no {name}" for name in gone]
            steps.append(f"write into hoodie.properties: {', '.join(texts)}")
        elif not (builds or enters):
            steps = []
        if self._loses_key_runs(state, after):
            steps.append(f"delete the {of_key_runs(state.config.key_runs).name} index")
        meaning = self._meaning(state, after, facts) if steps else ()
        return IndexSwitch(before=self.before, after=after, steps=tuple(steps), meaning=meaning)

    def run(self, after: str, lease: Lease) -> IndexSwitch:
        """Do it, under the lease.

        Raises:
            DuplicateKeyError: a global index is asked for, and a key is in more than one row.
        """
        switch = self.plan(after)
        if not switch.steps:
            return switch
        storage = self.storage
        state = TableState.load(storage)
        if self._proofs(state, after):
            self._prove_unique(state)
            if RECORD_INDEX in state.config.metadata_partitions:
                indexer = self.services.indexer(lease)
                indexer.drop(RECORD_INDEX)
                indexer.build(RECORD_INDEX, lease)
                state = TableState.load(storage)
        partition = spec_of(after).metadata_partition
        if partition is not None:
            self.services.indexer(lease).build(partition, lease)
        if self._enters(state, after, self._facts(state, after)):
            services = self.services
            entries = external_entries(after, services.options, services.runner)
            assert entries is not None
            rebuild(entries.index, entries.context(state), services.progress)
        values = self.services.value_indexes(lease)
        if _gets_key_runs(state, after):
            values.build_keys(spec_of(after).key_runs)
        with lease.fenced():
            config = load_config(storage)
            gone = set(index_properties())
            if self.before != after:  # hashes stand beside the index of before
                gone.add(RECORD_HASHES)
            kept = {name: v for name, v in config.properties.items() if name not in gone}
            save_config(storage, {**kept, **self._facts(state, after)})
        if self._loses_key_runs(state, after):
            values.drop_keys(state.config.key_runs)
        return switch

    def _loses_key_runs(self, state: TableState, after: str) -> bool:
        """Whether runs of the record keys are there that are not needed any more."""
        changes = self.before != after
        return changes and state.config.key_runs not in ("", spec_of(after).key_runs)

    def _enters(self, state: TableState, after: str, facts: Mapping[str, str]) -> bool:
        """Whether keys need entries outside of the table that they do not have."""
        option = spec_of(after).entries_option
        if not option:
            return False
        named = state.config.properties.get(option)
        return self.before != after or named != facts[option]

    def _proofs(self, state: TableState, after: str) -> list[str]:
        """What must be shown before a partition-local index gives way to a global one."""
        widens = spec_of(after).is_global and not spec_of(self.before).is_global
        # The build of a record index refuses repeated keys.
        if not widens or _builds(state, after) or not state.snapshot.files:
            return []
        files = len(state.snapshot.files)
        steps = [f"read the keys of {files} base files, and refuse if one is in two rows"]
        if RECORD_INDEX in state.config.metadata_partitions:
            # With an index of each partition, deleting one row of a key deletes its entry.
            steps.append("build the record index anew: it may lack keys that were in two rows")
        return steps

    def _facts(self, state: TableState, after: str) -> dict[str, str]:
        """The facts of the table with its new index; a key moves as it did before."""
        load_index(after)
        asked = self.given.get(INDEX_TYPE)
        if asked is not None and index_name(asked) != after:
            raise InvalidOptionError(f"option {INDEX_TYPE}={asked} contradicts index {after}")
        lays_out = spec_of(after).owns_layout and self.before != after
        if lays_out and state.snapshot.files:
            # Even if they were buckets: another index may have put any key into them.
            raise UnsupportedTableError(
                f"{state.storage.root} has rows, which would have to be laid out anew: create a "
                f"table with --index {after} and bulk-insert this one's rows (`table read --out` "
                "writes them to a file)"
            )
        config = state.config
        known = {
            name: config.properties[name]
            for name in index_properties()
            if name in config.properties
        }
        carried = known if after == self.before else {}
        moved, moves = known.get(spec_of(self.before).move_option or ""), spec_of(after).move_option
        if moved is not None and moves is not None:
            carried[moves] = moved
        facts = index_table_properties(after, config.record_key, {**carried, **self.given})
        if spec_of(after).owns_layout and state.snapshot.files:
            for name in known.keys() & facts.keys():
                if facts[name] != known[name]:
                    raise UnsupportedTableError(
                        f"{state.storage.root} has rows laid out by {name}={known[name]}: create a "
                        f"table with {name}={facts[name]} and bulk-insert this one's rows"
                    )
        return facts

    def _prove_unique(self, state: TableState) -> None:
        services = self.services
        rows = count_rows(self.storage, state.snapshot.files, runner=services.runner)
        target = BuildTarget(
            storage=self.storage,
            folder=FOLDER,
            partition=RECORD_INDEX,
            instant="",
            files=state.snapshot.files,
            groups=estimate_groups(rows, group_sizing(services.options)),
            keys=StoredKeys.of(state.config),
            zone=state.config.zone,
            memory=services.options.integer(TASK_MEMORY),
        )
        repeated = repeated_rows(
            target, rows=rows, runner=services.runner, progress=services.progress
        )
        if repeated:
            raise DuplicateKeyError(
                f"{repeated} rows have a record key that another row has, which an index of each "
                "partition allows: a global index holds each key once; delete the duplicates first"
            )

    def _meaning(self, state: TableState, after: str, facts: Mapping[str, str]) -> tuple[str, ...]:
        config, found = state.config, []
        old, new = spec_of(self.before), spec_of(after)
        was, is_global = old.is_global, new.is_global
        if was and not is_global and config.partition_fields:
            found.append(
                "a key counts within its partition: a row that arrives with another partition is a "
                "new row beside the old one, and deletes need the partition columns"
            )
        if is_global and not was:
            found.append("a key counts once in the whole table, whatever partition it comes with")
        move = facts.get(new.move_option or "")
        if is_global and move is not None and config.partition_fields:
            does = "moves there" if move == "true" else "stays where it is"
            found.append(f"a key that arrives with another partition {does}")
        if new.metadata_partition != RECORD_INDEX and RECORD_INDEX in config.maintained:
            found.append(
                "record_index stays, and every write keeps it up to date; "
                f"`keymark table index drop {state.storage.root} {RECORD_INDEX}` ends that"
            )
        if old.entries and self.before != after:
            found.append(
                f"the entries of {_entries(self.before, config.properties)} stay as they are, and "
                "nobody brings them up to date: delete them"
            )
        if new.named_to_hudi:
            found.append(
                f"Apache Hudi is told {INDEX_TYPE}={new.named_to_hudi}; files that it writes are "
                "searched for keys themselves, until a write of Keymark's takes them in"
            )
        found.append("writers that name another index, of Hudi's too, are refused")
        return tuple(found)


def _gets_key_runs(state: TableState, after: str) -> bool:
    """Whether runs of the record keys are needed that are not there."""
    return spec_of(after).key_runs not in ("", state.config.key_runs)


def _builds(state: TableState, after: str) -> bool:
    """Whether an index needs a partition of the metadata table that is not there."""
    partition = spec_of(after).metadata_partition
    return partition is not None and partition not in state.config.metadata_partitions


def _entries(index: str, facts: Mapping[str, str]) -> str:
    """What holds the entries of an index outside of the table."""
    spec = spec_of(index)
    return f"{spec.entries} {facts.get(spec.entries_option)}"
