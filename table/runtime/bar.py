"""The progress bar of the command line."""

from __future__ import annotations

from typing import Self

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
)


def progress_bar(
    *columns: ProgressColumn,
    transient: bool = False,
    shows_left: bool = True,
) -> Progress:
    """What is done, a bar and the time left, on standard error where that is a terminal.

    Args:
        columns: after the bar; none: how many of how many.
        transient: whether it is wiped off at the end.
        shows_left: whether the time left is shown, as if all parts took equally long.
    """
    console = Console(stderr=True)
    left = (TextColumn("left"), TimeRemainingColumn()) if shows_left else ()
    return Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        *(columns or (MofNCompleteColumn(),)),
        *left,
        console=console,
        disable=not console.is_terminal,
        transient=transient,
    )


class Bar:
    """A progress bar with a task for each unit of work."""

    def __init__(self) -> None:
        self._bar = progress_bar(transient=True)
        self._tasks: dict[str, TaskID] = {}

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def __call__(self, done: int, total: int, unit: str) -> None:
        """Show how far a step came."""
        task = self._tasks.get(unit)
        if task is None:
            task = self._tasks[unit] = self._bar.add_task(unit, total=total)
        self._bar.update(task, completed=done, total=total)
