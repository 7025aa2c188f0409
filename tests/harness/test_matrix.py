from __future__ import annotations

import pytest

from keymark.datasets.generate.generated import GeneratedDataset
from keymark.harness.engines import is_without_spark
from keymark.harness.errors import ScenarioError
from keymark.harness.scenario import matrix, scenario
from keymark.harness.store.data_point import DataPoint


def test_cells_have_stable_ids_and_their_own_options_over_the_common_ones():
    loaded = scenario.load(
        "ci",
        sets=[
            "table.options.hoodie.index.bloom.fpp=0.1",
            "table.index_options.bucket.hoodie.index.bloom.fpp=0.2",
        ],
    )
    cells = matrix.expand(loaded)
    assert [cell.cell_id for cell in cells] == [
        "native/record",
        "native/global_simple",
        "native/global_bloom",
        "native/bucket",
    ]
    assert [cell.options["hoodie.index.bloom.fpp"] for cell in cells] == ["0.1"] * 3 + ["0.2"]
    assert "hoodie.bucket.index.num.buckets" not in cells[0].options


def test_a_variant_can_be_of_some_indexes_only():
    loaded = scenario.load(
        "ci",
        sets=["table.variants={a = {}, b = {}}", 'table.variant_indexes={b = ["record"]}'],
        overrides={"indexes": ["record", "bucket"]},
    )
    cells = [cell.cell_id for cell in matrix.expand(loaded)]
    assert cells == ["native/record/a", "native/record/b", "native/bucket/a"]


def test_variants_multiply_the_cells_and_their_options_win():
    fpp = "hoodie.index.bloom.fpp"
    loaded = scenario.load(
        "ci",
        sets=[f"table.options.{fpp}=0.1", f"table.variants.a.{fpp}=0.2", "table.variants.b={}"],
        overrides={"indexes": ["record", "bucket"]},
    )
    cells = {cell.cell_id: cell.options[fpp] for cell in matrix.expand(loaded)}
    assert cells == {
        "native/record/a": "0.2",
        "native/record/b": "0.1",
        "native/bucket/a": "0.2",
        "native/bucket/b": "0.1",
    }


def test_sizes_multiply_the_cells():
    loaded = scenario.load(
        "ci", sets=["dataset.sizes=[300, 1000]"], overrides={"indexes": ["record", "bucket"]}
    )
    assert [(cell.cell_id, cell.data.rows) for cell in matrix.expand(loaded)] == [
        ("native/record/rows-300", 300),
        ("native/record/rows-1000", 1000),
        ("native/bucket/rows-300", 300),
        ("native/bucket/rows-1000", 1000),
    ]
    (alone,) = matrix.expand(scenario.load("ci", overrides={"indexes": ["record"]}))
    assert (alone.cell_id, alone.data) == ("native/record", DataPoint(rows=20_000))


AXES = [
    "dataset.sizes=[300, 1000]",
    "dataset.batches=[10, 20]",
    "dataset.shapes.plain={}",
    "dataset.shapes.grown.columns.uuid.kind=uuid7",
    "dataset.update_share=0.3",
]


def test_shapes_and_batches_multiply_the_cells_and_batches_share_a_table():
    loaded = scenario.load("ci", sets=AXES, overrides={"indexes": ["record"]})
    cells = matrix.expand(loaded)
    assert [cell.cell_id.removeprefix("native/record/") for cell in cells] == [
        f"shape-{shape}/rows-{rows}/batch-{batch}"
        for shape in ("plain", "grown")
        for rows in (300, 1000)
        for batch in (10, 20)
    ]
    assert {cell.table_id for cell in cells[:2]} == {"native/record/shape-plain/rows-300"}
    assert cells[-1].data == DataPoint(rows=1000, shape="grown", batch=20)
    kinds = [loaded.dataset.spec(cell.data).columns["uuid"].kind for cell in cells]
    assert kinds == ["uuid"] * 4 + ["uuid7"] * 4
    specs = [loaded.dataset.spec(cell.data) for cell in cells[:3]]
    assert [(spec.rows, spec.updates, spec.inserts) for spec in specs] == [
        (300, 3, 7),
        (300, 6, 14),
        (1000, 3, 7),
    ]


def test_a_shape_can_have_an_update_share_of_its_own_and_be_of_some_indexes_only():
    sets = [*AXES[1:], "dataset.shapes.grown.update_share=0.0"]
    sets += ['dataset.shape_indexes={grown = ["record"]}']
    loaded = scenario.load("ci", sets=sets, overrides={"indexes": ["record", "bucket"]})
    cells = matrix.expand(loaded)
    assert [cell.cell_id.removeprefix("native/") for cell in cells] == [
        "record/shape-plain/batch-10",
        "record/shape-plain/batch-20",
        "record/shape-grown/batch-10",
        "record/shape-grown/batch-20",
        "bucket/shape-plain/batch-10",
        "bucket/shape-plain/batch-20",
    ]
    specs = [loaded.dataset.spec(cell.data) for cell in cells[1:4]]
    assert [(spec.updates, spec.inserts) for spec in specs] == [(6, 14), (0, 10), (0, 20)]


