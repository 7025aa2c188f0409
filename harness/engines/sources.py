"""Which engines can measure copies of a table that exists."""

from __future__ import annotations

from keymark.harness.engines import (
    HudiName,
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
    return _older_mistake(engine, hudi, source)


def _older_mistake(engine: str, hudi: HudiName, source: SourceFacts) -> str | None:
    """Why an engine cannot bring copies of a table to its own version; None if it can.

    Hudi 1.x throws at tables older than version 6. With `hoodie.write.auto.upgrade=false`, which
    names with a version mean, it writes the version that the table has, whatever its options say.
    Source: UpgradeDowngrade.needsUpgrade of Hudi 1.1.
    """
    release, has = hudi_releases.release(hudi.version), source.version
    if has < hudi_releases.BASE_VERSION < max(release.versions):
        maker = hudi_releases.maker(hudi_releases.BASE_VERSION)
        return (
            f"Hudi {hudi.version} writes tables from version {hudi_releases.BASE_VERSION} on, and "
            f"{source.name} has version {has}; hudi@{maker} brings its copies there"
        )
    if has < hudi.table_version and not hudi.is_own:
        return (
            f"{engine} leaves tables at the version that they have, and {source.name} has version "
            f"{has}; hudi@{hudi.version}-v{has} measures it so, and hudi@{hudi.version} brings its "
            f"copies to {release.own_version}"
        )
    return None


def upgrade_note(engine: str, source: SourceFacts) -> str | None:
    """What an engine that can measure copies does to their version; None if nothing."""
    hudi, makes = hudi_name(engine), table_version(engine)
    if hudi is None or source.version >= makes:
        return None
    brings = (
        f"{engine} brings the copies of {source.name} from table version {source.version} to "
        f"{makes} with its first write, as it does by default"
    )
    if source.version not in hudi_releases.release(hudi.version).versions:
        return f"{brings}."
    return f"{brings}; hudi@{hudi.version}-v{source.version} leaves them as they are."
