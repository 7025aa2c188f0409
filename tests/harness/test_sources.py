"""Which engines can measure copies of a table, by its version."""

from __future__ import annotations

import pytest

from keymark.harness.engines.engine_pool import missing
from keymark.harness.engines.sources import source_mistake, upgrade_note
from keymark.harness.errors import HarnessError
from keymark.harness.tables.independent import SourceFacts


def source(version, *, is_merge_on_read=False):
    return SourceFacts(
        name="orders",
        version=version,
        is_merge_on_read=is_merge_on_read,
        record_key=("id",),
        partition_path=("dt",),
        ordering=None,
        partitions_of_metadata=(),
    )


@pytest.mark.parametrize(
    ("engine", "version", "told"),
    [
        ("native", 8, "Keymark measures tables of version 6, and orders has version 8; `keymark d"),
        ("native@worktree", 9, "Keymark measures tables of version 6"),
        ("hudi@0.15.0", 8, "makes tables of version 6, and orders has version 8; hudi@1.0.1 can"),
        ("hudi@1.0.2", 9, "version 6, 8, and orders has version 9; hudi@1.1.1 can write it"),
        ("hudi@1.2.0-v6", 9, "hudi@1.2.0-v6 makes tables of version 6, and orders has version 9"),
        ("hudi@1.2.0-v8", 9, "has version 9; hudi@1.2.0 can write it"),
        ("hudi@1.1.1-v8", 6, "leaves tables at the version that they have, and orders has version"),
        ("hudi@1.1.1-v8", 6, "hudi@1.1.1-v6 measures it so, and hudi@1.1.1 brings its copies to 9"),
        ("hudi@1.2.0", 5, "from version 6 on, and orders has version 5; hudi@0.15.0 brings its co"),
        ("hudi@1.2.0-v6", 5, "Hudi 1.2.0 writes tables from version 6 on"),
    ],
)
def test_a_table_that_an_engine_cannot_write_is_told_with_what_can(engine, version, told):
    assert told in source_mistake(engine, source(version))


@pytest.mark.parametrize(
    ("engine", "version"),
    [
        ("native", 6),
        ("hudi@0.15.0", 5),
        ("hudi@0.15.0", 6),
        ("hudi@1.0.2", 8),
        ("hudi@1.1.1-v6", 6),
        ("hudi@1.2.0", 6),
        ("hudi@1.2.0", 8),
        ("hudi@1.2.0", 9),
        ("hudi@1.2.0-v8", 8),
    ],
)
def test_a_table_that_an_engine_can_write(engine, version):
    assert source_mistake(engine, source(version)) is None


def test_an_upgrade_is_told_with_what_leaves_the_version():
    note = upgrade_note("hudi@1.2.0", source(8))
    assert "brings the copies of orders from table version 8 to 9 with its first write" in note
    assert "hudi@1.2.0-v8 leaves them as they are" in note
    assert upgrade_note("hudi@0.15.0", source(5)).endswith("as it does by default.")
    assert upgrade_note("hudi@1.2.0-v8", source(8)) is None
    assert upgrade_note("hudi@1.0.2", source(8)) is None
    assert upgrade_note("native", source(6)) is None


def test_a_run_of_native_alone_is_refused_with_one_line():
    with pytest.raises(HarnessError, match="Keymark measures tables of version 6, and orders has"):
        missing(["native"], ["record"], source=source(9))
