"""Numbers of the code's structure: `python tests/house_numbers.py [ROOT ...]` compares revisions.

Product code is what lies in the five folders of the top level and in `run_bench.py`; of `keymark/`
only its own files.
"""

# ruff: noqa: T201

from __future__ import annotations

import ast
import sys
from collections import Counter
from pathlib import Path

PACKAGES = ("table", "indexes", "datasets", "harness", "reports")


def sources(root: Path) -> list[Path]:
    found = [path for package in PACKAGES for path in (root / package).rglob("*.py")]
    return sorted([*found, *(root / "keymark").glob("*.py"), root / "run_bench.py"])


def module_of(path: Path, root: Path) -> str:
    parts = path.relative_to(root).with_suffix("").parts
    parts = parts[1:] if parts[0] == "keymark" and len(parts) > 1 else parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imported(tree: ast.AST, modules: set[str]) -> set[str]:
    """Modules of ours that are imported anywhere in a file, for type checkers too."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            members = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= (_ours(members) & modules) or (_ours({node.module}) & modules)
        elif isinstance(node, ast.Import):
            found |= _ours({alias.name for alias in node.names}) & modules
    return found


def _ours(names: set[str]) -> set[str]:
    """Without `keymark.`, which names of others lack: `polars` is not `keymark.polars`."""
    ours = "keymark."
    return {name.removeprefix(ours) for name in names if name.startswith(ours)}


def imports(root: Path) -> dict[str, set[str]]:
    """By module the other modules of ours that it imports, wherever in its text."""
    files = sources(root)
    modules = {module_of(path, root) for path in files}
    return {
        module_of(path, root): imported(ast.parse(path.read_text("utf-8")), modules)
        - {module_of(path, root)}
        for path in files
    }


def circles(graph: dict[str, set[str]]) -> list[list[str]]:
    """Groups of modules that import each other (strongly connected, of two or more)."""
    reach: dict[str, set[str]] = {}
    for start, others in graph.items():
        seen: set[str] = set()
        stack = list(others)
        while stack:
            module = stack.pop()
            if module not in seen:
                seen.add(module)
                stack += graph.get(module, ())
        reach[start] = seen
    groups = {
        frozenset(other for other in graph if other in reach[each] and each in reach[other])
        for each in graph
    }
    return sorted(sorted(group) for group in groups if len(group) > 1)


def numbers(root: Path) -> dict[str, object]:
    files = sources(root)
    trees = {path: ast.parse(path.read_text("utf-8")) for path in files}
    functions = [
        node
        for tree in trees.values()
        for node in ast.walk(tree)
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
    ]
    names = Counter(
        node.attr if isinstance(node, ast.Attribute) else node.id
        for tree in trees.values()
        for node in ast.walk(tree)
        if isinstance(node, (ast.Attribute, ast.Name))
    )
    private = [f.name for f in functions if f.name.startswith("_") and not f.name.endswith("__")]
    classes = Counter(
        node.name
        for tree in trees.values()
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
    )
    parameters = [
        each
        for function in functions
        for each in (*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs)
    ]
    folders = {
        str(folder.relative_to(root)): sum(each.name != "__pycache__" for each in folder.iterdir())
        for package in PACKAGES
        for folder in (root / package, *(root / package).rglob("*"))
        if folder.is_dir() and folder.name != "__pycache__"
    }
    largest = sorted(folders.items(), key=lambda item: -item[1])[:5]
    return {
        "lines": sum(len(path.read_text("utf-8").splitlines()) for path in files),
        "files": len(files),
        "functions": len(functions),
        "functions of one statement": sum(
            len([s for s in f.body if not isinstance(getattr(s, "value", None), ast.Constant)]) == 1
            for f in functions
        ),
        "private functions": len(private),
        "private functions named once": sum(names[name] == 1 for name in private),
        "parameters that are Any": sum(
            p.annotation is not None and "Any" in ast.unparse(p.annotation) for p in parameters
        ),
        "class names that exist twice": sum(count > 1 for count in classes.values()),
        "import circles": len(circles(imports(root))),
        "entries of the largest folders": ", ".join(f"{name} {count}" for name, count in largest),
    }


def main() -> None:
    roots = [Path(text) for text in sys.argv[1:]] or [Path(__file__).parents[1]]
    columns = [numbers(root) for root in roots]
    for name in columns[0]:
        print(f"{name}: {' -> '.join(str(each[name]) for each in columns)}")


if __name__ == "__main__":
    main()
