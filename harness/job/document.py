"""A job file: TOML with a table `[job]`, checked strictly; every mistake is found at once.

    [job]
    name = "nightly"
    restore = "cp -r trips {work}/trips"
    verify = "python check.py {work}/trips"
    writes = ["{work}/trips"]
    tables = ["{work}/trips"]

    [job.values]
    partitions = "200"

    [[job.step]]
    name = "load"
    command = "spark-submit --conf spark.sql.shuffle.partitions={partitions} load.py {work}/trips"

A command is split into words as a shell splits them, and no shell runs it. Then `{name}` stands
for a value of `[job.values]`, or for one of `BUILT_IN`; `{{` and `}}` are braces.
"""

from __future__ import annotations

import re
import shlex
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from string import Formatter
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, ValidationError, field_validator
from pydantic_core import ErrorDetails

from keymark.harness.errors import HarnessError, ScenarioError
from keymark.harness.scenario import documents
from keymark.harness.scenario.documents import nearest
from keymark.harness.scenario.fields import Names, Natural, Positive, Section, Texts, as_tuple
from keymark.indexes.installed import measured_specs

BUILT_IN = {
    "work": "a folder of this side of the run, which is removed at its end",
    "code": "the folder of the repository, as the revision of this side has it",
    "events": "the folder that event logs of the step are looked for in",
}
"""Names in commands that every job has, with what they stand for."""

_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*(s|m|h)")
_SECONDS = {"s": 1.0, "m": 60.0, "h": 3600.0}
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,59}")
_OF_SCENARIOS = ("build", "bulk_insert", "build_index", "spread", "upsert")
"""Names that reports take for steps of scenarios, some of which are taken less often."""


def _as_commands(value: object) -> object:
    """One command may stand without its brackets."""
    if isinstance(value, str):
        return (value,)
    return tuple(value) if isinstance(value, list) else value


def _as_seconds(value: object) -> object:
    match = _DURATION.fullmatch(value.strip()) if isinstance(value, str) else None
    if match is None or not float(match[1]):
        raise ValueError('must be a duration such as "90s", "10m" or "1h"')
    return float(match[1]) * _SECONDS[match[2]]


Commands = Annotated[tuple[str, ...], BeforeValidator(_as_commands)]
Duration = Annotated[float, BeforeValidator(_as_seconds)]
"""Seconds."""


class StepSection(Section):
    """`[[job.step]]`: one command that is measured.

    Attributes:
        name: in samples and reports.
        command: what is run.
        event_log: whether it runs Spark and is to leave an event log.
    """

    name: str
    command: str
    event_log: bool = True

    @field_validator("name")
    @classmethod
    def _name(cls, value: str) -> str:
        if not _NAME.fullmatch(value):
            raise ValueError("must be a letter and then letters, digits, _, . or -, 60 at most")
        if value in _OF_SCENARIOS:
            raise ValueError(f"{value} is a step of scenarios; choose another name")
        return value


class JobSection(Section):
    """`[job]`.

    Attributes:
        name: of the job, in samples and reports.
        description: for readers.
        set_up: commands before everything, once for each side.
        restore: commands before each repetition, not measured.
        step: what is measured, in its order.
        verify: commands after the steps of each repetition; one that fails says that the answer is
            wrong.
        writes: files and folders, paths or URLs, whose new and changed files are counted.
        tables: Hudi, Delta and Iceberg tables, paths or URLs, whose commits are counted.
        event_logs: a folder that logs appear in, where the job's own settings say so; None for
            `{events}`.
        repetitions, warmups: how often all steps are taken.
        timeout: of each command.
        values: what `{name}` stands for.
        environment: variables of all commands.
    """

    name: str
    description: str = ""
    set_up: Commands = ()
    restore: Commands = ()
    step: Annotated[tuple[StepSection, ...], BeforeValidator(as_tuple), Field(min_length=1)]
    verify: Commands = ()
    writes: Names = ()
    tables: Names = ()
    event_logs: str | None = None
    repetitions: Positive = 5
    warmups: Natural = 1
    timeout: Duration = 3600.0
    values: Texts = Field(default_factory=dict)
    environment: Texts = Field(default_factory=dict)

    @field_validator("name")
    @classmethod
    def _name(cls, value: str) -> str:
        if not _NAME.fullmatch(value):
            raise ValueError("must be a letter and then letters, digits, _, . or -, 60 at most")
        if value in measured_specs():
            raise ValueError(f"{value} is the name of an index; choose another name")
        return value

    def texts(self) -> Iterator[tuple[str, str]]:
        """(place, text) of everything in which `{name}` stands for a value."""
        for place in ("set_up", "restore", "verify", "writes", "tables"):
            yield from ((f"job.{place}", text) for text in getattr(self, place))
        yield from ((f"job.step.{step.name}", step.command) for step in self.step)
        yield from ((f"job.environment.{key}", text) for key, text in self.environment.items())
        if self.event_logs is not None:
            yield "job.event_logs", self.event_logs


