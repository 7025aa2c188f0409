"""Hostile names in all that a report is made of: 0 executed markup, 0 raw control characters.

A case puts one hostile text into one place (a field of a run folder, a policy, a price file, a
calibration, a name on the command line), makes every report of it, and reads what was written as
its readers do: HTML and SVG parsed, Markdown rendered, CSV by cells, the terminal by characters.
"""

from __future__ import annotations

import contextlib
import csv
import io
import itertools
import json
import re
import sys
import unicodedata
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, fields
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

from campaign import Outcome
from executed_markup import executed
from markdown_it import MarkdownIt

sys.path.insert(0, str(Path(__file__).parents[1] / "reports"))

from synthetic_runs import INFO, beats, sample, write_run

from keymark import cli as run_bench
from keymark.harness.store.results import SCHEMA_VERSION, Sample, Stage
from keymark.harness.store.store import RunFolder

CANARY = "canary7c1"
HOSTILE = {
    "script": f"<script>{CANARY}()</script>",
    "end of a script": f"</script><script>{CANARY}()</script>",
    "end of a style": f"</style></title></textarea><img src=x onerror={CANARY}()>",
    "attribute": f'" onmouseover="{CANARY}()" x="',
    "single quotes": f"' onfocus='{CANARY}()' autofocus='",
    "vector image": f"<svg/onload={CANARY}()>",
    "end of a vector image": f"</text></svg><script>{CANARY}()</script>",
    "character data": f"]]><script>{CANARY}()</script><![CDATA[",
    "comment": f"--><script>{CANARY}()</script><!--",
    "entities": f"&lt;script&gt;{CANARY}()&lt;/script&gt;&#x3c;img src=x onerror={CANARY}()&#62;",
    "template": "{{ 7 * 7 }}{% raw %}{{ self.__class__ }}",
    "link": f"[{CANARY}](javascript:{CANARY}()) ![x](javascript:{CANARY}())",
    "reference": f"[x]: javascript:{CANARY}()\n\n[x] <javascript:{CANARY}()>",
    "heading": f"x\n\n# {CANARY}\n\n| a |\n|---|\n<b onclick={CANARY}()>b</b>",
    "code": f"`<script>{CANARY}()</script>` ``` ~~~",
    "colours": "\x1b[31m\x1b]0;title\x07\x1b]8;;http://canary\x07x\x1b[2J\x9b2J",
    "line ends": "a\rb\x0b\x0cc\x85d\u2028e\u2029f",
    "NUL and friends": "a\x00b\x01\x08\x7f\ufffe\U000e0041",
    "bidi": "\u202e\u2066abc\u2069\u200f\u061c\ufeff\u200b",
    "lone surrogate": "a\ud800b\udfff",
    "rich markup": f"[red]x[/red][link=http://{CANARY}]y[/link][bold",
    "mathematics": r"$\frac{$ $\alpha$ \def\x{\x}\x $_$",
    "formula =": f'=HYPERLINK("http://{CANARY}";"x")',
    "formula +": "+1+cmd|' /C calc'!A0",
    "formula -": "-2+3",
    "formula @": "@SUM(1+1)",
    "formula after a tab": "\t=1+1",
    "path": "../../../../etc/passwd",
    "long": "x" * 100_000,
    "empty": "",
}
RUN_FIELDS = {
    "run id": ("run_id",),
    "started": ("started",),
    "status": ("status",),
    "command": ("command", 3),
    "scenario name": ("scenario", "name"),
    "scenario description": ("scenario", "description"),
    "engine of the scenario": ("scenario", "engines", 0),
    "index of the scenario": ("scenario", "indexes", 0),
    "dataset name": ("scenario", "dataset", "name"),
    "source of the dataset": ("scenario", "dataset", "source"),
    "table path": ("scenario", "table", "source"),
    "table location": ("scenario", "table", "location"),
    "value of an option": ("scenario", "table", "options", "hoodie.x"),
    "column": ("scenario", "workload", "null_columns"),
    "master": ("scenario", "spark", "master"),
    "version": ("versions", "java"),
    "revision": ("versions", "revision"),
    "machine": ("machine", "cpu"),
    "Spark option": ("spark_conf", "spark.x"),
    "note": ("notes", 0),
    "shape of a cell": ("cells", 0, "shape"),
    "option of a cell": ("cells", 0, "options"),
    "engine with seeded ids": ("seeded_ids", 0),
}
KEYS = ("failed", "skipped", "machine", "versions", "spark_conf", "scenario", "measured")
NAMES = ("run id", "engine of the scenario", "index of the scenario", "shape of a cell")
"""What cells are told apart by."""
PLACES = (
    *("texts of run.json", "names", "keys of run.json", "samples", "sample's step"),
    *("sample's reason", "stage", "folder", "policy", "prices", "calibration", "--index"),
)
TAG_NAMES = (
    "html head meta title link style body header main section footer h1 h2 h3 h4 p ul ol li table "
    "caption thead tbody tfoot tr th td div span strong em code pre a figure figcaption details "
    "summary dl dt dd nav svg g path defs clippath rect use text tspan line circle ellipse "
    "polyline polygon pattern marker desc b i br small abbr hr sub sup"
)
TAGS = frozenset(TAG_NAMES.split())
ALLOWED_CONTROLS = {"\n"}


