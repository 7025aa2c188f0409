"""House numbers and house words, as tests; columns and parameters are ruff's part."""

from __future__ import annotations

import ast
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = ("table", "indexes", "datasets", "harness", "reports")
FUNCTION_LINES_MAX = 70
FILE_LINES_MAX = 500

SOURCES = [path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py"))]
SOURCES.append(ROOT / "run_bench.py")
TESTS = [p for p in sorted((ROOT / "tests").rglob("*.py")) if "data" not in p.parts]

# Put together here, so that this file does not hold them.
PLACES = re.compile(r"(?<![\w.])/(wo" + r"rk/(main|shared)|tm" + r"p/(oracle|fx))")
WORDS = re.compile(r"\b(TO" + r"DO|FIX" + r"ME|XX" + r"X|HA" + r"CK)\b")


def _id(path: Path) -> str:
    return str(path.relative_to(ROOT))


def _functions(path: Path) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    return [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, kinds)]


@pytest.mark.parametrize("path", [*SOURCES, *TESTS], ids=_id)
def test_sizes(path):
    lines = path.read_text().splitlines()
    assert len(lines) <= FILE_LINES_MAX, f"{len(lines)} lines"
    for function in _functions(path):
        length = function.end_lineno - function.lineno + 1
        assert length <= FUNCTION_LINES_MAX, f"{function.name} has {length} lines"


@pytest.mark.parametrize("path", SOURCES, ids=_id)
def test_only_command_lines_print(path):
    if path.name in ("cli.py", "run_bench.py"):
        return
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            assert node.func.id != "print", f"line {node.lineno} prints"


@pytest.mark.parametrize("path", SOURCES, ids=_id)
def test_docstrings(path):
    """Each module, and each public class and function of it, says what it is."""
    tree = ast.parse(path.read_text())
    assert ast.get_docstring(tree), "no docstring"
    public = (ast.FunctionDef, ast.ClassDef)
    for node in tree.body:
        if isinstance(node, public) and not node.name.startswith("_"):
            assert ast.get_docstring(node), f"{node.name} has no docstring"


def test_no_words_of_a_workplace():
    """No path of one machine, no unfinished note, in any file that is text."""
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True
    ).stdout.decode()
    for name in filter(None, listed.split("\0")):
        path = ROOT / name
        if not path.is_file():
            continue
        try:
            text = path.read_text("utf-8")
        except UnicodeDecodeError:
            continue
        for pattern in (PLACES, WORDS):
            match = pattern.search(text)
            assert match is None, f"{name} says {match[0]!r}"
