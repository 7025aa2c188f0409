"""Where jars come from: the user's own settings of Maven, Spark and Ivy. No address stands here.

In this order, the first that is set up decides:

1. `KEYMARK_MAVEN_URL`, a repository in Maven's layout (a mirror, or a `file:` URL);
2. the mirror of Maven Central in `~/.m2/settings.xml`, with the user and password of its server;
3. Ivy, as Spark brings it: with the settings that `spark.jars.ivySettings` in spark-defaults.conf
   names, or `~/.ivy2/ivysettings.xml`, or else Ivy's own, which ask Maven Central.
"""

from __future__ import annotations

import base64
import os
import re
from dataclasses import dataclass, field
from pathlib import Path
from xml.etree import ElementTree as ET

from keymark.harness.errors import HarnessError

MAVEN_URL = "KEYMARK_MAVEN_URL"
_CENTRAL = "central"
_VARIABLE = re.compile(r"\$\{env\.([^}]+)\}")
_IVY_SETTINGS = re.compile(r"^\s*spark\.jars\.ivySettings[\s=]+(\S+)\s*$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Repository:
    """A repository in Maven's layout.

    Args:
        url: of its root.
        headers: to send with each request; they may hold a password.
    """

    url: str
    headers: dict[str, str] = field(default_factory=dict, repr=False)


def repository() -> Repository | None:
    """The repository that the user names; None: Ivy is to be asked.

    Raises:
        HarnessError: Maven's settings cannot be read.
    """
    named = os.environ.get(MAVEN_URL)
    if named:
        return Repository(named.rstrip("/"))
    path = Path.home() / ".m2" / "settings.xml"
    if not path.is_file():
        return None
    try:
        settings = ET.fromstring(path.read_bytes())  # noqa: S314  the user's own file
    except (OSError, ET.ParseError) as error:
        raise HarnessError(f"{path} cannot be read: {error}") from error
    for element in settings.iter():
        element.tag = element.tag.rpartition("}")[2]
    mirrors = [m for m in settings.iterfind("mirrors/mirror") if m.findtext("blocked") != "true"]
    # An exact name goes before a pattern, as in Maven.
    mirrors.sort(key=lambda mirror: (mirror.findtext("mirrorOf") or "").strip() != _CENTRAL)
    for mirror in mirrors:
        if _mirrors_central(mirror.findtext("mirrorOf") or ""):
            url = _text(mirror, "url").rstrip("/")
            return Repository(url, _headers(settings, _text(mirror, "id")))
    return None


def ivy_settings() -> Path | None:
    """The user's settings of Ivy; None for Ivy's own."""
    folder = os.environ.get("SPARK_CONF_DIR") or f"{os.environ.get('SPARK_HOME', '')}/conf"
    defaults = Path(folder, "spark-defaults.conf")
    found = _IVY_SETTINGS.search(defaults.read_text("utf-8")) if defaults.is_file() else None
    if found is not None:
        return Path(found.group(1))
    own = Path.home() / ".ivy2" / "ivysettings.xml"
    return own if own.is_file() else None


def _mirrors_central(patterns: str) -> bool:
    """Whether `mirrorOf` covers Maven Central, which is external and speaks HTTPS."""
    names = [name.strip() for name in patterns.split(",")]
    return f"!{_CENTRAL}" not in names and bool({"*", "external:*", _CENTRAL} & set(names))


def _headers(settings: ET.Element, name: str) -> dict[str, str]:
    """The login of the server of that name, if it has a plain password."""
    for server in settings.iterfind("servers/server"):
        user, password = _text(server, "username"), _text(server, "password")
        if _text(server, "id") == name and user and not password.startswith("{"):
            login = base64.b64encode(f"{user}:{password}".encode()).decode("ascii")
            return {"Authorization": f"Basic {login}"}
    return {}


def _text(element: ET.Element, name: str) -> str:
    """A value with the environment's variables put in."""
    text = (element.findtext(name) or "").strip()
    return _VARIABLE.sub(lambda found: os.environ.get(found.group(1), found.group()), text)
