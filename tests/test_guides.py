"""Every command that a page shows exists, with each of its options."""

from __future__ import annotations

import functools
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import typer.main

from keymark.cli import COMMANDS, application

ROOT = Path(__file__).parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), ROOT / "tests" / "README.md"])
# It names commands that are no more.
PAGES.remove(ROOT / "CHANGELOG.md")

_BLOCK = re.compile(r"^```\w*\n(.*?)^```", re.DOTALL | re.MULTILINE)
_INLINE = re.compile(r"`(keymark [^`]+)`")
_START = re.compile(r"(?:(?<![\w/.-])|\.venv/bin/)keymark (?=[a-z-])|\brun_bench\.py (?=[a-z])")
# What ends a command in a line: a comment, another command, a pipe.
_END = re.compile(r" {2,}|&&|\|\||[;|]")


def commands(text: str) -> list[str]:
    """The commands of a page, without the program's name and without comments."""
    blocks = _BLOCK.findall(text)
    lines = [line for block in blocks for line in re.sub(r" *\\\n *", " ", block).splitlines()]
    words = re.sub(r"\s+", " ", _BLOCK.sub("", text))
    found = []
    for line in [*lines, *_INLINE.findall(words)]:
        start = _START.search(line)
        if start is not None:
            found.append(_END.split(line[start.end() :], maxsplit=1)[0].strip())
    return found


@functools.cache
def top(name: str) -> Any:
    """A command of `keymark`."""
    return typer.main.get_command(application(name))


def mistake(text: str) -> str:
    """What is wrong with a command; empty if nothing is."""
    try:
        words = shlex.split(text)
    except ValueError:
        words = text.split()
    words = words[words[:1] == ["-v"] :]
    if not words or not re.fullmatch(r"[a-z]+", words[0]) or words[0] == "import":
        return ""
    if words[0] not in COMMANDS:
        return f"no command {words[0]}"
    command, rest = top(words[0]), words[1:]
    while groups := getattr(command, "commands", None):
        if not rest or not re.fullmatch(r"[a-z][a-z-]*", rest[0]):
            return ""
        if rest[0] not in groups:
            return f"{words[0]} has no {rest[0]}"
        command, rest = groups[rest[0]], rest[1:]
    known = {name for each in command.params for name in (*each.opts, *each.secondary_opts)}
    options = {found[0] for word in rest if (found := re.match(r"--[a-z0-9-]+", word))}
    known.add("--help")
    return ", ".join(f"no option {name}" for name in sorted(options - known))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page_shows_commands_that_exist(page):
    found = {text: mistake(text) for text in commands(page.read_text(encoding="utf-8"))}
    assert {text: wrong for text, wrong in found.items() if wrong} == {}


def test_commands_that_do_not_exist_are_seen():
    page = "```\nkeymark tabel create x      a comment\nkeymark run ci \\\n    --bugdet 10m\n```\n"
    page += "Run `keymark table\nindex bild` and `keymark data write trips --rows 5`."
    assert [mistake(each) for each in commands(page)] == [
        "no command tabel",
        "no option --bugdet",
        "table has no bild",
        "no option --rows",
    ]


def test_pages_show_many_commands():
    assert sum(len(commands(page.read_text(encoding="utf-8"))) for page in PAGES) > 200


def test_pages_name_verbs_of_make_that_exist():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    verbs = set(re.findall(r"^([a-z0-9-]+):", makefile, re.MULTILINE))
    named = re.compile(r"(?:^|`)make ([a-z][a-z0-9-]*)", re.MULTILINE)
    found = {verb for page in PAGES for verb in named.findall(page.read_text(encoding="utf-8"))}
    assert len(found) > 10
    assert found - verbs == set()
