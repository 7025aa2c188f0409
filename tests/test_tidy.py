"""House numbers and house words, as tests; columns and parameters are ruff's part."""

from __future__ import annotations

import ast
import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGES = ("table", "indexes", "datasets", "harness", "reports")
FUNCTION_LINES_MAX = 70
FILE_LINES_MAX = 500
WRITE_LINES_MAX = 45

SOURCES = [path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py"))]
SOURCES += [*sorted((ROOT / "keymark").glob("*.py")), ROOT / "run_bench.py"]
TESTS = [p for p in sorted((ROOT / "tests").rglob("*.py")) if "data" not in p.parts]

# Put together here, so that this file does not hold them.
PLACES = re.compile(r"(?<![\w.])/(wo" + r"rk/(main|shared)|tm" + r"p/(oracle|fx))")
WORDS = re.compile(r"\b(TO" + r"DO|FIX" + r"ME|XX" + r"X|HA" + r"CK)\b")


def _id(path: Path) -> str:
    return str(path.relative_to(ROOT))


def _functions(path: Path) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    return [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, kinds)]


def test_no_file_is_longer_than_a_reader_can_hold():
    lengths = {_id(path): len(path.read_text().splitlines()) for path in (*SOURCES, *TESTS)}
    assert {name: lines for name, lines in lengths.items() if lines > FILE_LINES_MAX} == {}


def test_no_function_is_longer_than_a_reader_can_hold():
    long = [
        f"{_id(path)}:{function.lineno} {function.name}"
        for path in (*SOURCES, *TESTS)
        for function in _functions(path)
        if function.end_lineno - function.lineno >= FUNCTION_LINES_MAX
    ]
    assert long == []


def test_only_command_lines_print():
    printing = [
        f"{_id(path)}:{node.lineno}"
        for path in SOURCES
        if path.name not in ("cli.py", "run_bench.py") and path.parent.name != "cli"
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id == "print"
    ]
    assert printing == []


def test_modules_and_what_is_public_in_them_say_what_they_are():
    silent = []
    for path in SOURCES:
        tree = ast.parse(path.read_text())
        public = (ast.FunctionDef, ast.ClassDef)
        named = [n for n in tree.body if isinstance(n, public) and not n.name.startswith("_")]
        silent += [f"{_id(path)}: {node.name}" for node in named if not ast.get_docstring(node)]
        silent += [] if ast.get_docstring(tree) else [_id(path)]
    assert silent == []


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


def test_links_between_pages_lead_somewhere():
    broken = []
    for page in [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("tests/**/*.md")]:
        text = re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)
        for link in re.findall(r"\]\(([^)\s]+)\)", text):
            target, _, anchor = link.partition("#")
            other = (page.parent / target) if target else page
            if ":" in target or (other.suffix != ".md" and other.exists()):
                continue
            if not other.exists() or (anchor and anchor not in _anchors(other)):
                broken.append(f"{_id(page)}: {link}")
    assert broken == []


def test_a_block_of_commands_has_one_a_line():
    """A tool that wraps lines must not touch them."""
    command = re.compile(r"\w +(?:(?:\.venv/bin/)?keymark (?!import)[a-z]+ |make [a-z-]+  )")
    joined = []
    for page in [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("tests/**/*.md")]:
        for block in re.findall(r"^```\w*\n(.*?)^```", page.read_text(), re.DOTALL | re.MULTILINE):
            lines = block.splitlines()
            joined += [f"{_id(page)}: {line}" for line in lines if command.search(line)]
    assert joined == []


def _anchors(page: Path) -> set[str]:
    """The names of a page's headings, as they stand in links."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", each.lower()).replace(" ", "-") for each in headings}


def test_a_write_is_read_from_top_to_bottom():
    """Each write is one short function, with no function inside it and none handed down."""
    writes = {
        "table/write/client.py": {"upsert", "insert", "delete", "delete_found"},
        "table/write/bulk.py": {"bulk_insert"},
        "table/services/rewrite.py": {"_rewrite"},
        "table/services/recover/restore.py": {"_take_back"},
    }
    wrong, inner = [], (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
    for place, names in writes.items():
        functions = {f.name: f for f in _functions(ROOT / place)}
        for function in (functions[name] for name in sorted(names)):
            nested = [n for n in ast.walk(function) if isinstance(n, inner) and n is not function]
            if nested or function.end_lineno - function.lineno >= WRITE_LINES_MAX:
                wrong.append(f"{place}:{function.lineno} {function.name}")
    assert wrong == []
