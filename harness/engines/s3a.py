"""How Hudi reaches tables on S3: Hadoop's client S3A, its jars, its settings, its own counts.

The client must be of the Hadoop that Spark 3.5 brings, and the SDK of the client. Settings go to
Hadoop's configuration and not to Spark's: they hold secrets, and Spark's stand in its event log.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from keymark.harness.engines import jars
from keymark.table.properties.options import STORAGE_SETTINGS

NAME = "s3a"
"""What `keymark engine install` calls it."""

_JARS: tuple[jars.Jar, ...] = (
    ("org/apache/hadoop", "hadoop-aws", "3.3.4"),
    ("com/amazonaws", "aws-java-sdk-bundle", "1.12.262"),
)
_SETTINGS = {
    "endpoint": "fs.s3a.endpoint",
    "region": "fs.s3a.endpoint.region",
    "access_key_id": "fs.s3a.access.key",
    "secret_access_key": "fs.s3a.secret.key",
    "session_token": "fs.s3a.session.token",
}
_CONNECTIONS = "10000"
"""Connections that the client may hold open.

By default they are 96. Hudi 1.2.0 leaves streams open, each with its connection, as long as its
process lives: the first upsert of 40,000 rows among 1,000,000 ended in "Timeout waiting for
connection from pool", and with 1,000 of them the third table did. apache/hudi#7130 ends likewise.
"""
_IN_ENVIRONMENT = {
    "endpoint": "AWS_ENDPOINT_URL",
    "region": "AWS_REGION",
    "access_key_id": "AWS_ACCESS_KEY_ID",
    "secret_access_key": "AWS_SECRET_ACCESS_KEY",
    "session_token": "AWS_SESSION_TOKEN",
}

STATISTICS = "S3AStorageStatistics"
"""Under this name the client's counts are known to Hadoop's `FileSystem`."""

COUNTS = {
    "head": ("object_metadata_request",),
    "list": ("object_list_request", "object_continue_list_request"),
    "put": ("object_put_request", "object_copy_requests", "object_multipart_initiated"),
    "delete": ("object_delete_request", "object_bulk_delete_request"),
}
"""By kind of request the counts of Hadoop's `StoreStatisticNames` that make it up.

Copies cost what a put does. Requests that the client sends again are not in these.
"""

ALL, AGAIN = "store_io_request", "store_io_retry"
"""All requests, and those of them that were sent again.

What is not of another kind is a GET: S3A counts one only when its stream is closed, and Hudi leaves
streams open.
"""


def place(url: str) -> str:
    """The URL of a table as Hadoop spells it."""
    return f"{NAME}://{url.partition('://')[2]}"


def install(download: jars.Download) -> tuple[Path, ...]:
    """Put the jars into the cache, unless they are there.

    Raises:
        HarnessError: the repository lacks one, cannot be reached, or sent something else.
    """
    return tuple(jars.fetch(jar, NAME, download) for jar in _JARS)


def installed() -> tuple[Path, ...]:
    """Where the jars are; none unless all of them are there."""
    found = tuple(jars.kept(jar, NAME) for jar in _JARS)
    return found if all(path.is_file() for path in found) else ()


def missing() -> str | None:
    """One line that says how to get the jars; None if they are there."""
    if installed():
        return None
    return "Spark's engines reach S3 through hadoop-aws; get it once by: keymark engine install s3a"


def settings(options: Mapping[str, str]) -> dict[str, str]:
    """Hadoop's settings of the connection, from a table's options or else the environment."""
    found = {"fs.s3a.path.style.access": "true", "fs.s3a.connection.maximum": _CONNECTIONS}
    for name, hadoops in _SETTINGS.items():
        given = options.get(STORAGE_SETTINGS + name) or os.environ.get(_IN_ENVIRONMENT[name])
        found |= {hadoops: given} if given else {}
    return found
