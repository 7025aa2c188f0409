"""Pages of results name the published runs that their numbers are from, and how to repeat them."""

from __future__ import annotations

import re
from pathlib import Path

from keymark.harness.scenario.documents import builtin_names

ROOT = Path(__file__).parents[2]
PAGES = [
    ROOT / "docs" / "which_index.md",
    *sorted((ROOT / "docs" / "results").glob("*.md")),
]
PUBLISHED = {path.parent.name for path in (ROOT / "results").glob("*/run.json")}

_RUN_ID = re.compile(r"\b\d{8}T\d{6}-\w+")
_SCENARIO = re.compile(r"(?:keymark|run_bench\.py) run (\w+)")
_OWN_COMMAND = re.compile(r"python tests/\S+\.py|make (?:test-\w+|interop|hbase|gate)\b")
_FIGURE = re.compile(r"\d (?:%|times)")


def name(page):
    return str(page.relative_to(ROOT))


def scenarios(text):
    """The built-in scenarios that a text says were run."""
    return set(_SCENARIO.findall(text)) & set(builtin_names())


def runs(text):
    """The published runs that a text names."""
    return set(_RUN_ID.findall(text)) & PUBLISHED


def of_scenario(run_id):
    return run_id.partition("-")[2]


def test_a_run_that_a_page_names_is_published():
    strange = {
        (name(page), run_id)
        for page in (ROOT / "README.md", *PAGES)
        for run_id in set(_RUN_ID.findall(page.read_text())) - PUBLISHED
    }
    assert strange == set()


def test_every_page_names_the_runs_of_its_scenarios():
    lacking = {}
    for page in PAGES:
        text = page.read_text()
        found = scenarios(text) - {of_scenario(run_id) for run_id in runs(text)}
        if found:
            lacking[name(page)] = found
    assert lacking == {}


def test_every_page_says_how_its_numbers_were_made():
    silent = [
        name(page)
        for page in PAGES
        if not (scenarios(page.read_text()) or _OWN_COMMAND.search(page.read_text()))
    ]
    assert silent == []


def test_every_figure_of_the_readme_names_its_run():
    figures = [
        part for part in (ROOT / "README.md").read_text().split("\n\n") if _FIGURE.search(part)
    ]
    assert len(figures) >= 2
    assert [part for part in figures if not runs(part)] == []