class _Document(Section):
    job: JobSection


def is_job(path: str) -> bool:
    """Whether a file is the file of a job, and not of a scenario."""
    try:
        return "job" in tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return False


def load(path: str, sets: Sequence[str] = ()) -> JobSection:
    """Read a job file.

    Args:
        path: of the file.
        sets: `key=value` with dotted keys, laid over it; values are TOML, or else text.

    Raises:
        ScenarioError: with every mistake found.
        HarnessError: the file cannot be read, or is no TOML.
    """
    try:
        values: dict[str, Any] = tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise HarnessError(f"{path} cannot be read: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise HarnessError(f"{path} is no TOML: {error}") from error
    mistakes: list[str] = []
    for text in sets:
        key, equals, value = text.partition("=")
        if not equals or not key:
            mistakes.append(f"--set {text}: expected key=value")
        else:
            mistakes += documents.put(values, key, documents.toml_value(value))
    try:
        job = _Document.model_validate(values).job
    except ValidationError as error:
        found = [_explain(detail) for detail in error.errors()]
        raise ScenarioError(path, [*mistakes, *found]) from None
    mistakes += _meaning_mistakes(job)
    if mistakes:
        raise ScenarioError(path, mistakes)
    return job


def words(command: str, values: Mapping[str, str]) -> list[str]:
    """The words of a command, with what its names stand for."""
    return [filled(word, values) for word in shlex.split(command)]


def filled(text: str, values: Mapping[str, str]) -> str:
    """A text with what its names stand for."""
    return text.format_map(values)


def _meaning_mistakes(job: JobSection) -> list[str]:
    """What is well-formed and yet cannot be run."""
    names = [step.name for step in job.step]
    found = [f"job.step: {name} is there twice" for name in names if names.count(name) > 1]
    taken = [name for name in BUILT_IN if name in job.values]
    found += [f"job.values.{name}: {{{name}}} is {BUILT_IN[name]}" for name in taken]
    found += [f"job.values: {name!r} is no name" for name in job.values if not name.isidentifier()]
    if job.event_logs is not None and "://" in job.event_logs:
        found.append(f"job.event_logs: {job.event_logs} is no folder of this machine")
    known = {*BUILT_IN, *job.values}
    for place, text in job.texts():
        found += [f"{place}: {mistake}" for mistake in _text_mistakes(text, known)]
        if place in ("job.set_up", "job.restore", "job.verify") or place.startswith("job.step."):
            found += [f"{place}: {mistake}" for mistake in _command_mistakes(text)]
    return list(dict.fromkeys(found))


def _text_mistakes(text: str, known: set[str]) -> Iterator[str]:
    try:
        fields = list(Formatter().parse(text))
    except ValueError as error:
        yield f"{error} ({{{{ and }}}} are braces)"
        return
    for _, name, form, conversion in fields:
        if name is None:
            continue
        if not name.isidentifier() or form or conversion:
            yield f"{{{name}}} is no name ({{{{ and }}}} are braces)"
        elif name not in known:
            yield f"{{{name}}} stands for nothing{nearest(name, known)}"


def _command_mistakes(text: str) -> Iterator[str]:
    try:
        if not shlex.split(text):
            yield "an empty command"
    except ValueError as error:
        yield f"{text}: {str(error).lower()}"


def _explain(detail: ErrorDetails) -> str:
    """One sentence about a pydantic error."""
    place = ".".join(str(part) for part in detail["loc"])
    if detail["type"] == "extra_forbidden":
        *sections, last = detail["loc"]
        model: type[Section] = _Document
        if sections:
            model = StepSection if "step" in sections else JobSection
        return f"{place}: unknown key{nearest(str(last), model.model_fields)}"
    message = str(detail["msg"]).removeprefix("Value error, ")
    return f"{place}: {message[0].lower()}{message[1:]}"
