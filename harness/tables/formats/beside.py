"""Properties of a table of another format that are kept in a file beside it, in its folder.

Neither format has words for a record key, and not every writer takes table properties that it does
not know. A name that begins with an underscore is no data in either format.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from keymark.harness.errors import HarnessError

FILE = "_keymark_properties.json"


def write(table: Path, properties: Mapping[str, str]) -> None:
    """Write the file into the folder of a table, which need not be there yet."""
    table.mkdir(parents=True, exist_ok=True)
    (table / FILE).write_text(json.dumps(dict(properties)), encoding="utf-8")


def read(table: Path) -> dict[str, str]:
    """The properties; none where there is no such file.

    Raises:
        HarnessError: it is damaged.
    """
    path = table / FILE
    try:
        return {str(name): str(value) for name, value in json.loads(path.read_bytes()).items()}
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, AttributeError) as error:
        raise HarnessError(f"{path} holds no properties: {error!r}") from error