def test_indexes_and_update_shares_of_shapes_are_checked():
    sets = ["dataset.shapes={a = {}, b = {}}", 'dataset.shape_indexes={c = ["recrod"]}']
    with pytest.raises(ScenarioError) as caught:
        scenario.load("ci", sets=sets)
    told = " ".join(caught.value.mistakes)
    assert "unknown shape 'c'" in told
    assert "unknown index 'recrod' (did you mean 'record'?)" in told
    only = 'dataset.shape_indexes={a = ["record"], b = ["record"]}'
    with pytest.raises(ScenarioError, match="index 'bucket' has no shape left"):
        scenario.load("ci", sets=[sets[0], only])
    for share in ("1.5", "true", '"half"'):
        with pytest.raises(ScenarioError, match=r"a\.update_share: .* is not a number from 0 to 1"):
            scenario.load("ci", sets=[f"dataset.shapes.a.update_share={share}"])


def test_parts_of_an_id_follow_each_other_as_axes_do():
    sets = [*AXES[:3], "table.variants.v.hoodie.index.bloom.fpp=0.1"]
    (cell, *_) = matrix.expand(scenario.load("ci", sets=sets))
    assert cell.cell_id == "native/record/v/shape-plain/rows-300/batch-10"
    (cell, *_) = matrix.expand(scenario.load("ci", sets=["dataset.batches=[1, 2]"]))
    assert (cell.cell_id, cell.table_id) == ("native/record/batch-1", "native/record")


@pytest.mark.parametrize("settings", [{}, {"moves": 5, "insert_shares": [0.5]}, {"late": 3}])
def test_what_cells_share_does_not_depend_on_the_batch(settings):
    section = scenario.DatasetSection(rows=400, batches=(10, 40), settings=settings)
    truths = [
        GeneratedDataset(section.spec(data)).truth(0, deleted=False) for data in section.points
    ]
    assert truths[0] == truths[1]


def test_warm_ups_are_for_the_cells_that_take_them():
    cells = matrix.expand(scenario.load("ci", sets=AXES))
    warm = matrix.first_of(cells, lambda cell: (cell.engine, cell.index))
    assert [cell.index for cell in warm] == ["record", "global_simple", "global_bloom", "bucket"]
    trials = schedule(cells, warmups=2, repetitions=2, warm=warm).trials()
    assert [trial.cell for trial in trials if trial.warmup] == [*warm, *reversed(warm)]
    every = schedule(cells, warmups=2, repetitions=2).trials()
    assert [trial for trial in trials if not trial.warmup] == [
        trial for trial in every if not trial.warmup
    ]


def test_settings_of_the_dataset_reach_its_specification():
    loaded = scenario.load(
        "ci",
        sets=[
            "dataset.settings.columns.uuid.kind=uuid7",
            "dataset.settings.update_choice.kind=recent",
        ],
    )
    spec = loaded.dataset.spec(DataPoint(rows=50))
    assert spec.columns["uuid"].kind == "uuid7"
    assert (spec.update_choice.kind, spec.rows) == ("recent", 50)
    with pytest.raises(ScenarioError, match=r"columns\.uuid: unknown kind 'uuid8'"):
        scenario.load("ci", sets=["dataset.settings.columns.uuid.kind=uuid8"])


def test_every_slot_once_in_alternating_direction():
    cells = matrix.expand(scenario.load("ci", overrides={"indexes": ["record", "bucket"]}))
    trials = schedule(cells, warmups=1, repetitions=3).trials()
    assert [trial.label for trial in trials] == [
        "native/record|w0",
        "native/bucket|w0",
        "native/bucket|r0",
        "native/record|r0",
        "native/record|r1",
        "native/bucket|r1",
        "native/bucket|r2",
        "native/record|r2",
    ]


def test_a_longer_schedule_starts_like_a_shorter_one():
    cells = matrix.expand(scenario.load("ci"))
    longer = schedule(cells, warmups=2, repetitions=9).trials()
    assert longer[: 4 * 5] == schedule(cells, warmups=2, repetitions=3).trials()


def test_tables_that_cells_share_are_loaded_once_a_turn():
    cells = matrix.expand(scenario.load("ci", sets=AXES))
    made = schedule(cells, warmups=1, repetitions=2, loads=2)
    once = made.load_trials()[: len(made.tables)]
    assert [trial.cell for trial in once] == list(made.tables)
    assert [trial.cell for trial in made.load_trials()[len(once) :]] == list(made.tables[::-1])
    assert len({cell.table_id for cell in made.tables}) == len(made.tables) < len(cells)
    assert made.size == 2 * len(made.tables) + 3 * len(cells)


