"""Hadoop's client for one file system, as Java objects, and what it costs to talk to them.

Every call is a request over a local connection, tenths of a millisecond each. So classes are looked
up once, a listing comes in one piece, and much data goes through a local file: as text, which is
how Py4J carries bytes, it is tens of megabytes a second.
"""

from __future__ import annotations

import contextlib
import functools
import tempfile
from dataclasses import dataclass
from types import SimpleNamespace
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from py4j.protocol import Py4JError

from keymark.table.errors import StorageError
from keymark.table.format.coding import ByteCursor
from keymark.table.runtime import jvm

if TYPE_CHECKING:
    from py4j.java_collections import JavaArray
    from py4j.java_gateway import JavaGateway, JavaObject

SMALL = 32 << 10
"""Bytes that are carried as text; more goes through a file."""

_LONGEST_TOLD = 200
_FILE = 2
# What name nodes say, as an AccessControlException, of a path that goes through a file.
_NO_FOLDER = "(is not a directory)"
_CLASSES = (
    *("java.io.ByteArrayOutputStream", "java.io.DataOutputStream", "java.io.File"),
    *("java.io.FileOutputStream", "java.net.URI", "java.nio.file.Files", "java.util.EnumSet"),
    *(f"org.apache.hadoop.fs.{name}" for name in ("CreateFlag", "FileContext", "FileSystem")),
    *("org.apache.hadoop.fs.Options", "org.apache.hadoop.fs.Path"),
    *("org.apache.hadoop.fs.permission.FsPermission", "org.apache.hadoop.io.ObjectWritable"),
    "org.apache.commons.io.IOUtils",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Hadoop:
    """Java objects of one file system.

    Attributes:
        java: Java's classes by their simple names.
        context: its FileContext.
        base: scheme and host.
        creates: options of a creation.
        renames: options of a rename that refuses, and of one over a file.
    """

    java: SimpleNamespace
    context: JavaObject
    base: str
    creates: JavaArray
    renames: tuple[JavaArray, JavaArray]

    def path(self, absolute: str) -> JavaObject:
        """A Java Path."""
        return self.java.Path(self.base + absolute)

    def make_folder(self, folder: JavaObject) -> None:
        """Make a folder (Java Path) and those above it."""
        default = self.java.FsPermission.getDirDefault()
        self.context.mkdir(folder, default, True)  # noqa: FBT003  Java's

    def create(self, file: JavaObject, data: bytes) -> None:
        """Write a new file (Java Path) and sync it, with the folders that it needs."""
        once = self.java.EnumSet.of(self.java.CreateFlag.CREATE)
        stream = self.context.create(file, once, self.creates)
        try:
            if len(data) <= SMALL:
                stream.write(data)
            else:
                with tempfile.NamedTemporaryFile() as local:
                    local.write(data)
                    local.flush()
                    self.java.Files.copy(self.java.File(local.name).toPath(), stream)
            stream.hsync()
        except BaseException:
            with contextlib.suppress(Py4JError):
                stream.close()
            raise
        stream.close()

    def rest(self, stream: JavaObject, length: int) -> bytes:
        """The next bytes of a Java stream, at most `length`."""
        with tempfile.NamedTemporaryFile() as local:
            target = self.java.FileOutputStream(local.name)
            try:
                self.java.IOUtils.copyLarge(stream, target, 0, length)
            finally:
                target.close()
            return local.read()

    def listing(self, folder: JavaObject) -> list[tuple[str, int, int, bool]]:
        """What is in a folder (Java Path): path, size, modified, whether it is a file.

        All of it comes at once, in Hadoop's own serialization: ObjectWritable of an array, in it
        FileStatusProto of FileStatus.proto.
        """
        found = self.context.util().listStatus(folder)
        sink = self.java.ByteArrayOutputStream()
        self.java.ObjectWritable(found).write(self.java.DataOutputStream(sink))
        cursor = ByteCursor(bytes(sink.toByteArray()), "a listing of Hadoop's")
        _text(cursor)
        return [_status(cursor) for _ in range(cursor.int32())]


def _status(cursor: ByteCursor) -> tuple[str, int, int, bool]:
    _text(cursor), _text(cursor)
    fields = dict(ByteCursor(cursor.take(cursor.int32()), "a status of Hadoop's").protobuf())
    url = _delimited(fields[2]).decode()
    _, _, path = url.partition(":")
    if path.startswith("//"):
        path = "/" + path[2:].partition("/")[2]
    return path, int(fields.get(3, 0)), int(fields.get(7, 0)), fields[1] == _FILE


def _delimited(value: int | bytes) -> bytes:
    assert isinstance(value, bytes)
    return value


def _text(cursor: ByteCursor) -> bytes:
    """A text with its length in two bytes before it."""
    return cursor.take(int.from_bytes(cursor.take(2), "big"))


@functools.cache
def connect(root: str, settings: tuple[tuple[str, str], ...], door: JavaGateway) -> Hadoop:
    """The client for the file system of a URL; one for each in a process.

    Args:
        root: the URL.
        settings: of Hadoop's, name and value.
        door: the gateway into the JVM.

    Raises:
        StorageError: the URL names no host, and Hadoop's configuration none for it.
    """
    # To look a class up takes a request for each part of its name.
    java = SimpleNamespace(
        **{
            name.rpartition(".")[2]: functools.reduce(getattr, name.split("."), door.jvm)
            for name in _CLASSES
        }
    )
    conf = jvm.configuration(door)
    for name, value in settings:
        conf.set(name, value)
    parts = urlsplit(root, allow_fragments=False)
    base = f"{parts.scheme}://{parts.netloc}"
    if not parts.netloc:
        default = java.FileSystem.getDefaultUri(conf)
        if default.getScheme() != parts.scheme:
            raise StorageError(f"{root} names no host, nor does Hadoop's fs.defaultFS")
        base += default.getAuthority() or ""
    made = door.new_array(java.Options.CreateOpts, 1)
    made[0] = java.Options.CreateOpts.createParent()
    over = door.new_array(java.Options.Rename, 1)
    over[0] = java.Options.Rename.OVERWRITE
    return Hadoop(
        java=java,
        context=java.FileContext.getFileContext(java.URI(f"{base}/"), conf),
        base=base,
        creates=made,
        renames=(door.new_array(java.Options.Rename, 0), over),
    )


def java_error(error: Exception) -> JavaObject | None:
    """The Java exception that an error brings; None where it brings none.

    Where a session of Spark was started, PySpark raises errors of its own for some classes.
    """
    return getattr(error, "java_exception", None) or getattr(error, "_origin", None)


def class_and_message(error: JavaObject) -> tuple[str, str]:
    """The simple name of a Java exception's class, and that with the first line of its text.

    Of others than errors of input and output the text may repeat a setting.
    """
    while (cause := error.getCause()) is not None and "IOException" not in _kinds(error):
        error = cause
    name = str(error.getClass().getName())
    if name.endswith(".RemoteException"):
        name = str(error.getClassName())
    lines = str(error.getMessage() or "").splitlines()
    name = name.rpartition(".")[2].rpartition("$")[2]
    if lines and lines[0].endswith(_NO_FOLDER):
        name = "ParentNotDirectoryException"
    if not lines or "IOException" not in _kinds(error):
        return name, name
    return name, f"{name}: {lines[0][:_LONGEST_TOLD]}"


def _kinds(error: JavaObject) -> list[str]:
    """The simple names of a Java object's class and of those that it extends."""
    kind, found = error.getClass(), []
    while kind is not None:
        found.append(str(kind.getSimpleName()))
        kind = kind.getSuperclass()
    return found
