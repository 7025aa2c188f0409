from __future__ import annotations

from types import SimpleNamespace

import pytest
from harness_fakes import Frame, HonestTable, context

from keymark.harness.errors import ScenarioError
from keymark.harness.run import cell, workload
from keymark.harness.run.step import BULK_INSERT
from keymark.harness.scenario import matrix, scenario

EVERY = [
    "workload.build_index=true",
    "workload.null_columns=['city', 'driver']",
    "workload.purge=true",
    "workload.lookup_again=true",
    "workload.rounds=1",
    "indexes=['record']",
]


def loaded(*sets):
    return scenario.load("ci", sets=[*EVERY, *sets])


def repeated(tmp_path, table=HonestTable):
    """The results of a repetition with all steps, by name, and the context."""
    given = loaded()
    (one,) = matrix.expand(given)
    held = context(tmp_path, table=table)
    trial = matrix.Trial(cell=one, repetition=0, warmup=False)
    cell.load(held, trial)
    results = cell.repeat(held, trial, workload.steps(given.workload))
    return {result.step.name: result for result in results}, held


def test_steps_come_in_the_order_of_their_needs():
    steps = workload.steps(loaded().workload)
    assert [(step.name, step.round, step.deleted) for step in steps] == [
        ("build_index", 0, False),
        ("upsert_1", 1, False),
        ("null_columns", 1, False),
        ("delete", 1, True),
        ("purge", 1, True),
        ("lookup", 1, True),
        ("lookup_again", 1, True),
        ("point_query", 1, True),
        ("point_query_spark", 1, True),
    ]


def test_every_step_is_measured_and_verified(tmp_path):
    results, held = repeated(tmp_path)
    assert [name for name, result in results.items() if result.mistake] == []
    assert len(results) == 9
    built = results["build_index"].values
    assert built["total", "keys"] == 10
    assert built["total", "keys_per_s"] == 10 / built["total", "wall_s"]
    assert results["purge"].values["total", "keys"] == 1
    again = results["lookup_again"].values
    assert (again["total", "keys"], again["total", "blocks_decoded"]) == (3, 0)
    labels = held.engines["native"].labels
    assert [label.rpartition("|")[2] for label in labels] == [BULK_INSERT, *results]


class Forgetful(HonestTable):
    """Takes rows with nulls as if they had none."""

    def upsert(self, df, /):
        return super().upsert({key: ts or 0 for key, ts in df.items()})


class Unbuilt(HonestTable):
    """Says that its index is built, and its index disagrees."""

    def check(self):
        return SimpleNamespace(ok=self.entries.exists(), missing=10, extra=0, wrong=0, duplicate=0)

    def build_index(self):
        if not self.rows():
            super().build_index()


class Careless(HonestTable):
    """Says that a purge is proven, and leaves the older slices."""

    def purge(self, df, /):
        return SimpleNamespace(keys=len(df), files_rewritten=0, files_left=0, proven=True)


class Unproven(HonestTable):
    """Purges, and cannot prove it."""

    def purge(self, df, /):
        super().purge(df)
        return SimpleNamespace(keys=len(df), files_rewritten=0, files_left=3, proven=False)


@pytest.mark.parametrize(
    ("table", "step", "told"),
    [
        (Forgetful, "null_columns", "the rows have digest"),
        (Unbuilt, "build_index", "the record index disagrees with the data: 10 missing"),
        (Careless, "purge", "base files hold a purged key, first 11111111-0_0-0-0_"),
        (Unproven, "purge", "3 files still hold a purged key"),
    ],
)
def test_what_a_table_only_says_is_not_believed(tmp_path, table, step, told):
    results, _ = repeated(tmp_path, table)
    *right, wrong = results.values()
    assert (wrong.step.name, wrong.failed) == (step, False)
    assert told in wrong.mistake
    assert all(result.mistake is None for result in right)


def test_the_truth_of_nulled_rows_is_that_of_the_fakes(tmp_path):
    inputs = context(tmp_path).inputs
    assert inputs.nulled() == Frame(a=None)
    assert inputs.nulled_truth(1) != inputs.truth(1, deleted=False)


class Compacted(HonestTable):
    """Rewrites all of its rows on demand."""

    leaves_deletes = False

    def compact_rows(self):
        self._write(self.rows())


@pytest.mark.parametrize("delete", ["false", "'once'", "true"])
def test_a_compaction_is_compared_with_the_rows_as_they_are_then(tmp_path, delete):
    """Rows that were nulled are there nulled until they are deleted."""
    sets = ["indexes=['record']", "workload.null_columns=['city']", f"workload.delete={delete}"]
    sets += ["workload.lookup_present=0", "workload.lookup_absent=0", "workload.point_query=false"]
    sets += ["table.variants.mor={}", "workload.merge_on_read=['mor']"]
    given = scenario.load("ci", sets=sets)
    (one,) = matrix.expand(given)
    held = context(tmp_path, table=Compacted)
    trial = matrix.Trial(cell=one, repetition=0, warmup=False)
    cell.load(held, trial)
    results = cell.repeat(held, trial, workload.steps(given.workload))
    names = [result.step.name for result in results]
    assert {"null_columns", "compact_rows"} < set(names)
    assert {result.step.name: result.mistake for result in results} == dict.fromkeys(names)


@pytest.mark.parametrize(
    ("sets", "told"),
    [
        (["indexes=['record', 'bloom']"], "workload.build_index: the index record only"),
        (["dataset.delete_rows=0"], "workload.null_columns: needs dataset.delete_rows"),
        (["workload.delete=false"], "workload.purge: needs workload.delete"),
        (["engines=['native', 'hudi@0.15.0']"], "workload.purge: Hudi has none"),
        (
            ["workload.lookup_present=0", "workload.lookup_absent=0"],
            "workload.lookup_again: needs lookup_present or lookup_absent",
        ),
        (
            ["workload.null_columns=['citty']"],
            "workload.null_columns: unknown column 'citty' (did you mean 'city'?)",
        ),
        *(
            (
                [f"workload.null_columns=['{name}']"],
                f"workload.null_columns: column '{name}' is of the key, the partition or the order",
            )
            for name in ("uuid", "dt", "ts")
        ),
    ],
)
def test_steps_that_cannot_be_are_refused(sets, told):
    with pytest.raises(ScenarioError) as caught:
        loaded(*sets)
    assert caught.value.mistakes == (told,)


@pytest.mark.parametrize(
    "key", ["build_index=true", "null_columns=['city']", "purge=true", "lookup_again=true"]
)
def test_keys_without_rows_are_only_looked_up(key):
    name = key.partition("=")[0]
    with pytest.raises(ScenarioError, match=rf"workload\.{name}: .*, with table\.mappings"):
        scenario.load("mappings", sets=[f"workload.{key}"])
