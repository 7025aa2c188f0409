"""Which engines can measure copies of a table that exists."""

from __future__ import annotations

from keymark.harness.engines import (
    format_name,
    hudi_name,
    hudi_releases,
    library_name,
    table_version,
)
from keymark.harness.tables.independent import SourceFacts


def source_mistake(engine: str, source: SourceFacts) -> str | None:
    """Why an engine cannot measure copies of a table; None if it can.

    Args:
        engine: its name.
        source: what the table's properties say.
    """
    hudi = hudi_name(engine)
    if format_name(engine) is not None or library_name(engine) is not None:
        return f"{engine} cannot start from a table of Hudi's; dataset.source reads its rows"
    if hudi is None:
        if source.version <= hudi_releases.BASE_VERSION:
            return None
        return (
            f"Keymark measures tables of version {hudi_releases.BASE_VERSION}, and {source.name} "
            f"has version {source.version}; `keymark data profile` measures its rows, and a "
            "look-alike of them can be measured"
        )
    can = hudi_releases.release(hudi.version).versions
    if source.version > max(can):
        maker = hudi_releases.maker(source.version)
        return (
            f"Hudi {hudi.version} makes tables of version {', '.join(map(str, can))}, and "
            f"{source.name} has version {source.version}; hudi@{maker} can write it"
        )
    if source.version > hudi.table_version:
        return (
            f"{engine} makes tables of version {hudi.table_version}, and {source.name} has version "
            f"{source.version}; hudi@{hudi.version} can write it"
        )
    return None


def upgrade_note(engine: str, source: SourceFacts) -> str | None:
    """What an engine does to the version of a copy with its first write; None if nothing."""
    hudi, makes = hudi_name(engine), table_version(engine)
    if hudi is None or source.version >= makes:
        return None
    older = f"hudi@{hudi.version}-v{source.version}"
    return (
        f"{engine} brings the copies of {source.name} from table version {source.version} to "
        f"{makes} with its first write, as it does by default; {older} leaves them as they are."
    )
