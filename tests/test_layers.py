"""Imports go one way: between the packages, inside `table`, and only where Spark may be."""

from __future__ import annotations

import ast
import importlib.util
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import house_numbers

from keymark.indexes import installed

ROOT = Path(__file__).parents[1]
PACKAGES = ("table", "indexes", "datasets", "harness", "reports")

# What each package may import of the others; of reports' only these modules.
ALLOWED = {
    "keymark": set(PACKAGES),
    "run_bench": set(),
    "harness": {"table", "indexes", "datasets"},
    "reports": {"harness", "indexes"},
    "indexes": {"table"},
    "datasets": set(),
    "table": set(),
}
# Three modules beside them: `data profile` reads tables of Hudi's as their users do, what a run
# does around the cells of the HBase index asks the harness for the local HBase, and `advise` has a
# table surveyed.
DOORS = {
    "keymark.datasets.cli": {"table"},
    "keymark.indexes.hbase.cells": {"harness"},
    "keymark.reports.advise.cli": {"table"},
}
# What a survey finds in a table: plain data, which advice is made of.
FACTS = "keymark.table.survey.model"
REPORTS_SEE = {
    *(
        "keymark.harness.store.results",
        "keymark.harness.store.beats",
        "keymark.harness.store.units",
        "keymark.harness.store.store",
        "keymark.harness.errors",
    ),
    *("keymark.harness.store.run_record", "keymark.harness.store.data_point"),
    "keymark.harness.store.contents",
    # The names of engines, and git.
    *("keymark.harness.engines", "keymark.harness.git"),
    # What a secret is.
    "keymark.harness.redaction",
    # What Hudi's stages in an event log of the user's own were.
    "keymark.harness.measure.event_log",
    # What a scenario will measure, of which predictions are written down before it runs.
    "keymark.harness.scenario.planned",
    # Run folders by URL.
    "keymark.harness.store.run_folder_mirror",
}
# What everybody may know of indexes: plain data and formulas. They import each other only.
SPECS = re.compile(r"keymark\.indexes\.(installed|workload|(\w+\.)?(spec|cost|hudi_cost))")


def is_spec(module: str) -> bool:
    return SPECS.fullmatch(module) is not None


# From the bottom up: a module of `table` imports its own row and those before it.
LAYERS = (
    ("errors", "runtime.java"),
    (
        "layout.model",
        "layout.naming",
        "runtime.clock",
        "runtime.ids",
        "storage.durability",
        "storage.local_files",
        "storage.requests",
        "storage.spool",
        "runtime.lost_worker",
        "runtime.phases",
    ),
    (
        "storage.storage",
        "storage.local_storage",
        "storage.object_storage",
        "storage.lease_files",
        "storage.fence",
        "runtime.runner",
    ),
    ("format",),
    ("timeline",),
    ("properties", "layout", "storage", "runtime.jvm"),
    ("keygen", "rows.arrow", "rows.frame_size"),
    ("metadata",),
    ("state", "rows.keys", "survey"),
    ("index",),
    ("index.build",),
    ("read", "values"),
    ("write",),
    ("services", "rows"),
    ("runtime.spark",),
    ("handle",),
    ("table",),
    ("cli", "source", "runtime"),
)

# Where Spark may be named.
SPARK = (
    "table/runtime/jvm.py",
    "table/runtime/spark.py",
    "table/handle.py",
    "table/table.py",
    "table/rows/arrow.py",
    "table/read/",
    "table/source/",
    "table/write/",
    "indexes/",
    "datasets/",
    "harness/",
)


