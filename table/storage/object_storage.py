"""Object stores behind the Storage protocol: S3, Google Cloud Storage, Azure, through obstore.

An object appears whole or not at all, so a put needs no staging. Every put carries a token of its
own in the object's metadata: where an answer is lost, or a retry meets what its first try stored,
the token that is there tells whose put it was. Nothing is concluded from a lost answer alone.

No writer can be kept out for a moment here, nor is it known whether a writer lives: the lease does
without (table/storage/lease.py).
"""

from __future__ import annotations

import contextlib
import functools
import os
import re
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from types import MappingProxyType
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import obstore
from obstore.exceptions import (
    AlreadyExistsError,
    BaseError,
    GenericError,
    JoinError,
    NotSupportedError,
    PermissionDeniedError,
    UnauthenticatedError,
    UnknownConfigurationKeyError,
)
from obstore.store import MemoryStore, from_url

from keymark.table.errors import FileTakenError, InvalidOptionError, MissingFileError, StorageError
from keymark.table.layout.naming import HOODIE, KEYMARK
from keymark.table.storage import requests
from keymark.table.storage.requests import Request
from keymark.table.storage.spool import Content, whole
from keymark.table.storage.storage import FileStatus, NoLocking, RangeReader, WindowReader, segments

if TYPE_CHECKING:
    from obstore import ListResult, ObjectMeta, PutMode
    from obstore.store import ObjectStore

SCHEMES = ("s3", "s3a", "gs", "az", "abfs", "abfss", "memory")
# Settings of the connection; obstore takes all others as those of the store.
CLIENT_SETTINGS = (
    *("allow_http", "allow_invalid_certificates", "connect_timeout", "http1_only", "http2_only"),
    *("pool_idle_timeout", "pool_max_idle_per_host", "proxy_url", "proxy_excludes"),
    *("proxy_ca_certificate", "read_timeout", "root_certificate", "timeout", "user_agent"),
)
_FLAGS = ("allow_http", "allow_invalid_certificates", "http1_only", "http2_only")
RETRIES, RETRY_SECONDS = "max_retries", "retry_seconds"
# A base file of 128 MB is one request: half a minute, obstore's default, can be too short for it.
_DEFAULTS = {"timeout": "180s", RETRIES: "10", RETRY_SECONDS: "120"}
_TOKEN = "keymark"  # noqa: S105  the name of a metadata entry
_TRIES = 4
_TRUE, _FALSE = ("true", "1", "on", "yes", "y"), ("false", "0", "off", "no", "n")
# Of numbers that obstore takes; more than thirty years of seconds.
_DIGITS_MAX = 9
_STATUS = re.compile(r"status code: (\d{3}(?: [A-Z][A-Za-z-]+)*)")
_CODE = re.compile(r"<Code>(\w{1,60})</Code>")
_CAUSE = re.compile(r"HTTP error: ([a-z ]{1,80})")
# Seen with a store that refuses access, or on a machine without a role, whose metadata service is
# asked.
_LET_IN = re.compile(
    r"status code: 40[13]|credential|/latest/(?:api/token|meta-data)", re.IGNORECASE
)
# Settings that are credentials or say where they come from, as obstore and AWS name them.
_CREDENTIALS = frozenset(
    (
        *("access_key_id", "secret_access_key", "session_token", "token", "skip_signature"),
        *("container_credentials_relative_uri", "container_credentials_full_uri"),
        *("web_identity_token_file", "role_arn"),
    )
)


