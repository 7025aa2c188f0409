"""Files of reports: written whole, below a folder that was named, through no link below it.

A run folder may come from anyone, and a link in it may lead anywhere.
"""

from __future__ import annotations

from pathlib import Path

from keymark.reports.errors import ReportError
from keymark.reports.render.text import clean


def make_folder(folder: Path, root: Path) -> None:
    """Make a folder below `root`, or `root` itself.

    Raises:
        ReportError: a folder on the way is a link.
        OSError: it cannot be made.
    """
    inner = folder.relative_to(root)
    for number in range(1, len(inner.parts) + 1):
        step = root.joinpath(*inner.parts[:number])
        if step.is_symlink():
            raise ReportError(f"{clean(step)} is a link: reports are not written through links")
    folder.mkdir(parents=True, exist_ok=True)


def write(path: Path, content: str | bytes) -> None:
    """Write a file into a folder that `make_folder` made, in the place of what had its name."""
    data = content.encode() if isinstance(content, str) else content
    temporary = path.with_name(f".{path.name}.tmp")
    temporary.unlink(missing_ok=True)
    with temporary.open("xb") as file:
        file.write(data)
    temporary.replace(path)
