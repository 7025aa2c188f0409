"""What a recovery has decided, as it stands in hoodie.properties."""

from __future__ import annotations

import json
from dataclasses import dataclass

from keymark.table.properties.config import TableConfig
from keymark.table.properties.seal import RECOVERY


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What a recovery has decided; it stands in hoodie.properties until it is done."""

    time: str
    target: str
    partitions: tuple[str, ...]
    rebuild: bool = False

    @classmethod
    def of(cls, config: TableConfig) -> Plan | None:
        """The plan of a recovery that was cut off."""
        text = config.properties.get(RECOVERY)
        if text is None:
            return None
        found = json.loads(text)
        return cls(
            time=str(found["time"]),
            target=str(found["target"]),
            partitions=tuple(map(str, found["partitions"])),
            rebuild=bool(found["rebuild"]),
        )

    def text(self) -> str:
        """The entry in hoodie.properties."""
        return json.dumps(
            {
                "time": self.time,
                "target": self.target,
                "partitions": list(self.partitions),
                "rebuild": self.rebuild,
            }
        )