@dataclass(frozen=True, slots=True)
class ObjectStorage(NoLocking):
    """A folder of a bucket.

    Attributes:
        root: its URL.
        settings: of the store, by obstore's names; what is not given comes from the environment.
            They hold secrets, and are neither printed nor compared.
        one_writer: its user says that there is no other writer, so that a put may look first and
            write then. Without it the store must put if absent.
        request_log: a folder on this machine where requests are counted; none if empty.
    """

    root: str
    settings: Mapping[str, str] = field(
        default_factory=lambda: MappingProxyType({}), repr=False, compare=False
    )
    one_writer: bool = False
    request_log: str = field(default="", compare=False)

    def __post_init__(self) -> None:
        # Unknown settings and malformed URLs are errors here, not at the first request.
        _ = self._store

    def __reduce__(self) -> tuple[Any, ...]:
        """Tasks connect by themselves."""
        return type(self), (self.root, dict(self.settings), self.one_writer, self.request_log)

    @property
    def _store(self) -> ObjectStore:
        """The connection to the bucket, shared by all of this process."""
        return _connect(_split(self.root)[0], tuple(sorted(self.settings.items())))

    def _count(self, kind: Request, number: int = 1) -> None:
        try:
            requests.count(self.request_log, kind, number)
        except OSError as error:
            # Not as it came: no file of the store is missing.
            detail = f"cannot count requests in {self.request_log}: {error.strerror}"
            raise StorageError(detail) from error

    def _telling(self, verb: str, path: str) -> contextlib.AbstractContextManager[None]:
        """One line per error of the store; where it has no credentials, what was looked for."""
        return _telling(verb, self.root, path, _looked_for(self.root, self.settings))

    def _key(self, path: str) -> str:
        segments(path)
        prefix = _split(self.root)[1]
        return f"{prefix}/{path}".strip("/") if path else prefix

    def open(self, path: str) -> RangeReader:
        """Open a file for ranged reads."""
        self._count(Request.HEAD)
        with self._telling("read", path):
            size = obstore.head(self._store, self._key(path))["size"]
        return WindowReader(path, size, self.read_range)

    def read(self, path: str) -> bytes:
        """The whole content of a file."""
        self._count(Request.GET)
        with self._telling("read", path):
            return bytes(obstore.get(self._store, self._key(path)).bytes())

    def read_range(self, path: str, offset: int, length: int) -> bytes:
        """Bytes of a file that it has."""
        self._count(Request.GET)
        with self._telling("read", path):
            found = obstore.get_range(self._store, self._key(path), start=offset, length=length)
        return bytes(found)

    def put(self, path: str, data: Content) -> None:
        """Create a file by put-if-absent, which takes it in one request."""
        data = whole(data)
        if self.one_writer:
            if self._owner(path) is not None:
                raise FileTakenError.of(path)
            self._write(path, data, "overwrite", "")
            return
        token = secrets.token_hex(16)
        for _ in range(_TRIES):
            try:
                self._write(path, data, "create", token)
            except FileExistsError:
                lost = None
            except _LostAnswerError as error:
                lost = error
            else:
                return
            # The request may have been sent again without a word: it can meet its own object.
            try:
                owner = self._owner(path)
            except StorageError as error:
                raise StorageError(f"{lost or error}; it is unknown whether it was done") from None
            if owner == token:
                return
            if owner is not None:
                raise FileTakenError.of(path)
            # Nothing was stored, or it was deleted since: once more, under the same token.
        raise StorageError(str(lost or f"cannot write {path}: the store says that it exists"))

    def replace(self, path: str, data: bytes) -> None:
        """Write a file over what was there; doing it twice is doing it once."""
        self._write(path, data, "overwrite", "")

    def move(self, source: str, target: str) -> None:
        """Copy a file within the store and delete it; doing it twice is doing it once."""
        if self._owner(target) is not None:
            raise FileTakenError.of(target)
        self._count(Request.PUT)
        with self._telling("write", target):
            obstore.copy(self._store, self._key(source), self._key(target))
        self.delete(source)

    def _write(self, path: str, data: bytes, mode: PutMode, token: str) -> None:
        attributes: Any = {_TOKEN: token} if token else None
        store, key = self._store, self._key(path)
        self._count(Request.PUT)
        with self._telling("write", path):
            obstore.put(store, key, data, mode=mode, attributes=attributes, use_multipart=False)

    def _owner(self, path: str) -> str | None:
        """The token of the put that made a file; "" for another's, None where it is absent."""
        self._count(Request.HEAD)
        try:
            with self._telling("read", path):
                found = obstore.get(self._store, self._key(path), options={"head": True})
        except FileNotFoundError:
            return None
        return str(found.attributes.get(_TOKEN, ""))

    def delete(self, path: str) -> None:
        """Delete a file; some stores tell that it was absent, others do not."""
        self._count(Request.DELETE)
        with contextlib.suppress(FileNotFoundError), self._telling("delete", path):
            obstore.delete(self._store, self._key(path))

    def delete_tree(self, path: str) -> None:
        """Delete what is below a folder; see `delete_listed`."""
        self.delete_listed(path, lambda: None)

    def delete_listed(self, path: str, check: Callable[[], None]) -> None:
        """Delete what is below a folder now; what comes there meanwhile is another's, and stays.

        Objects stay that mark empty folders, as Hadoop's client makes them: their keys end with a
        slash, and obstore cannot spell such a key.

        Args:
            path: of the folder.
            check: called before each request to delete, after the listing: what it raises ends it.

        Raises:
            StorageError: a file stays although the store said that it was deleted.
        """
        tried: list[str] = []
        left = [status.path for status in self.walk(path)]
        while left and left != tried:
            tried, keys = left, [self._key(name) for name in left]
            check()
            self._count(Request.DELETE, requests.pages(len(keys)))
            with contextlib.suppress(FileNotFoundError), self._telling("delete", path):
                obstore.delete(self._store, keys)
            there = {status.path for status in self.walk(path)}
            left = [name for name in tried if name in there]
        for name in left:
            if self._owner(name) is not None:
                raise StorageError(f"cannot delete {self.root}/{name}: it is there again")

    def list(self, path: str) -> list[FileStatus]:
        """The files directly in a folder, sorted by name."""
        found = self._entries(path)["objects"]
        return sorted(map(self._status, found), key=lambda status: status.path)

    def _entries(self, path: str) -> ListResult[Sequence[ObjectMeta]]:
        """The objects directly in a folder, and the names of folders in it."""
        with self._telling("list", path):
            found = obstore.list_with_delimiter(self._store, self._key(path) or None)
        entries = len(found["objects"]) + len(found["common_prefixes"])
        self._count(Request.LIST, requests.pages(entries))
        return found

    def walk(self, path: str) -> Iterator[FileStatus]:
        """All files below a folder, ordered by path."""
        with self._telling("list", path):
            found = obstore.list(self._store, self._key(path) or None, chunk_size=1000).collect()
        self._count(Request.LIST, requests.pages(len(found)))
        yield from sorted(map(self._status, found), key=lambda status: status.path)

    def _status(self, entry: ObjectMeta) -> FileStatus:
        prefix, key = _split(self.root)[1], entry["path"]
        path = key[len(prefix) + 1 :] if prefix else key
        return FileStatus(path=path, size=entry["size"])

    def exists(self, path: str) -> bool:
        """Whether a file, or anything below a folder, is there."""
        if self._owner(path) is not None:
            return True
        self._count(Request.LIST)
        with self._telling("list", path):
            pages = obstore.list(self._store, self._key(path) or None, chunk_size=1)
            return any(pages)

    def time(self, since: int) -> int:
        """The store's date of the newest object in the `.hoodie` folder, or of one put now."""
        times = [entry["last_modified"].timestamp() for entry in self._entries(HOODIE)["objects"]]
        if int(max(times, default=0) * 1000) < since:
            path = f"{KEYMARK}/probe/{secrets.token_hex(8)}"
            self.put(path, b"")
            try:
                self._count(Request.HEAD)
                with self._telling("read", path):
                    head = obstore.head(self._store, self._key(path))
                times.append(head["last_modified"].timestamp())
            finally:
                self.delete(path)
        return int(max(times, default=0) * 1000)

    def sweep(self) -> None:
        """Nothing: an object that was not put whole is not there."""

    @contextlib.contextmanager
    def guard(self) -> Iterator[bool]:
        """Lock nothing; but refuse a store on which two writers would not see each other."""
        if not self.one_writer:
            _check_excludes(self.root, self)
        yield False