@dataclass
class Findings:
    """What is wrong with files of a report, and how many were read."""

    files: int = 0
    wrong: list[str] = field(default_factory=list)

    def note(self, where: str, what: str) -> None:
        """Something is wrong."""
        self.wrong.append(f"{where}: {what}")


class Markup(HTMLParser):
    """Elements and attributes that only hostile text can bring."""

    def __init__(self, text: str, *, image: str = "") -> None:
        super().__init__()
        self.wrong: list[str] = []
        self._image = image
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        if tag not in TAGS and not (tag == "img" and values.get("src") == self._image):
            self.wrong.append(f"element {tag} {attrs}"[:200])
        for name, value in attrs:
            url = name.endswith(("href", "src", "action", "data"))
            mine = value in ("data:,", self._image) or (value or "").startswith("#")
            if name.startswith("on") or name in ("autofocus", "srcdoc") or (url and not mine):
                self.wrong.append(f"attribute {name}={value!r} of {tag}"[:200])

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)

    def handle_comment(self, data: str) -> None:
        if not re.fullmatch(r" keymark gate(: [a-zA-Z0-9_.-]+)? ", data):
            self.wrong.append(f"comment {data[:100]}")


def read_files(root: Path, found: Findings) -> None:
    """Read all derived files below a folder as their readers would."""
    kinds = (".html", ".svg", ".md", ".csv", ".xml", ".json")
    for path in sorted(root.rglob("*")):
        if path.is_file() and path.suffix in kinds and path.name != "run.json":
            found.files += 1
            text = path.read_bytes().decode("utf-8")
            check_letters(path.name, text, found)
            check_file(path, text, found)


def pages_of(root: Path) -> dict[str, str]:
    """All that a browser may be shown of what was written: pages, pictures, rendered Markdown."""
    pages = {}
    for path in sorted(root.rglob("*")):
        if path.is_file() and path.suffix in (".html", ".svg", ".md"):
            text = path.read_bytes().decode("utf-8")
            name = str(path.relative_to(root))
            if path.suffix == ".md":
                # GitHub takes markup out of Markdown; a reader that does not is no protection.
                name, text = f"{name}.html", MarkdownIt("commonmark", {"html": True}).render(text)
            pages[name] = text
    return pages


def check_file(path: Path, text: str, found: Findings) -> None:
    """A file of one kind."""
    if path.suffix == ".html":
        found.wrong += [f"{path.name}: {wrong}" for wrong in Markup(text).wrong]
    elif path.suffix in (".svg", ".xml"):
        check_xml(path.name, text, found)
    elif path.suffix == ".md":
        rendered = MarkdownIt("commonmark", {"html": True}).enable("table").render(text)
        page = Markup(rendered, image="history.svg")
        found.wrong += [f"{path.name}: {wrong}" for wrong in page.wrong]
    elif path.suffix == ".csv":
        cells = [cell for row in csv.reader(io.StringIO(text)) for cell in row]
        formulas = [cell for cell in cells if cell.startswith(tuple("=+-@\t\r"))]
        wrong = [cell[:50] for cell in formulas if not _is_number(cell)]
        found.wrong += [f"{path.name}: formula {cell!r}" for cell in wrong]
    else:
        json.loads(text)


