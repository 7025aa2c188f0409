"""The command `keymark`: mounts the packages' commands, each imported when it is called.

Exit codes: 0 done, 1 the answer is no, 2 bad input or environment (one line `error: …` on standard
error), 3 gate inconclusive, 4 a bug of ours, 130 interrupted.
"""

from __future__ import annotations

import difflib
import functools
import importlib
import importlib.metadata
import os
import sys
import traceback
import warnings
from collections.abc import Callable

import typer

# name -> module, attribute (a Typer app, or a function that becomes one), help
COMMANDS = {
    "run": ("keymark.harness.cli", "run", "run a scenario, or a job of your own, and report"),
    "observe": ("keymark.harness.cli", "observe", "make a run folder of Spark's event logs"),
    "kernels": ("keymark.harness.cli", "kernels", "measure the kernels of two revisions in turns"),
    "scenarios": ("keymark.harness.cli", "scenarios", "list the built-in scenarios"),
    "engine": ("keymark.harness.cli", "engine_app", "install and list engines such as Apache Hudi"),
    "hbase": ("keymark.harness.hbase.cli", "app", "start and stop an HBase for the index hbase"),
    "report": ("keymark.reports.cli", "app", "write the report of one or several runs"),
    "results": ("keymark.reports.published.cli", "app", "check published runs, and publish a run"),
    "rerun": (
        "keymark.reports.published.cli",
        "rerun",
        "repeat a published run, and say whether both agree",
    ),
    "site": ("keymark.reports.site.cli", "site", "make a static site of all published runs"),
    "gate": ("keymark.reports.gate.cli", "gate", "compare a candidate with a base, for CI"),
    "history": (
        "keymark.reports.history.cli",
        "history",
        "find where numbers changed over many runs",
    ),
    "plan": (
        "keymark.reports.plan.cli",
        "plan",
        "predict what each index costs, and recommend one",
    ),
    "advise": (
        "keymark.reports.advise.cli",
        "advise",
        "read a Hudi table and say what to change",
    ),
    "data": ("keymark.datasets.cli", "app", "describe, write or digest a dataset, profile a table"),
    "table": ("keymark.table.cli", "app", "create, write, read and check tables"),
}

INTERRUPTED = 130

# What is kept of an interrupted command that does not say it itself.
KEPT = {
    "table": "the table holds what was committed, and the next write takes back the rest",
}


def main(arguments: list[str] | None = None, program: str = "keymark") -> int:
    """Run one command; returns the exit code.

    Args:
        arguments: the words after the program's name; None: those of the process.
        program: what the user typed, `keymark` or `run_bench.py`.
    """
    arguments = sys.argv[1:] if arguments is None else arguments
    os.environ.setdefault("TZ", "UTC")
    if arguments and arguments[0] in ("--verbose", "-v"):
        os.environ["KEYMARK_VERBOSE"] = "1"
        arguments = arguments[1:]
    warnings.showwarning = functools.partial(show, warnings.showwarning)
    if not arguments or arguments[0] in ("--help", "-h"):
        print(usage(program))
        return 0 if arguments else 2
    if arguments[0] == "--version":
        print(f"keymark {importlib.metadata.version('keymark')}")
        return 0
    name, *rest = arguments
    if name not in COMMANDS:
        near = difflib.get_close_matches(name, COMMANDS, n=1)
        hint = f"; did you mean {near[0]}?" if near else ""
        return fail(f"no command {name!r}{hint} ({program} --help lists them)")
    return call(name, rest, program)


def usage(program: str = "keymark") -> str:
    """What `--help` prints."""
    lines = [f"  {name:<10} {text}" for name, (_, _, text) in COMMANDS.items()]
    lines.append(f"  {'-v COMMAND':<10} show what Spark logs, too")
    lines.append(f"  {'--version':<10} print the version")
    return "\n".join([f"usage: {program} COMMAND [ARGUMENTS]", "", *lines])


def application(name: str) -> typer.Typer:
    """Import a command."""
    module, attribute, _ = COMMANDS[name]
    command = getattr(importlib.import_module(module), attribute)
    if isinstance(command, typer.Typer):
        return command
    app = typer.Typer(add_completion=False)
    app.command()(command)
    return app


def call(name: str, arguments: list[str], program: str) -> int:
    """Run a command; every failure ends in one line and its exit code."""
    try:
        code = application(name)(arguments, prog_name=f"{program} {name}", standalone_mode=False)
    except typer.Exit as stop:
        code = stop.exit_code
    except (typer.Abort, KeyboardInterrupt):
        code = INTERRUPTED
    except Exception as error:  # noqa: BLE001  the last door: nothing gets past it unexplained
        return explain(error)
    if code == INTERRUPTED:  # by Typer, too, which turns Ctrl-C into this code
        return interrupted(KEPT.get(name, "the command did not end"))
    return code if isinstance(code, int) else 0


def interrupted(kept: str) -> int:
    """Say in one line what is kept, unless this command was called by one that does."""
    from keymark.terminal import CALLED_BY  # noqa: PLC0415  no other command needs it

    if CALLED_BY not in os.environ:
        print(f"interrupted: {_line(kept)}", file=sys.stderr)
    return INTERRUPTED


def explain(error: Exception) -> int:
    """One line for an error that a user can act on; a traceback as well for a bug of ours."""
    usage_line = getattr(error, "format_message", None)
    if usage_line is not None:
        # Without words there is no fault: the help was printed.
        return fail(usage_line()) if usage_line() else 2
    code = getattr(error, "exit_code", None)
    if code == INTERRUPTED:
        return interrupted(str(error))
    if isinstance(code, int):
        return fail(str(error), code)
    if isinstance(error, OSError):
        return fail(str(error))
    for line in "".join(traceback.format_exception(error)).splitlines():
        indent = line[: len(line) - len(line.lstrip())]
        print(f"{indent}{_line(line)}", file=sys.stderr)
    return fail(f"this is a bug of Keymark's: {type(error).__name__}: {error}", 4)


def show(otherwise: Callable[..., None], message: Warning, *rest: object) -> None:
    """Print a warning of ours as one line, any other as it was."""
    if type(message).__name__ == "TableWarning":
        print(f"warning: {_line(str(message))}", file=sys.stderr)
    else:
        otherwise(message, *rest)


def fail(message: str, code: int = 2) -> int:
    """Print the one line that names what is wrong."""
    print(f"error: {_line(message)}", file=sys.stderr)
    return code


def _line(text: str) -> str:
    """One line without secrets and without characters that steer a terminal."""
    from keymark.harness.redaction import terminal_text  # noqa: PLC0415  most commands print no error

    return terminal_text(text)