class _LostAnswerError(StorageError):
    """The store may have done what it was asked, or not."""


class _CannotError(StorageError):
    """The store knows no such operation."""


@functools.cache
def _split(root: str) -> tuple[str, str]:
    """The bucket's URL and the folder in it."""
    parts = urlsplit(root, allow_fragments=False)
    _, _, folder = root.removeprefix(f"{parts.scheme}://").partition("/")
    return f"{parts.scheme}://{parts.netloc}", folder.strip("/")


@functools.cache
def _connect(bucket: str, settings: tuple[tuple[str, str], ...]) -> ObjectStore:
    given = {**_DEFAULTS, **_client_of_surroundings(), **dict(settings)}
    client: Any = {
        name: _truth(name, given[name]) if name in _FLAGS else given[name]
        for name in CLIENT_SETTINGS
        if name in given
    }
    retry: Any = {
        "max_retries": _whole_number(RETRIES, given.pop(RETRIES)),
        "retry_timeout": timedelta(seconds=_whole_number(RETRY_SECONDS, given.pop(RETRY_SECONDS))),
    }
    config: Any = {name: text for name, text in given.items() if name not in CLIENT_SETTINGS}
    if bucket.startswith("memory:"):
        return MemoryStore()
    names = ", ".join(f"keymark.storage.{name}" for name in sorted(dict(settings))) or "none"
    try:
        return from_url(bucket, config=config, client_options=client, retry_config=retry)
    # The texts of obstore's errors may hold what was given.
    except UnknownConfigurationKeyError:
        raise InvalidOptionError(f"{bucket} has no such setting, one of {names}") from None
    except (BaseError, ValueError) as error:
        raise InvalidOptionError(
            f"{bucket}: {type(error).__name__} in the URL, in a setting ({names}) or in the "
            "environment"
        ) from None


