"""The commands `run`, `observe`, `scenarios` and `engine`; only modules named `cli` print.

`run` measures into a run folder and then starts `keymark report RUN` in a process of its own:
statistics and charts see nothing but the folder's files, and its answer is what `run` prints.
Errors are raised (`HarnessError` and others with an `exit_code`); `keymark.cli` turns them into
one line and an exit code.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Self

import typer
from rich.progress import DownloadColumn, MofNCompleteColumn, TaskID, TimeElapsedColumn

from keymark.harness.engines import (
    NATIVE,
    WITHOUT_SPARK,
    engine_mistake,
    format_jars,
    format_name,
    hudi_version,
    jars,
    library_name,
    revisions,
    s3a,
)
from keymark.harness.engines.libraries import environments
from keymark.harness.errors import HarnessError
from keymark.harness.job import document
from keymark.harness.redaction import terminal_text
from keymark.harness.run.time_left import duration
from keymark.harness.scenario import scenario as scenarios_
from keymark.harness.scenario.scenario import Scenario
from keymark.harness.scenario.schema import scenario_schema
from keymark.harness.store import run_folder_mirror
from keymark.harness.store.store import RunFolder
from keymark.table.runtime.bar import progress_bar
from keymark.terminal import InterruptionError, going_on

_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*(s|m|h|)")
_SHARE = re.compile(r"(\d+(?:\.\d+)?)\s*%")
_SECONDS = {"s": 1.0, "": 1.0, "m": 60.0, "h": 3600.0}


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """Where a run goes, and how it is reported.

    Attributes:
        out: the run folder, a path or URL; None for a new one below `runs`.
        resume: go on with the run in it.
        as_json: print the summary as one JSON document.
        when_quiet_s: for how long it waits until the machine is quiet; None: it only warns.
    """

    out: str | None
    resume: bool
    as_json: bool
    when_quiet_s: float | None


def run(
    scenario: Annotated[
        str,
        typer.Argument(metavar="[SCENARIO]", help="built-in name, or TOML file, also of a job"),
    ] = "quickstart",
    *,
    engine: Annotated[
        list[str] | None, typer.Option("--engine", help="engine to measure; repeatable")
    ] = None,
    index: Annotated[
        list[str] | None, typer.Option("--index", help="index to measure; repeatable")
    ] = None,
    set_: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="override a key")
    ] = None,
    master: Annotated[str | None, typer.Option(help="Spark master URL")] = None,
    tables: Annotated[
        str | None, typer.Option(metavar="URL", help="store of the tables: s3://bucket/folder")
    ] = None,
    out: Annotated[
        str | None, typer.Option(help="run folder, a path or URL; default runs/<run_id>")
    ] = None,
    budget: Annotated[
        str | None, typer.Option(help="time for as many repetitions as fit: 90s, 10m, 1h")
    ] = None,
    until: Annotated[
        str | None,
        typer.Option(metavar="SHARE", help="repeat until all headlines are known to within: 10%"),
    ] = None,
    base: Annotated[
        list[str] | None,
        typer.Option(metavar="REVISION|NAME=VALUE", help="for a job: the side to compare with"),
    ] = None,
    candidate: Annotated[
        list[str] | None,
        typer.Option(metavar="REVISION|NAME=VALUE", help="for a job: the side that is compared"),
    ] = None,
    when_quiet: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="wait at most this long until the machine is quiet: 30m"),
    ] = None,
    resume: Annotated[bool, typer.Option(help="continue the run in --out")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="print one JSON document")] = False,
) -> None:
    """Measure and verify every index of a scenario, or a job of your own, and report."""
    target = Target(
        out=out,
        resume=resume,
        as_json=as_json,
        when_quiet_s=parse_duration("--when-quiet", when_quiet),
    )
    if document.is_job(scenario) or ((base or candidate) and scenario.endswith(".toml")):
        names = ("--engine", "--index", "--master", "--tables", "--budget", "--until")
        for name, value in zip(names, (engine, index, master, tables, budget, until), strict=True):
            if value is not None:
                raise HarnessError(f"{name} is for scenarios, and {scenario} is the file of a job")
        job = document.load(scenario, set_ or ())
        _run_job(Path(scenario), job, (base or (), candidate or ()), target)
        return
    if base or candidate:
        raise HarnessError(
            "--base and --candidate are for jobs; `gate REVISION` compares revisions"
        )
    if budget and until:
        raise HarnessError("--budget and --until both choose the repetitions; give one of them")
    budget_s, half_width = parse_duration("--budget", budget), parse_share("--until", until)
    options = _overrides(engine, index, master, tables)
    resolved = scenarios_.load(scenario, sets=set_ or (), overrides=options)
    _run_scenario(resolved, target, budget_s=budget_s, half_width=half_width)


def _overrides(
    engine: list[str] | None, index: list[str] | None, master: str | None, tables: str | None
) -> dict[str, object]:
    """Keys of a scenario that have options of their own."""
    overrides = {
        "engines": [revisions.named(name) for name in engine or ()],
        "indexes": index,
        "spark.master": master,
        "table.location": tables,
    }
    return {key: value for key, value in overrides.items() if value}


def _run_scenario(
    resolved: Scenario, target: Target, *, budget_s: float | None, half_width: float | None
) -> None:
    # Spark's modules are loaded only when the request is known to be right.
    from keymark.harness.measure.noise_check import NoiseCheck  # noqa: PLC0415
    from keymark.harness.run import bench  # noqa: PLC0415
    from keymark.harness.run.request import Request  # noqa: PLC0415

    out = target.out
    with Shown() as shown:
        with run_folder_mirror.working(out, resume=target.resume) as (path, kept):
            request = Request(
                scenario=resolved,
                out=path,
                budget_s=budget_s,
                half_width=half_width,
                resume=target.resume,
                kept=kept,
                noise=NoiseCheck(wait_s=target.when_quiet_s),
            )
            with _telling_what_is_kept(request.folder, out):
                finished = bench.run(request, shown)
        shown.begin("writing the report")
    _report(out or str(finished.folder.path), as_json=target.as_json)
    for engine_, reason in finished.skipped.items():
        print(terminal_text(f"SKIPPED {engine_}: {reason}"), file=sys.stderr)
    for cell, reason in finished.ended.items():
        print(terminal_text(f"ENDED {cell}: {reason}"), file=sys.stderr)
    _tell_failed(finished.failed)


@contextmanager
def _telling_what_is_kept(folder: Path, out: str | None) -> Iterator[None]:
    """Make Ctrl-C and a full disk, say, end a run in one line with how to go on with it."""
    try:
        yield
    except (KeyboardInterrupt, OSError) as end:
        name = out or folder
        if not run_folder_mirror.is_url(str(name)):
            _tell_loaded(folder / "work" / "tables")
        begun = (folder / "run.json").exists()
        kept = going_on(name) if begun else "nothing was measured yet"
        if isinstance(end, KeyboardInterrupt):
            raise InterruptionError(kept) from end
        place = end.filename or folder
        what = f"{place}: {end.strerror}" if end.strerror else str(end)
        raise HarnessError(f"{what}; {kept}") from end


def _run_job(
    file: Path,
    job: document.JobSection,
    sides: tuple[Sequence[str], Sequence[str]],
    target: Target,
) -> None:
    from keymark.harness.job import run as jobs  # noqa: PLC0415 - of jobs only
    from keymark.harness.job import sides as sides_  # noqa: PLC0415
    from keymark.harness.measure.noise_check import NoiseCheck  # noqa: PLC0415

    repository = sides_.Repository.of(file)
    compared = sides_.sides(job, repository, *sides)
    with Shown() as shown:
        with run_folder_mirror.working(target.out, resume=target.resume) as (path, kept):
            request = jobs.JobRequest(
                job=job,
                sides=compared,
                repository=repository,
                out=path,
                resume=target.resume,
                kept=kept,
                noise=NoiseCheck(wait_s=target.when_quiet_s),
            )
            with _telling_what_is_kept(request.folder, target.out):
                finished = jobs.measure(request, shown)
        shown.begin("writing the report")
    _report(target.out or str(finished.folder.path), as_json=target.as_json)
    for note in finished.notes:
        print(terminal_text(f"note: {note}"), file=sys.stderr)
    _tell_failed(finished.failed)


def _tell_failed(failed: Mapping[str, str]) -> None:
    """Name what failed, and end with exit code 1 if anything did."""
    for cell, reason in failed.items():
        print(terminal_text(f"FAILED {cell}: {reason}"), file=sys.stderr)
    if failed:
        raise typer.Exit(1)


def observe(
    logs: Annotated[
        list[Path],
        typer.Argument(metavar="EVENTLOG...", help="Spark's event logs, or folders of rolled ones"),
    ],
    *,
    name: Annotated[
        str, typer.Option(help="name of the job; runs of one name are compared")
    ] = "observed",
    step: Annotated[
        str, typer.Option(help="step that all logs belong to; default: the applications' names")
    ] = "",
    out: Annotated[Path | None, typer.Option(help="run folder; default runs/<time>-<name>")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="print one JSON document")] = False,
) -> None:
    """Make a run folder of event logs that exist already, for `report`, `gate` and `history`."""
    from keymark.harness.job import observe as observe_  # noqa: PLC0415 - of this command only

    request = observe_.ObserveRequest(logs=tuple(logs), name=name, step=step, out=out)
    finished = observe_.observe(request)
    _report(str(finished.folder.path), as_json=as_json)
    for note in finished.notes:
        print(terminal_text(f"note: {note}"), file=sys.stderr)


def _tell_loaded(loaded: Path) -> None:
    """Say what the tables take that an interrupted run leaves to go on from."""
    files = (path for path in loaded.rglob("*") if path.is_file())
    sizes = {(stat.st_dev, stat.st_ino): stat.st_size for stat in (path.stat() for path in files)}
    if sizes:
        line = f"loaded tables, {sum(sizes.values()) / 1e9:.1f} GB, are kept in {loaded}"
        print(terminal_text(line), file=sys.stderr)


def kernels(
    base: Annotated[str, typer.Argument(metavar="BASE", help="native@REVISION")],
    candidate: Annotated[str, typer.Argument(metavar="CANDIDATE", help="native@REVISION")],
    *,
    set_: Annotated[
        list[str] | None, typer.Option("--set", metavar="schedule.repetitions=N", help="how often")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="run folder")] = None,
    when_quiet: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="wait at most this long until the machine is quiet: 30m"),
    ] = None,
    resume: Annotated[bool, typer.Option(help="continue the run in --out")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="print one JSON document")] = False,
) -> None:
    """Measure the kernels of two revisions in turns; `gate --kernels` does, and judges."""
    from keymark.harness.measure import kernels as kernels_  # noqa: PLC0415 - of this command only
    from keymark.harness.measure.noise_check import NoiseCheck  # noqa: PLC0415

    noise = NoiseCheck(wait_s=parse_duration("--when-quiet", when_quiet))
    engines = [revisions.named(name) for name in (base, candidate)]
    if engines[0] == engines[1]:
        raise HarnessError(f"{base} and {candidate} are the same revision")
    repetitions = kernels_.repetitions(set_ or ())
    path = out or Path("runs") / f"{datetime.now(UTC):%Y%m%dT%H%M%S}-kernels"
    folder = RunFolder.open(path) if resume else RunFolder.create(path)
    folder.refuse_links()
    with _telling_what_is_kept(path, None), Shown() as shown:
        kernels_.measure(engines, folder, shown, repetitions, noise=noise)
    print(json.dumps({"run_id": path.name}) if as_json else path)


def scenarios(
    *,
    as_json: Annotated[bool, typer.Option("--json", help="print one JSON document")] = False,
    schema: Annotated[
        bool, typer.Option("--schema", help="print the JSON Schema of scenario files, for editors")
    ] = False,
) -> None:
    """List the built-in scenarios."""
    if schema:
        print(json.dumps(scenario_schema(), indent=2))
        return
    found = [scenarios_.load(name) for name in scenarios_.builtin_names()]
    if as_json:
        rows = [{"name": each.name, "description": each.description} for each in found]
        print(json.dumps({"scenarios": rows}, indent=2))
        return
    for each in found:
        print(f"{each.name:<16}{each.description}")


engine_app = typer.Typer(
    help="Install and list engines: Apache Hudi, Delta, Iceberg, and libraries without Spark.",
    add_completion=False,
)


@engine_app.command()
def install(
    engines: Annotated[
        list[str],
        typer.Argument(
            metavar="ENGINE...",
            help="hudi@VERSION, delta@VERSION, iceberg@VERSION, s3a for these on S3, "
            "deltalake@VERSION or pyiceberg@VERSION",
        ),
    ],
    *,
    as_json: Annotated[bool, typer.Option("--json", help="print one JSON document")] = False,
) -> None:
    """Download what an engine needs once into the user's cache.

    Jars are checked by their SHA-1. A library gets an environment of Python of its own, of pinned
    packages that are checked by their SHA-256.
    """
    for name in engines:
        if name == s3a.NAME:
            continue
        mistake = engine_mistake(name)
        has_files = hudi_version(name) or format_name(name) or library_name(name)
        if mistake or not has_files:
            raise HarnessError(mistake or f"engine {name!r} has nothing to install")
    done = []
    for name in engines:
        if name == s3a.NAME:
            path = s3a.install(download_bar)[0].parent
        elif (other := format_name(name)) is not None:
            path = format_jars.install_jars(other, download_bar)
        elif (library := library_name(name)) is not None:
            path = environments.install(library)
        else:
            with download_bar(name) as show:
                path = jars.install(str(hudi_version(name)), show)
        done.append({"engine": name, "path": str(path)})
        if not as_json:
            print(f"{name} is in {path}")
    if as_json:
        print(json.dumps({"engines": done}, indent=2))


@engine_app.command("list")
def list_engines(
    *,
    as_json: Annotated[bool, typer.Option("--json", help="print one JSON document")] = False,
) -> None:
    """List the engines that can be measured on this machine."""
    names = [NATIVE, WITHOUT_SPARK, *(f"hudi@{version}" for version in jars.installed())]
    names += format_jars.installed_formats()
    names += [f"{library}@{version}" for library, version in environments.installed()]
    if as_json:
        print(json.dumps({"engines": names}, indent=2))
        return
    print("\n".join(names))


@contextmanager
def download_bar(name: str) -> Iterator[jars.ShowBytes]:
    """Progress of one download on standard error."""
    with progress_bar(DownloadColumn()) as bar:
        task = bar.add_task(name, total=None)
        yield lambda come, total: bar.update(task, completed=come, total=total or None)


def parse_duration(option: str, text: str | None) -> float | None:
    """Seconds of `90s`, `10m`, `1h` or a plain number; HarnessError for anything else."""
    if text is None:
        return None
    match = _DURATION.fullmatch(text.strip())
    if match is None or float(match.group(1)) == 0:
        raise HarnessError(f"{option} {text}: expected a duration like 90s, 10m or 1h")
    return float(match.group(1)) * _SECONDS[match.group(2)]


def parse_share(option: str, text: str | None) -> float | None:
    """The share of `10%`; HarnessError for anything that is not between 0 and 100 %."""
    if text is None:
        return None
    match = _SHARE.fullmatch(text.strip())
    if match is None or not 0 < float(match.group(1)) < 100:
        raise HarnessError(f"{option} {text}: expected a share like 10%")
    return float(match.group(1)) / 100


class Shown:
    """Progress with the time left, on standard error; a line for each step if not a terminal."""

    def __init__(self) -> None:
        self._bar = progress_bar(MofNCompleteColumn(), TimeElapsedColumn(), shows_left=False)
        self._task: TaskID = self._bar.add_task("", total=None)

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def plan(self, trials: int) -> None:
        """Tell how many trials there are."""
        self._bar.update(self._task, total=trials)

    def begin(self, what: str, left_s: float | None = None, unknown: Sequence[str] = ()) -> None:
        """Tell what is being done, and the time left as far as it is known."""
        if left_s is None:
            left = ""
        elif unknown:
            guessed = terminal_text(" and ".join(unknown))
            left = f" ({duration(left_s)} left if {guessed} took as long as what was measured)"
        else:
            left = f" (about {duration(left_s)} left)"
        description = f"{terminal_text(what)}{left}"
        self._bar.update(self._task, description=description)
        if not self._bar.console.is_terminal:
            task = self._bar.tasks[0]
            done = f"[{task.completed:.0f}/{task.total:.0f}] " if task.total else ""
            print(f"{done}{description}", file=sys.stderr, flush=True)

    def warn(self, what: str) -> None:
        """Tell what must be known, in a line that stays."""
        print(f"warning: {terminal_text(what)}", file=sys.stderr)

    def end(self) -> None:
        """Tell that a trial was taken or left out."""
        self._bar.advance(self._task)


def _report(folder: str, *, as_json: bool) -> None:
    """Let a new process make the report from the files and print its answer."""
    sys.stdout.flush()
    made = subprocess.run(  # noqa: S603 - our own command
        [sys.executable, "-P", "-m", "keymark", "report", folder, *(["--json"] if as_json else [])],
        check=False,
    )
    if made.returncode != 0:
        raise HarnessError(f"the samples are in {folder}, but no report could be made of them")