def schedule(cells, *, warmups, repetitions, warm=None, loads=1):
    return matrix.Schedule(
        cells=tuple(cells),
        loads=loads,
        warm=tuple(cells if warm is None else warm),
        warmups=warmups,
        repetitions=repetitions,
    )


def test_cells_that_differ_in_the_engine_alone_are_neighbours():
    cells = [
        matrix.Cell(
            cell_id=f"{engine}/{index}",
            table_id="",
            engine=engine,
            index=index,
            options={},
            data=None,
        )
        for engine in ("native", "hudi@1.1.1")
        for index in ("record", "bucket")
    ]
    assert [cell.cell_id for cell in matrix.neighbours(cells)] == [
        "native/record",
        "hudi@1.1.1/record",
        "native/bucket",
        "hudi@1.1.1/bucket",
    ]


def test_variants_of_an_index_on_the_same_data_are_neighbours():
    sets = [f"table.variants.{name}={{}}" for name in "ab"]
    sets += [f"dataset.shapes.{name}={{}}" for name in ("one", "two")]
    loaded = scenario.load("ci", sets=sets, overrides={"indexes": ["record", "bucket"]})
    cells = matrix.neighbours(matrix.expand(loaded))
    assert [cell.cell_id.removeprefix("native/") for cell in cells] == [
        f"{index}/{variant}/shape-{shape}"
        for index in ("record", "bucket")
        for shape in ("one", "two")
        for variant in "ab"
    ]


def test_shapes_of_skew_have_as_many_rows_and_keys_as_even_data():
    dataset = scenario.load("skew").dataset
    assert next(iter(dataset.shapes)) == "even"
    specs = {data.shape: dataset.spec(data) for data in dataset.points}
    assert list(specs) == ["even", "few_shards", "large_shard", "one_key", "large_partition"]
    batches = {spec.count(spec.updates) + spec.count(spec.inserts) for spec in specs.values()}
    older = {spec.count(spec.duplicates) + spec.count(spec.repeats) for spec in specs.values()}
    assert (batches, older) == ({1_000_000}, {1_000_000})
    keys = {shape: spec.columns["uuid"] for shape, spec in specs.items()}
    shares = {shape: (key.share, key.inserted_share) for shape, key in keys.items()}
    assert shares.pop("few_shards") == (0, 1)
    assert shares.pop("large_shard") == (0.9, 0.9)
    assert set(shares.values()) == {(0, 0)}
    sizes = {shape: spec.partition_kind.sizes for shape, spec in specs.items()}
    assert sizes.pop("large_partition") == "one"
    assert set(sizes.values()) == {"flat"}


def test_each_format_is_measured_with_two_codecs_and_nothing_else_differs():
    plain = scenario.load("formats")
    codec = "hoodie.parquet.compression.codec"
    given: dict[tuple[str, str, str], dict[str, dict[str, str]]] = {}
    for cell in matrix.expand(scenario.load("formats_codec")):
        place = (cell.engine, cell.index, cell.data.shape)
        given.setdefault(place, {})[cell.variant] = dict(cell.options)
    assert {engine for engine, _, _ in given} == set(plain.engines)
    for variants in given.values():
        assert {name: options.pop(codec) for name, options in variants.items()} == {
            "gzip": "gzip",
            "zstd": "zstd",
        }
        assert variants["gzip"] == variants["zstd"]


def test_the_large_formats_differ_in_their_size_alone_but_for_what_comes_to_a_limit():
    large, plain = scenario.load("formats_large"), scenario.load("formats")
    assert (large.dataset.rows, large.schedule.repetitions) == (10_000_000, 1)
    assert large.dataset.model_copy(update={"rows": plain.dataset.rows}) == plain.dataset
    assert (large.workload, large.spark) == (plain.workload, plain.spark)
    names = {cell.cell_id for cell in matrix.expand(plain)}
    left_out = names - {cell.cell_id for cell in matrix.expand(large)}
    assert {name.partition("@")[0] for name in left_out} == {"pyiceberg"}


def test_the_limits_of_engines_without_spark_are_looked_for_at_several_sizes():
    loaded, plain = scenario.load("formats_limits"), scenario.load("formats")
    cells = matrix.expand(loaded)
    assert {cell.engine for cell in cells} == set(filter(is_without_spark, plain.engines))
    assert {cell.data.rows for cell in cells} == {1_000_000, 2_000_000, 5_000_000, 10_000_000}
    assert {cell.variant for cell in cells} == {"defaults"}
    assert len(cells) == 3 * 2 * 4
    assert (loaded.schedule.repetitions, loaded.schedule.trial_minutes) == (1, 60)
    assert (loaded.workload, loaded.schedule.memory_gb) == (plain.workload, 8.0)
