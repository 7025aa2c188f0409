"""What a recovery can mend, and what is wrong with a table whatever becomes of its commits."""

from __future__ import annotations

from keymark.table.errors import CorruptFileError
from keymark.table.format.schema import without_meta
from keymark.table.layout.naming import HOODIE, parse_base_file
from keymark.table.runtime.runner import TaskRunner
from keymark.table.services.check.check import CheckResult
from keymark.table.services.recover.torn import Torn
from keymark.table.state.table_state import TableState, stored_schema
from keymark.table.values.indexed import Indexed, indexed_of
from keymark.table.values.verify import wrong_files


def is_in_step(checked: CheckResult) -> bool:
    """Whether the metadata table says what the data is, whatever the data is.

    A key that is in several rows has an entry for one of them, or none if another was deleted.
    """
    if checked.missing + checked.wrong > checked.duplicate or checked.extra:
        return False
    if checked.shards and not checked.duplicate:
        return False
    listing = checked.files_missing + checked.files_unlisted + checked.files_uncommitted
    records = checked.column_stats_wrong + checked.bloom_records_wrong
    return not (listing or checked.files_late or records)


def is_of_data(error: CorruptFileError) -> bool:
    """Whether a base file of the data is damaged: to build the metadata table anew is no remedy."""
    folder, _, name = error.name.rpartition("/")
    file = parse_base_file(folder, name, 0)
    # Those of the metadata table are HFiles.
    return file is not None and file.extension == "parquet" and folder.split("/")[0] != HOODIE


def wrong_indexes(state: TableState, runner: TaskRunner) -> list[tuple[Indexed, Torn]]:
    """The indexes of values with a run that is damaged, or that are wrong; why each is."""
    files, found = state.snapshot.files, []
    schema = without_meta(stored_schema(state))
    for indexed in indexed_of(state.config, schema) if files else ():
        try:
            wrong = wrong_files(state, indexed, files, runner)
        except CorruptFileError as error:
            # Beside a damaged base file nothing can be told.
            if not is_of_data(error):
                found.append((indexed, Torn(error.name, error.detail)))
        else:
            if wrong:
                reason = f"it has not the values of {wrong[0].path}"
                found.append((indexed, Torn(indexed.folder, reason)))
    return found