def modules() -> list[Path]:
    found = [path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py"))]
    return [*found, *sorted((ROOT / "keymark").glob("*.py")), ROOT / "run_bench.py"]


def name_of(path: Path) -> str:
    """The import name: those of the packages' folders begin with `keymark`."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    parts = parts if parts[0] in ("keymark", "run_bench") else ("keymark", *parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def package_of(module: str) -> str:
    """`table` of `keymark.table.errors`; `keymark` of `keymark.cli`."""
    parts = module.split(".")
    ours = parts[0] == "keymark" and len(parts) > 1 and parts[1] in PACKAGES
    return parts[1] if ours else parts[0]


def imported(path: Path, *, everywhere: bool = True) -> set[str]:
    """Modules that a file imports; of `from a import b` both a.b, if it is a module, and a.

    Args:
        path: the file.
        everywhere: in functions as well, not at the top level alone.
    """
    tree = ast.parse(path.read_text())
    nodes = _walk(tree) if everywhere else iter(tree.body)
    found: set[str] = set()
    for node in nodes:
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: a relative import"
            found.update(_members(str(node.module), node.names))
    return found


def _walk(tree: ast.AST) -> Iterator[ast.AST]:
    """All nodes but those that only a type checker sees."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            continue
        yield node
        yield from _walk(node)


def _members(module: str, names: list[ast.alias]) -> set[str]:
    if module.partition(".")[0] != "keymark":
        return {module}
    members = {f"{module}.{alias.name}" for alias in names}
    return {m if importlib.util.find_spec(module) and _is_module(m) else module for m in members}


def _is_module(name: str) -> bool:
    path = ROOT / name.replace(".", "/")
    return path.with_suffix(".py").exists() or (path / "__init__.py").exists()


def test_packages_import_downwards():
    wrong = []
    for path in modules():
        package = package_of(name_of(path))
        allowed = ALLOWED[package] | DOORS.get(name_of(path), set())
        for module in imported(path):
            other = package_of(module)
            upwards = other in PACKAGES and other != package and other not in allowed
            upwards = upwards and not (is_spec(module) and package != "datasets")
            upwards = upwards and not (module == FACTS and package == "reports")
            unseen = package == "reports" and other == "harness" and module not in REPORTS_SEE
            unseen = unseen or (package == "reports" and other == "indexes" and not is_spec(module))
            wrong += [f"{name_of(path)} imports {module}"] if upwards or unseen else []
    assert wrong == []


def test_specs_of_indexes_are_plain_data():
    """A planner gets them without waiting for Arrow, numpy or Spark."""
    wrong = [
        f"{name_of(path)} imports {module}"
        for path in modules()
        if is_spec(name_of(path))
        for module in imported(path)
        if not is_spec(module) and module.partition(".")[0] not in sys.stdlib_module_names
    ]
    assert wrong == []


def _layer(module: str) -> int:
    """The row that names the module or, else, its folder."""
    part = module.removeprefix("keymark.table").strip(".")
    while part:
        for number, parts in enumerate(LAYERS):
            if part in parts:
                return number
        part = part.rpartition(".")[0]
    return len(LAYERS)


def test_table_imports_downwards():
    wrong = [
        f"{name_of(path)} imports {module}"
        for path in sorted((ROOT / "table").rglob("*.py"))
        for module in imported(path)
        if module.startswith("keymark.table.") and module != name_of(path)
        if _layer(module) > _layer(name_of(path))
    ]
    assert wrong == []


def test_indexes_know_nothing_of_writing():
    """What a write needs of an index is in `table.index`, what both read in `table.state`."""
    wrong = [
        f"{name_of(path)} imports {module}"
        for path in sorted((ROOT / "indexes").rglob("*.py"))
        for module in imported(path)
        if module.startswith("keymark.table.write")
    ]
    assert wrong == []


# What gives bytes, and what takes them.
BYTES = {
    "keymark.table.errors",
    "keymark.table.storage.spool",
    "keymark.table.storage.storage",
}


def test_formats_know_bytes_only():
    wrong = []
    for path in sorted((ROOT / "table/format").rglob("*.py")):
        others = {m for m in imported(path) if m.startswith("keymark.table.")}
        others = {m for m in others if not m.startswith("keymark.table.format")}
        wrong += [f"{name_of(path)} imports {m}" for m in others - BYTES]
        if "keymark.table.storage.storage" in others and "LocalStorage" in path.read_text():
            wrong.append(f"{name_of(path)} names LocalStorage: a format takes a RangeReader")
    assert wrong == []


def test_spark_only_where_data_is_distributed():
    users = [p for p in modules() if any(m.startswith("pyspark") for m in imported(p))]
    places = [str(path.relative_to(ROOT)) for path in users]
    assert [place for place in places if not place.startswith(SPARK)] == []


def test_importing_the_table_starts_no_spark():
    """`from keymark import Table` and what it imports name pyspark inside functions only."""
    wrong = []
    for path in modules():
        place = str(path.relative_to(ROOT))
        spark = ("table/runtime/spark.py", "table/source/reader.py")
        if not place.startswith(("table/", "indexes/")) or place in spark:
            continue
        top = imported(path, everywhere=False)
        wrong += [f"{place} imports {module}" for module in top if module.startswith("pyspark")]
        if "keymark.table.runtime.spark" in top and place != "table/cli/arguments.py":
            wrong.append(f"{place} imports keymark.table.runtime.spark")
    assert wrong == []


def test_no_import_goes_in_a_circle():
    """Imports inside functions and for type checkers count, too."""
    assert house_numbers.circles(house_numbers.imports(ROOT)) == []


GENERAL = ("table", "harness", "reports", "datasets")
# Names of indexes that mean something else there: `compact` is compaction, a service.
OTHER_MEANINGS = {
    ("keymark.table.cli.services", "compact"),
    ("keymark.harness.engines.revision", "compact"),
    ("keymark.harness.run.step", "compact"),
    ("keymark.harness.engines.libraries.engine", "compact"),
}


def test_only_an_index_spells_its_name():
    """General code asks the spec of an index; it compares with no name."""
    names = set(installed.specs())
    assert len(names) >= 7
    spelled = [
        f"{name_of(path)}:{node.lineno} {node.value!r}"
        for path in modules()
        if any(name_of(path).startswith(f"keymark.{package}") for package in GENERAL)
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Constant) and node.value in names
        if (name_of(path), node.value) not in OTHER_MEANINGS
        if name_of(path) != "keymark.table.format.kernels.words"
    ]
    assert spelled == []
