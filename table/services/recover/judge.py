"""What a recovery can mend, and what is wrong with a table whatever becomes of its commits."""

from __future__ import annotations

from keymark.table.errors import CorruptFileError
from keymark.table.layout.naming import HOODIE, parse_base_file


def is_of_data(error: CorruptFileError) -> bool:
    """Whether a base file of the data is damaged: to build the metadata table anew is no remedy."""
    folder, _, name = error.name.rpartition("/")
    file = parse_base_file(folder, name, 0)
    # Those of the metadata table are HFiles.
    return file is not None and file.extension == "parquet" and folder.split("/")[0] != HOODIE
