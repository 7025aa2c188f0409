"""The process of a library: started in the library's own environment."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from keymark.harness.engines.libraries.environments import python
from keymark.harness.engines.libraries.names import LibraryName
from keymark.harness.engines.watched_process import WatchedProcess, bounds
from keymark.harness.scenario.scenario import Scenario

_CHILD = Path(__file__).with_name("child.py")


class LibraryProcess(WatchedProcess):
    """What answers the messages of `child.Session`.

    Args:
        name: the library and its version.
        work: folder for its log.
        cores: that it may use.
        memory: bytes that it may hold.
    """

    def __init__(self, name: LibraryName, *, work: Path, cores: int, memory: int) -> None:
        title = f"{name.library}@{name.version}"
        super().__init__(title, work=work, cores=cores, memory=memory)
        self._library = name

    def command(self) -> list[str]:
        """Isolated: neither the folder that the run was started in nor PYTHONPATH counts."""
        return [str(python(self._library)), "-I", str(_CHILD)]

    def start_arguments(self) -> dict[str, Any]:
        """The library."""
        return {"library": self._library.library}


def process_for(name: LibraryName, scenario: Scenario, work: Path) -> LibraryProcess:
    """The process of an engine in a run."""
    return LibraryProcess(name, work=work, **bounds(scenario))
