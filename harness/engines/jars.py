"""Jars of other engines: where they are kept, and how they get there.

A jar is downloaded once, by an explicit command, into the user's cache (`$XDG_CACHE_HOME` or
`~/.cache`, there `keymark/jars`), from the user's repositories (`repositories.py`). Nothing is ever
downloaded by a run.
"""

from __future__ import annotations

import hashlib
import os
import re
import tempfile
from collections.abc import Callable
from contextlib import AbstractContextManager
from http.client import HTTPException, HTTPResponse
from importlib import metadata
from pathlib import Path
from typing import BinaryIO
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen
from urllib.response import addinfourl

from keymark.harness.engines import hudi_releases, ivy
from keymark.harness.engines.repositories import MAVEN_URL, Repository, repository
from keymark.harness.errors import HarnessError

SPARK = "3.5"
_GROUP, _ARTIFACT = "org/apache/hudi", f"hudi-spark{SPARK}-bundle_2.12"
_BUNDLE = re.compile(re.escape(_ARTIFACT) + r"-(\d+\.\d+\.\d+)\.jar")
_CHUNK = 1 << 20
_TIMEOUT_S = 60
_HTTP_NOT_FOUND = 404

ShowBytes = Callable[[int, int], None]
"""Receives the bytes that came and the bytes that are to come in all (0 if unknown)."""

Download = Callable[[str], AbstractContextManager[ShowBytes]]
"""Shows the download of a jar of that name."""

Jar = tuple[str, str, str]
"""Maven coordinates: group as a path, artifact, version."""


def folder() -> Path:
    """Where jars are kept."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "keymark" / "jars"


def bundle(version: str) -> Path:
    """Where Hudi's bundle of a version is, or would be."""
    return folder() / f"{_ARTIFACT}-{version}.jar"


def installed() -> tuple[str, ...]:
    """The versions of Hudi whose bundles are in the cache, ascending."""
    matches = (_BUNDLE.fullmatch(path.name) for path in folder().glob("*.jar"))
    found = (match.group(1) for match in matches if match)
    return tuple(sorted(found, key=lambda text: [int(part) for part in text.split(".")]))


def missing_bundle(version: str) -> str | None:
    """One line that says why a bundle cannot be used, or how to get it; None if it is there."""
    spark = metadata.version("pyspark")
    if not spark.startswith(f"{SPARK}."):
        return (
            f"Hudi {version} is used through its bundle for Spark {SPARK}; this is {spark}, and an "
            f"environment with PySpark {SPARK} measures it"
        )
    if bundle(version).is_file():
        return None
    command = f"get it once by: keymark engine install hudi@{version}"
    return f"Hudi {version} is not in the cache; {command}{_others(version)}"


def _others(version: str) -> str:
    """The releases that have a bundle, where this one is not known to have one."""
    known = hudi_releases.BUNDLED
    return "" if version in known else f" (known for Spark {SPARK} are {', '.join(known)})"


def install(version: str, show: ShowBytes) -> Path:
    """Put a bundle into the cache, checked against the repository's SHA-1; returns its path.

    Raises:
        HarnessError: the repository lacks it, cannot be reached, or sent something else.
    """
    target = bundle(version)
    if target.is_file():
        return target
    try:
        return _get((_GROUP, _ARTIFACT, version), target, show)
    except HarnessError as error:
        raise HarnessError(f"{error}{_others(version)}") from error


def kept(jar: Jar, place: str) -> Path:
    """Where a jar is in a folder of that name in the cache, or would be."""
    _, artifact, version = jar
    return folder() / place / f"{artifact}-{version}.jar"


def fetch(jar: Jar, place: str, download: Download) -> Path:
    """Put a jar into a folder of that name in the cache, unless it is there; returns its path.

    Raises:
        HarnessError: as `install`.
    """
    target = kept(jar, place)
    if target.is_file():
        return target
    with download(target.name) as show:
        return _get(jar, target, show)


def _get(jar: Jar, target: Path, show: ShowBytes) -> Path:
    """Put a jar at its place, from the user's repository or by Ivy; only the whole jar appears."""
    source = repository()
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=f".{target.name}.") as name:
        folder = Path(name)
        if source is None:
            return ivy.get(jar, folder, show).replace(target)
        return _download(source, jar, folder / target.name, show).replace(target)


def _download(source: Repository, jar: Jar, part: Path, show: ShowBytes) -> Path:
    """Download a jar and compare its SHA-1; whatever goes wrong is one line."""
    group, artifact, version = jar
    url = f"{source.url}/{group}/{artifact}/{version}/{artifact}-{version}.jar"
    try:
        with _opened(f"{url}.sha1", source) as answer:
            expected = answer.read(_CHUNK).decode("ascii", errors="replace").split()[:1]
        with _opened(url, source) as answer, part.open("wb") as file:
            found = _copied(answer, file, show)
    except HTTPError as error:
        if error.code == _HTTP_NOT_FOUND:
            raise HarnessError(f"there is no {artifact} {version} ({url})") from error
        raise HarnessError(f"{url}: HTTP {error.code} {error.reason}") from error
    except URLError as error:
        raise HarnessError(
            f"{url}: {error.reason}; another repository is named by {MAVEN_URL}"
        ) from error
    except (OSError, HTTPException) as error:
        raise HarnessError(f"{url}: the download broke off: {error!r}") from error
    if [found] != expected:
        raise HarnessError(f"{url} has SHA-1 {found}, not {' '.join(expected) or 'any'}")
    return part


def _copied(answer: HTTPResponse | addinfourl, file: BinaryIO, show: ShowBytes) -> str:
    """Copy a response to a file; its SHA-1 in hex."""
    total, come = int(answer.headers.get("Content-Length") or 0), 0
    digest = hashlib.sha1(usedforsecurity=False)  # what Maven's layout offers
    while chunk := answer.read(_CHUNK):
        digest.update(chunk)
        file.write(chunk)
        come += len(chunk)
        show(come, total)
    return digest.hexdigest()


def _opened(url: str, source: Repository) -> HTTPResponse | addinfourl:
    request = Request(url, headers=source.headers)  # noqa: S310 - user's choice
    got: HTTPResponse | addinfourl = urlopen(request, timeout=_TIMEOUT_S)  # noqa: S310 - as above
    return got
