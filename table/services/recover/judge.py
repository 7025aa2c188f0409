"""What a recovery can mend, and what is wrong with a table whatever becomes of its commits."""

from __future__ import annotations

from keymark.table.errors import CorruptFileError
from keymark.table.layout.naming import HOODIE, parse_base_file
from keymark.table.services.check.check import CheckResult


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