def check_xml(name: str, text: str, found: Findings) -> None:
    """No script, handler or foreign link in SVG or JUnit."""
    for element in ET.fromstring(text).iter():
        tag = element.tag.rpartition("}")[2].lower()
        if tag in ("script", "foreignobject", "iframe", "image", "a", "animate", "set"):
            found.note(name, f"element {tag}")
        for key, value in element.attrib.items():
            local = key.rpartition("}")[2].lower()
            if local.startswith("on") or (local == "href" and not value.startswith("#")):
                found.note(name, f"attribute {local}={value[:80]!r}")


def check_letters(where: str, text: str, found: Findings) -> None:
    """No character that steers a terminal, turns a line or hides."""
    bad = {c for c in text if unicodedata.category(c) in ("Cc", "Cf", "Cs", "Co", "Zl", "Zp")}
    if bad - ALLOWED_CONTROLS:
        found.note(where, f"raw characters {sorted(map(hex, map(ord, bad - ALLOWED_CONTROLS)))}")


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def command(found: Findings, *words: object) -> int:
    """Run a command and look at what it prints."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = run_bench.main([str(word) for word in words])
    for name, text in (("stdout", out.getvalue()), ("stderr", err.getvalue())):
        check_letters(f"{name} of {words[0]}", text, found)
        if "Traceback" in text:
            found.note(str(words[0]), text[-1500:])
    if code == 4:
        found.note(str(words[0]), "exit code 4")
    return code


def run_folder(path: Path, place: str, text: str) -> Path:
    """A small run folder with a hostile text in one place."""
    info = json.loads(json.dumps(INFO))
    info |= {"skipped": {"hudi@9.9.9": "not installed"}, "seeded_ids": ["native"]}
    info["cells"] = [
        {"cell": f"native/{index}", "index": index, "options": {}, "rows": 10, "batch": 5,
         "shape": "s"} for index in ("record", "bloom")
    ]  # fmt: skip
    info["scenario"]["workload"]["null_columns"] = ["v"]
    for name, where in RUN_FIELDS.items():
        if place == ("names" if name in NAMES else "texts of run.json"):
            _put(info, where, text)
    for key in KEYS:
        if place == "keys of run.json":
            info.setdefault(key, {})
            info[key] = {**info[key], text: text}
        if place == f"kind of {key}":
            info[key] = text
    changes = {}
    if place == "samples":
        changes = dict.fromkeys(("cell", "engine", "index"), text)
    elif place.startswith("sample's "):
        changes = {place.removeprefix("sample's "): text}
    samples = _samples(str(info["run_id"]), changes)
    write_run(path, samples)
    folder = RunFolder.open(path)
    # As somebody else may have written it: lone surrogates escaped.
    folder.info_file.write_text(json.dumps({"schema_version": SCHEMA_VERSION, **info}))
    name = text if place == "stage" else "collect at x.py"
    numbers = {each.name: 1 for each in fields(Stage)}
    texts = {"cell": "native/record", "step": "upsert_1", "phase": "tag", "name": name}
    (path / "stages.jsonl").write_text(json.dumps(numbers | texts | {"repetition": 0}) + "\n")
    beats(path, [0.01, 0.02] * 6)
    return path


def _samples(run_id: str, changes: dict[str, str]) -> list[Sample]:
    """Samples of two cells; in those of the second one `changes` stand."""
    steps = (("upsert_1", "wall_s"), ("upsert_1", "shuffle_write_bytes"), ("lookup", "wall_s"))
    found = []
    for number, repetition, (step, metric) in itertools.product(range(2), range(2), steps):
        index = ("record", "bloom")[number]
        plain = {"run_id": run_id, "step": step, "metric": metric, "repetition": repetition}
        plain |= {"cell": f"native/{index}", "index": index}
        plain |= {"value": 1.0 + number + repetition / 10}
        own = changes if number else {}
        found.append(sample(**plain | own | ({"verified": False} if "reason" in own else {})))
    return found


def _put(document: Any, place: Sequence[Any], text: str) -> None:
    for key in place[:-1]:
        document = document[key]
    document[place[-1]] = text


@dataclass(frozen=True)
class MarkupCampaign:
    """The campaign."""

    seed: int = 32
    seconds: float = 120.0
    share: int = 5

    def cases(self) -> Sequence[str]:
        """Every hostile text in every place; neighbours differ in both."""
        texts = list(HOSTILE)
        found = [
            f"{place}: {texts[(number + turn) % len(texts)]}"
            for turn in range(len(texts))
            for number, place in enumerate(PLACES)
        ]
        return found + [f"kind of {key}: {text}" for key in KEYS for text in texts[:3]]

    def run(self, case: str, folder: Path) -> Outcome:
        """Make every report of the case and read it."""
        place, _, kind = case.partition(": ")
        text, found = HOSTILE[kind], Findings()
        codes = [*self._reports(place, text, folder, found)]
        outcome = Outcome(Counter({"hostile places": 1, "files read": found.files}))
        for code in codes:
            outcome.counts[f"exit code {code}"] += 1
        pages = pages_of(folder)
        ran = executed(pages, CANARY, folder / "browser")
        outcome.counts["pages shown in a browser"] = 0 if ran is None else len(pages)
        found.wrong += [f"{name}: a script ran in the browser" for name in ran or ()]
        outcome.failures += [f"{case}: {wrong}" for wrong in found.wrong[:5]]
        return outcome

    def _reports(self, place: str, text: str, folder: Path, found: Findings) -> Iterator[int]:
        if place in ("policy", "prices", "calibration", "--index"):
            yield from _documents(place, text, folder, found)
            return
        name = "run"
        if place == "folder":
            name = text.replace("/", "_").replace("\0", "_")[:60] or "run"
            name = name.encode("utf-8", "replace").decode()
        run = run_folder(folder / name, place, text)
        yield command(found, "report", run, "--out", folder / "out")
        written = ("--junit", folder / "g.xml", "--markdown", folder / "g.md")
        yield command(found, "gate", run, run, *written)
        yield command(found, "history", run, run, run, "--out", folder / "history")
        read_files(folder, found)


def _documents(place: str, text: str, folder: Path, found: Findings) -> Iterator[int]:
    quoted = json.dumps(text).replace("\\ud800", "").replace("\\udfff", "")
    size = ("--records", "50000000", "--batch", "20000", "--keys-stay")
    page = ("--html", folder / "plan.html")
    if place == "policy":
        run = run_folder(folder / "run", "", "")
        for number, line in enumerate(
            (f"cell = {quoted}", f"{quoted} = 1", f"direction = {quoted}", quoted)
        ):
            path = folder / f"policy-{number}.toml"
            path.write_bytes(f"[[rule]]\n{line}\n".encode("utf-8", "replace"))
            yield command(found, "gate", run, run, "--policy", path)
    elif place == "prices":
        money = "executor_hour = 1\nstorage_gb_month = 1\nwrites_per_day = 1\n"
        for number, line in enumerate(
            (
                f"currency = {quoted}\n{money}",
                f"{money}{quoted} = 1\n",
                f"{money}[service_hour]\n{quoted} = 1\nrecord = 2",
                f"{money}[service_hour]\nrecord = {quoted}\n",
                f"{money}{quoted}",
            )
        ):
            path = folder / f"prices-{number}.toml"
            path.write_bytes(line.encode("utf-8", "replace"))
            yield command(found, "plan", *size, "--prices", path, *page)
    elif place == "--index":
        yield command(found, "plan", *size, "--index", text, *page)
    else:
        fit = json.loads((Path(run_bench.__file__).parent / "harness/calibration/default.json")
                         .read_text())  # fmt: skip
        for key in ("name", "runs", "machine", "kind", "equation"):
            path, made = folder / f"{key}.json", json.loads(json.dumps(fit))
            if key == "equation":
                made["equations"][text] = next(iter(made["equations"].values()))
            else:
                made[key] = {"name": text, "runs": [text], "machine": {"cpu": text, text: text},
                             "kind": text}[key]  # fmt: skip
            path.write_text(json.dumps(made))
            yield command(found, "plan", *size, "--calibration", path, *page)
            yield command(found, "plan", "--constants", "--calibration", path)
            path.unlink()
    read_files(folder, found)


CAMPAIGN = MarkupCampaign()
