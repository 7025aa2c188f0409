"""Names that lead elsewhere: 0 writes outside of the folder that was named.

A case runs one command in a child process, in a folder of its own. A guard tree lies beside it, and
every event of Python's that opens for writing, makes, moves, links or deletes is looked at; the
guard tree is compared byte by byte before and after, for what other libraries do.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bounded import bounded
from campaign import Outcome
from table_cases import create, rows

sys.path.insert(0, str(Path(__file__).parents[1] / "reports"))

from synthetic_runs import sample, write_run

from keymark import cli as run_bench

OUTSIDE = {
    "up": "../../guard/x",
    "up to a file": "../../guard/kept",
    "far up": "../" * 30 + "tmp/keymark-canary",
    "absolute": "/tmp/keymark-canary",
    "up in the middle": "a/../../../guard/x",
    "backslashes": "..\\..\\guard\\x",
    "encoded": "%2e%2e%2fguard%2fx",
    "doubly encoded": "%252e%252e%252fguard",
    "NUL": "x\0../../guard/x",
    "line end": "x\n../../guard/x",
    "file URL": "file:///tmp/keymark-canary",
    "dot": ".",
    "two dots": "..",
    "empty": "",
    "long": "x" * 5_000,
    "home": "~/keymark-canary",
    "variable": "$HOME/keymark-canary",
    "option": "--upload-pack=touch keymark-canary",
    "full-width dots": "\uff0e\uff0e/\uff0e\uff0e/guard/x",
}
LINKS = {
    *("report", "report/charts", "report/index.html", "summary.md", "summary.json", "samples.csv"),
    *(".summary.md.tmp", "comparison", "report/charts/write_latency.svg", "events", "work"),
    *("samples.jsonl", "run.json", ".run.json.tmp", "stages.jsonl", "canary.jsonl"),
}
NAMED = (
    *("scenario name", "--set scenario name", "shape", "variant", "engine", "index", "include"),
    *("dataset name", "install", "table name", "partition", "key", "instant", "as of", "option"),
    *("column", "run id of a resumed run", "gate revision", "run of a report", "table source"),
    *("partition in a commit", "file in a commit", "base path"),
)
WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
CHANGES = {
    "os.mkdir": 1, "os.rename": 2, "os.link": 2, "os.symlink": 2, "os.remove": 1, "os.rmdir": 1,
    "os.truncate": 1, "os.chmod": 1, "shutil.rmtree": 1, "shutil.move": 2, "shutil.copyfile": 2,
}  # fmt: skip
NOTHING_MATTERS = (
    *("/dev/null", "/dev/tty", "/proc/", str(Path(__file__).parents[2]), str(Path(sys.prefix))),
    *(str(Path.home() / name) for name in (".cache", ".config")),
)


@dataclass
class Watch:
    """Changes of the file system outside of the allowed folders."""

    allowed: Sequence[str]
    outside: list[str] = field(default_factory=list)

    def __call__(self, event: str, arguments: tuple[Any, ...]) -> None:
        """What `sys.addaudithook` calls."""
        if event == "open" and arguments[2] & WRITES:
            self._look(event, arguments[0])
        elif event in CHANGES:
            for path in arguments[: CHANGES[event]]:
                self._look(event, path)

    def _look(self, event: str, path: object) -> None:
        if not isinstance(path, str | bytes | os.PathLike):
            return
        folder, name = os.path.split(os.path.abspath(os.fsdecode(path)))  # noqa: PTH100
        # A file is opened through a link; all other changes are made to the link itself.
        place = os.path.realpath(f"{folder}/{name}" if event == "open" else folder)
        place = place if event == "open" else f"{place}/{name}"
        if not place.startswith((*self.allowed, *NOTHING_MATTERS)):
            self.outside.append(f"{event} {place[:200]}")


@dataclass(frozen=True)
class Paths:
    """The campaign."""

    seed: int = 34
    seconds: float = 120.0
    share: int = 10

    def cases(self) -> Sequence[str]:
        """Every place of a name with every path, and a link in every place of a run folder."""
        names = [f"{place}: {kind}" for kind in OUTSIDE for place in NAMED]
        kinds = ("folder", "file", "new name", "loop")
        return names + [f"link {name}: {kind}" for kind in kinds for name in sorted(LINKS)]

    def run(self, case: str, folder: Path) -> Outcome:
        """Run the command of a case and compare what lies outside."""
        place, _, kind = case.partition(": ")
        guard, named, here = (folder / name for name in ("guard", "named", "here"))
        for each in (guard / "inner", named, here):
            each.mkdir(parents=True)
        (guard / "kept").write_text("kept")
        (guard / "inner" / "run.json").write_text("{}")
        before = _tree(guard)
        work = _Work(place, OUTSIDE.get(kind, kind), named, here, guard)
        work.prepare()
        answer = bounded(work.watched, folder)
        outcome = Outcome(Counter({"paths": 1, f"answers: {answer.kind}": 1}))
        promise = answer.broken()
        outcome.failures += [f"{case}: {promise}"] if promise else []
        if answer.kind == "right":
            told = json.loads(answer.text)
            outcome.counts[f"exit code {told['code']}"] += 1
            outcome.failures += [f"{case}: {wrong}" for wrong in told["outside"]]
            outcome.failures += [f"{case}: {told['said']}"] if told["code"] == 4 else []
        outcome.failures += [f"{case}: the guard tree changed"] if _tree(guard) != before else []
        for canary in (Path("/tmp/keymark-canary"), Path.home() / "keymark-canary"):
            outcome.failures += [f"{case}: {canary} was made"] if canary.exists() else []
        return outcome


def _tree(root: Path) -> dict[str, bytes | None]:
    """Every name below a folder, with the bytes of files."""
    return {
        str(path.relative_to(root)): path.read_bytes() if path.is_file() else None
        for path in sorted(root.rglob("*"))
    }


@dataclass(frozen=True)
class _Work:
    """The commands of a case."""

    place: str
    path: str
    named: Path
    here: Path
    guard: Path

    def prepare(self) -> None:
        """Make what the commands work on, before anything is watched."""
        if self.place.startswith("link "):
            self._link(self.place.removeprefix("link "))
        elif self.place in ("partition", "key", "instant", "as of", "option", "column",
                            "partition in a commit", "file in a commit", "base path"):  # fmt: skip
            table = create(self.named / "t")
            table.upsert(rows(["a", "b"]))
            table.upsert(rows(["a", "c"], ts=2))
            self._harm_commits()

    def _link(self, name: str) -> None:
        run = write_run(self.named / "run", [sample(verified=False)])
        (run / "work").mkdir()
        place = run / name
        place.parent.mkdir(parents=True, exist_ok=True)
        if place.is_dir():
            place.rmdir()
        place.unlink(missing_ok=True)
        targets = {"folder": self.guard / "inner", "file": self.guard / "kept",
                   "new name": self.guard / "new", "loop": place}  # fmt: skip
        place.symlink_to(targets[self.path])

    def _harm_commits(self) -> None:
        timeline = self.named / "t" / ".hoodie"
        for path in timeline.glob("*.commit"):
            text = path.read_text()
            if self.place == "partition in a commit":
                text = text.replace('"p0"', json.dumps(self.path))
            elif self.place == "file in a commit":
                found = json.loads(text)
                for each in (s for group in found["partitionToWriteStats"].values() for s in group):
                    each["path"] = self.path
                text = json.dumps(found)
            path.write_text(text)
        if self.place == "base path":
            path = timeline / "hoodie.properties"
            path.write_text(path.read_text() + f"hoodie.table.base.path={self.path}\n")

    def watched(self) -> str:
        """Run the commands under watch; what they did as JSON."""
        os.chdir(self.here)
        watch = Watch((str(self.named), str(self.here), tempfile.gettempdir() + "/keymark-",
                       str(self.named.parent / ".answer")))  # fmt: skip
        sys.addaudithook(watch)
        said = io.StringIO()
        code = 0
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
            for words in self._commands():
                code = max(code, run_bench.main(words))
        shown = {"code": code, "outside": watch.outside[:3], "said": said.getvalue()[-800:]}
        return json.dumps(shown, ensure_ascii=False)

    def _commands(self) -> list[list[str]]:
        place, path, out = self.place, self.path, str(self.named / "out")
        table, data = str(self.named / "t"), str(self.named / "rows.jsonl")
        if place.startswith("link "):
            run = str(self.named / "run")
            resumed = ["run", "mappings", "--resume", "--out", run]
            return [["report", run], ["report", run, run], ["history", run, run], resumed]
        if place in ("scenario name", "shape", "variant", "include"):
            lines = {
                "scenario name": f"name = {json.dumps(path)}\ninclude = ['mappings']",
                "shape": f"include = ['quickstart']\n[dataset.shapes.{json.dumps(path)}]\n"
                'kind = "random"',
                "variant": f"include = ['quickstart']\n[table.variants.{json.dumps(path)}]\n"
                "a = '1'",
                "include": f"include = [{json.dumps(path)}]",
            }
            file = self.named / "mine.toml"
            file.write_text(lines[place] + "\n[no_such_section]\n")
            return [["run", str(file), "--out", out]]
        simple = {
            "--set scenario name": ["run", "mappings", "--set", f"name={path}", "--set", "x=1"],
            "engine": ["run", "mappings", "--engine", f"hudi@{path}", "--out", out],
            "index": ["run", "mappings", "--index", path, "--out", out],
            "dataset name": ["run", "mappings", "--set", f"dataset.name={path}", "--set", "x=1"],
            "install": ["engine", "install", f"hudi@{path}"],
            "table name": ["table", "create", table, "--key", "k", "--name", path],
            "instant": ["table", "services", table, "rollback", "--instant", path],
            "as of": ["table", "read", table, "--as-of", path],
            "option": ["table", "upsert", table, data, "--option", f"hoodie.table.name={path}"],
            "column": ["table", "create", f"{table}2", "--key", path, "--partition", path],
            "gate revision": ["gate", path, "HEAD", "--out", out],
            "run of a report": ["report", f"s3://{path}", "--out", out],
            "table source": ["run", "mappings", "--set", f"table.source={path}", "--out", out],
        }
        if place in simple:
            if place == "gate revision" and not path.startswith("-"):
                return [["gate", f"no-such-{path}", "HEAD", "--out", out]]
            _write_rows(Path(data), "p0", "d")
            return [simple[place]]
        if place == "run id of a resumed run":
            run = write_run(self.named / "run", [sample()], {"run_id": path, "scenario": {}})
            return [["run", "mappings", "--resume", "--out", str(run)]]
        _write_rows(Path(data), path if place == "partition" else "p0",
                    path if place == "key" else "d")  # fmt: skip
        keys = self.named / "keys.txt"
        keys.write_text("a\nd\n")
        services = [["table", "services", table, name] for name in ("clean", "compact", "archive")]
        return [
            ["table", "upsert", table, data, "--option", "hoodie.cleaner.commits.retained=1"],
            *services,
            ["table", "services", table, "rollback"],
            ["table", "purge", table, "--keys", str(keys)],
            ["table", "read", table, "--out", str(self.named / "read.parquet")],
        ]


def _write_rows(path: Path, partition: str, key: str) -> None:
    row = {"k": key, "p": partition, "ts": 3, "v": "w"}
    path.write_text(json.dumps(row) + "\n")


CAMPAIGN = Paths()
