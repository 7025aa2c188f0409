"""Jars of other engines: where they are kept, and how they get there.

A jar is downloaded once, by an explicit command, into the user's cache (`$XDG_CACHE_HOME` or
`~/.cache`, there `keymark/jars`), from a repository in Maven's layout. The repository is Maven
Central, or what the environment variable `KEYMARK_MAVEN_URL` names (a mirror, or a `file:` URL).
Nothing is ever downloaded by a run.
"""

from __future__ import annotations

import hashlib
import os
import re
import tempfile
from collections.abc import Callable
from http.client import HTTPException
from pathlib import Path
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.request import urlopen

from harness.errors import HarnessError

MAVEN_URL = "KEYMARK_MAVEN_URL"
MAVEN_CENTRAL = "https://repo.maven.apache.org/maven2"

_GROUP, _ARTIFACT = "org/apache/hudi", "hudi-spark3.5-bundle_2.12"
_BUNDLE = re.compile(re.escape(_ARTIFACT) + r"-(\d+\.\d+\.\d+)\.jar")
_CHUNK = 1 << 20
_TIMEOUT_S = 60
_HTTP_NOT_FOUND = 404

Told = Callable[[int, int], None]
"""Is told the bytes that came and the bytes that are to come in all (0 if unknown)."""


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
    """One line that says how to get a bundle that is not in the cache; None if it is there."""
    if bundle(version).is_file():
        return None
    return (
        f"Hudi {version} is not in the cache; get it once by: "
        f"run_bench.py engine install hudi@{version}"
    )


def install(version: str, told: Told) -> Path:
    """Put a bundle into the cache, checked against the repository's SHA-1; returns its path.

    Raises:
        HarnessError: the repository lacks it, cannot be reached, or sent something else.
    """
    target = bundle(version)
    if target.is_file():
        return target
    base = os.environ.get(MAVEN_URL) or MAVEN_CENTRAL
    url = f"{base.rstrip('/')}/{_GROUP}/{_ARTIFACT}/{version}/{target.name}"
    try:
        return _download(url, target, told)
    except HTTPError as error:
        if error.code == _HTTP_NOT_FOUND:
            raise HarnessError(f"there is no Hudi {version} for Spark 3.5 ({url})") from error
        raise HarnessError(f"{url}: HTTP {error.code} {error.reason}") from error
    except URLError as error:
        raise HarnessError(
            f"{url}: {error.reason}; another repository is named by {MAVEN_URL}"
        ) from error
    except (OSError, HTTPException) as error:
        raise HarnessError(f"{url}: the download broke off: {error!r}") from error


def _download(url: str, target: Path, told: Told) -> Path:
    with _opened(f"{url}.sha1") as answer:
        expected = answer.read(_CHUNK).decode("ascii", errors="replace").split()[:1]
    target.parent.mkdir(parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    part = Path(name)
    try:
        with _opened(url) as answer, os.fdopen(descriptor, "wb") as file:
            found = _copied(answer, file, told)
        if [found] != expected:
            raise HarnessError(f"{url} has SHA-1 {found}, not {' '.join(expected) or 'any'}")
        part.chmod(0o644)
        return part.replace(target)
    finally:
        part.unlink(missing_ok=True)


def _copied(answer: Any, file: Any, told: Told) -> str:
    """Copy a response (binary, with headers) to a file; its SHA-1 in hex."""
    total, come = int(answer.headers.get("Content-Length") or 0), 0
    digest = hashlib.sha1(usedforsecurity=False)  # what Maven's layout offers
    while chunk := answer.read(_CHUNK):
        digest.update(chunk)
        file.write(chunk)
        come += len(chunk)
        told(come, total)
    return digest.hexdigest()


def _opened(url: str) -> Any:
    return urlopen(url, timeout=_TIMEOUT_S)  # noqa: S310  the user's own choice of repository