def _truth(name: str, value: object) -> bool:
    """What obstore takes for true or false."""
    text = str(value).lower()
    if text not in _TRUE + _FALSE:
        raise InvalidOptionError(
            f"option keymark.storage.{name}: {text!r} is neither true nor false"
        )
    return text in _TRUE


def _whole_number(name: str, value: object) -> int:
    text = str(value)
    if not text.isdecimal() or len(text) > _DIGITS_MAX:
        raise InvalidOptionError(f"option keymark.storage.{name}: {text!r} is not a whole number")
    return int(text)


def _client_of_surroundings() -> dict[str, str]:
    """What obstore would read from the environment, were it not given settings of a client."""
    allow_http = os.environ.get("AWS_ALLOW_HTTP")
    return {} if allow_http is None else {"allow_http": allow_http}


@functools.cache
def _check_excludes(root: str, storage: ObjectStorage) -> None:
    """StorageError where a second put to one path is not refused; asked once a process."""
    path = f"{KEYMARK}/probe/{secrets.token_hex(8)}"
    try:
        storage.put(path, b"first")
        storage.put(path, b"second")
    except FileExistsError:
        return
    except _CannotError:
        pass
    finally:
        with contextlib.suppress(StorageError):
            storage.delete(path)
    raise StorageError(
        f"{root} cannot put if absent, so that two writers could take the same instant: where only "
        "one ever writes, say so by hoodie.write.concurrency.mode=single_writer"
    )


@contextlib.contextmanager
def _telling(verb: str, root: str, path: str, looked_for: str) -> Iterator[None]:
    """One line per error, by what the store said; nothing else of obstore's text.

    It can hold signed URLs.

    Args:
        verb: what is done.
        root: URL of the folder.
        path: in it.
        looked_for: what to say where the store refuses access; empty where there are credentials.
    """
    try:
        yield
    except FileNotFoundError:
        raise MissingFileError.of(path) from None
    except AlreadyExistsError:
        raise FileTakenError.of(path) from None
    except (GenericError, JoinError, TimeoutError) as error:
        raise _LostAnswerError(
            f"cannot {verb} {root}/{path}: {_reason(error, looked_for)}"
        ) from None
    except (NotSupportedError, NotImplementedError):
        raise _CannotError(f"cannot {verb} {root}/{path}: the store does not offer that") from None
    except (BaseError, ValueError, OSError) as error:
        raise StorageError(f"cannot {verb} {root}/{path}: {_reason(error, looked_for)}") from None


def _looked_for(root: str, settings: Mapping[str, str]) -> str:
    """The settings of credentials that S3 looks for, if none of them is given; else nothing."""
    if not root.startswith(("s3://", "s3a://")):
        return ""
    given = {name.lower().removeprefix("aws_") for name in (*settings, *os.environ)}
    if given.intersection(_CREDENTIALS):
        return ""
    return (
        "; no access key in keymark.storage.access_key_id and keymark.storage.secret_access_key, "
        "none in AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, and no role of this machine "
        "(~/.aws is not read; a public bucket needs keymark.storage.skip_signature set to true)"
    )


def _reason(error: Exception, looked_for: str) -> str:
    text = str(error)
    found = [match[1] for match in (_STATUS.search(text), _CODE.search(text)) if match]
    cause = _CAUSE.search(text)
    if not found and cause:
        found = [cause[1].strip()]
    reason = " ".join(found) or type(error).__name__
    refused = isinstance(error, PermissionDeniedError | UnauthenticatedError)
    return reason + (looked_for if refused or _LET_IN.search(text) else "")
