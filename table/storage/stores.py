"""The storage of a table by the path or URL that its user gives."""

from __future__ import annotations

import os
from collections.abc import Mapping

from keymark.table.errors import InputError, StorageError
from keymark.table.properties.options import (
    CONCURRENCY_MODE,
    LOCAL_SYNC,
    ONE_WRITER,
    REQUEST_LOG,
    STORAGE_SETTINGS,
)
from keymark.table.storage.local_storage import LocalStorage
from keymark.table.storage.object_storage import SCHEMES, ObjectStorage
from keymark.table.storage.storage import Storage

HDFS = "hdfs"


def storage_at(
    path: str | os.PathLike[str], options: Mapping[str, str], *, create: bool = False
) -> Storage:
    """The storage of a folder.

    Args:
        path: a path or `file://` URL of this machine, or the URL of a folder on an object store
            or on HDFS.
        options: of the table; those of the connection count.
        create: make the folder, where there are folders.

    Raises:
        InputError: it is no path.
        StorageError: nothing is known of such URLs.
    """
    if not isinstance(path, str | os.PathLike):
        raise InputError(f"the path of a table is a text or a Path, not {type(path).__name__}")
    text = os.fspath(path)
    scheme, mark, _ = text.partition("://")
    if not mark or scheme == "file":
        durable = options.get(LOCAL_SYNC, "true").lower() != "false"
        return LocalStorage.at(text, create=create, durable=durable)
    if scheme not in (*SCHEMES, HDFS):
        known = ", ".join(f"{name}://" for name in ("file", *SCHEMES, HDFS))
        raise StorageError(f"{text}: tables can be at {known}")
    settings = {
        name.removeprefix(STORAGE_SETTINGS): value
        for name, value in options.items()
        if name.startswith(STORAGE_SETTINGS) and name != REQUEST_LOG
    }
    if scheme == HDFS:
        # Py4J is loaded where it is needed only.
        from keymark.table.storage.hadoop_storage import HadoopStorage  # noqa: PLC0415

        return HadoopStorage(text.rstrip("/"), settings)
    one_writer = options.get(CONCURRENCY_MODE) == ONE_WRITER
    return ObjectStorage(
        text.rstrip("/"),
        settings,
        one_writer=one_writer,
        request_log=options.get(REQUEST_LOG, ""),
    )
