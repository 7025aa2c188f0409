"""Keeping secrets out of files, reports and terminals: the one definition of a secret.

A secret is the value of an option, variable or argument whose name says so; the user part of a URL;
what has the form of a well-known key or token; and the value of each such variable of this
process's environment, wherever it turns up.
"""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

REDACTED = "*(redacted)*"

# All settings of a store count: which of them are secret depends on the store.
SENSITIVE = (
    r"secret|passw|passphrase|pwd|token|credential|signature|authorization|x-api-key|"
    r"(?:access|account|api|private|shared|encryption)[._-]?key|keymark\.storage\."
)
# `hudi@0.15.0` after a host with a port is not a user name.
USER_PART = r"(?<=://)(?:[^\s/]*|[^\s/@:]*:(?!\d+/)[^\s@]*)@"
_FORMS = (
    r"\b(?:AKIA|ASIA)[0-9A-Z]{16}\b|\bgh[pousr]_[A-Za-z0-9]{36,}|\bsk-[A-Za-z0-9_-]{20,}|"
    r"\beyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]+|"
    r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|$)"
)
SPARK_REGEX = f"(?i){SENSITIVE}|{USER_PART}"
"""For `spark.redaction.regex`: Spark redacts a value if its name or the value itself matches."""

SPARK_TEXT_REGEX = rf"(?i){USER_PART}|(?:{SENSITIVE})[\w.-]*\s*[=:]\s*\S+"
"""For `spark.redaction.string.regex`: what is replaced in texts, such as plans."""

_NAME = re.compile(SENSITIVE, re.IGNORECASE)
_USER_PART = re.compile(USER_PART)
_SHORTEST = 6
"""Values of variables that are shorter are words that mean something else elsewhere."""
_ASSIGNED = re.compile(
    rf"""((?:{SENSITIVE}|\bsig|\bpass)[\w.-]*["']?\s*(?:=>|[=:])\s*(?:bearer\s+|basic\s+)?+)"""
    r"""(?!["']?\*+\(redacted\))("[^"]*"|'[^']*'|[^\s"',;&)}\]]+)""",
    re.IGNORECASE,
)
_FORMED = re.compile(_FORMS, re.DOTALL)
_ARGUMENT = re.compile(rf"((?:{SENSITIVE})[^=]*=).*", re.IGNORECASE | re.DOTALL)


def is_sensitive(name: str) -> bool:
    """Whether the value of a name is a secret."""
    return _NAME.search(name) is not None


def redact_text(text: str) -> str:
    """A text, such as an error, without the secrets in it."""
    return _without(_secrets(), text) if text else text


def terminal_text(text: str) -> str:
    """A text fit for one line of a terminal: no secrets, and what could steer it is escaped."""
    line = redact_text(" ".join(text.split()))
    return "".join(
        letter if letter.isprintable() else letter.encode("unicode_escape").decode()
        for letter in line
    )


def redact_arguments(arguments: Iterable[str]) -> list[str]:
    """A command line fit for a file: what follows `=` after a secret's name is left out."""
    return [redact_text(_ARGUMENT.sub(rf"\1{REDACTED}", argument)) for argument in arguments]


def redact(values: Mapping[str, str]) -> dict[str, str]:
    """Options fit for a file, ordered by name."""
    return {
        key: REDACTED if is_sensitive(key) else redact_text(value)
        for key, value in sorted(values.items())
    }


def redact_document(value: object) -> Any:
    """A document of JSON's types, at any depth."""
    return _document_without(_secrets(), value)


def _document_without(secrets: Sequence[str], value: object) -> Any:
    if isinstance(value, Mapping):
        return {
            _without(secrets, key): (
                REDACTED if is_sensitive(key) else _document_without(secrets, inner)
            )
            for key, inner in value.items()
        }
    if isinstance(value, list | tuple):
        return [_document_without(secrets, inner) for inner in value]
    return _without(secrets, value) if isinstance(value, str) else value


def _without(secrets: Sequence[str], text: str) -> str:
    """A text without these secrets, and without what has the form of one."""
    for secret in secrets:
        text = text.replace(secret, REDACTED)
    text = _FORMED.sub(REDACTED, _USER_PART.sub("", text))
    return _ASSIGNED.sub(rf"\1{REDACTED}", text)


def _secrets() -> list[str]:
    """The values of variables that are secrets, the longest first.

    This takes as long as all else that is done to a short text, so a document asks once.
    """
    values = {os.environ[name] for name in os.environ if _is_sensitive_variable(name)}
    found = (each for each in values if len(each) >= _SHORTEST and not each.startswith("/"))
    return sorted(found, key=len, reverse=True)


# Every text that is shown asks for each variable.
_is_sensitive_variable = functools.lru_cache(maxsize=1000)(is_sensitive)
