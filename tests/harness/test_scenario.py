from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from keymark.harness.engines import engine_indexes
from keymark.harness.errors import ScenarioError
from keymark.harness.redaction import redact_text
from keymark.harness.run import workload
from keymark.harness.scenario import matrix, scenario
from keymark.indexes import installed

SECTIONS = (
    "dataset, description, engine_indexes, engines, include, indexes, name, schedule, spark, "
    "table, workload"
)

QUICKSTART = ("record", "global_simple", "global_bloom", "bucket")
EVERY = ("record", "global_simple", "simple", "global_bloom", "bloom", "bucket", "hbase")
BUILT_IN = {
    "at_size": EVERY[:6],
    "at_size_shuffle": EVERY[:6],
    "block_size": QUICKSTART[:1],
    "bootstrap": QUICKSTART[:1],
    "calibrate": (*EVERY[:6], "partitioned_record"),
    "calibrate_hudi": (*EVERY[:6], "partitioned_record"),
    "canary": QUICKSTART[:1],
    "ci": QUICKSTART,
    "compaction": QUICKSTART[:1],
    "formats": ("record", "merge", "merge_dv", "merge_cow", "merge_mor", "upsert"),
    "formats_codec": ("record", "merge", "merge_dv", "merge_cow", "merge_mor", "upsert"),
    "formats_large": ("record", "merge", "merge_dv", "merge_cow", "merge_mor"),
    "formats_limits": ("record", "merge", "upsert"),
    "formats_sorted": ("record", "merge", "merge_dv", "merge_cow", "merge_mor", "upsert"),
    "formats_tuned": ("record", "merge", "merge_dv", "merge_cow", "merge_mor", "upsert"),
    "gate": QUICKSTART[:2],
    "gdpr_delete": QUICKSTART,
    "growth": QUICKSTART[:3],
    "holdout": EVERY[:6],
    "holdout_large": EVERY[:6],
    "holdout_medium": QUICKSTART[:3],
    "hudi_matrix": ("record", "partitioned_record", *EVERY[1:6], "consistent_bucket"),
    "hudi_metadata": QUICKSTART[:1],
    "hudi_vs_native": QUICKSTART[:2],
    "index_matrix": EVERY,
    "lookup": QUICKSTART,
    "lookup_model": QUICKSTART[:1],
    "mappings": QUICKSTART[:1],
    "partitioned_index": ("record", "partitioned_record"),
    "point_query": QUICKSTART[:2],
    "point_query_files": QUICKSTART[:2],
    "quickstart": QUICKSTART,
    "releases": ("record", "partitioned_record", "global_simple"),
    "scaling": QUICKSTART[:1],
    "secondary_index": QUICKSTART[:1],
    "shuffle": QUICKSTART,
    "skew": QUICKSTART[:1],
    "speed": QUICKSTART[:1],
    "tagging": tuple(name for name in EVERY if name in engine_indexes("hudi@0.15.0")),
    "virtual_keys": QUICKSTART,
    "write_latency": QUICKSTART,
}
VARIED = (
    *(name for name in BUILT_IN if name.startswith(("calibrate", "formats"))),
    *("block_size", "bootstrap", "compaction", "speed", "virtual_keys"),
    *("holdout", "hudi_matrix", "hudi_metadata", "lookup_model", "scaling", "secondary_index"),
)


def test_built_in_scenarios_resolve():
    assert scenario.builtin_names() == tuple(BUILT_IN)
    for name, indexes in BUILT_IN.items():
        loaded = scenario.load(name)
        assert (loaded.name, loaded.indexes) == (name, indexes)
        assert loaded.table.mappings == (name in ("mappings", "block_size"))
        assert bool(loaded.workload.model_keys) == (name == "lookup_model")
        assert bool(loaded.table.variants) == (name in VARIED)


def test_the_matrix_of_indexes_compares_shapes_sizes_and_batches_on_equal_terms():
    loaded = scenario.load("index_matrix")
    cells = matrix.expand(loaded)
    assert len(cells) == 7 * 3 * 3 * 2
    assert list(loaded.dataset.shapes) == ["random", "time_ordered", "skewed"]
    moves = {name: spec.move_option for name, spec in installed.specs().items() if spec.move_option}
    for index, option in moves.items():
        given = {cell.options.get(option) for cell in cells if cell.index == index}
        assert given == ({"false"} if index in loaded.indexes else set()), index
    specs = {data.shape: loaded.dataset.spec(data) for data in loaded.dataset.points}
    assert specs["random"].columns["uuid"].kind == "uuid"
    assert specs["time_ordered"].columns["uuid"].kind == "uuid7"
    assert specs["skewed"].partition_kind.sizes == "zipf"
    assert not any(spec.count(spec.moves) for spec in specs.values())
    steps = [step.name for step in workload.steps(loaded.workload)]
    assert steps == ["upsert_1", "lookup", "point_query", "point_query_spark"]


def test_tagging_gives_both_engines_the_same_cells():
    cells = matrix.expand(scenario.load("tagging"))
    by_engine = {
        engine: {cell.index: cell.options for cell in cells if cell.engine == engine}
        for engine in ("native", "hudi@0.15.0")
    }
    assert by_engine["native"] == by_engine["hudi@0.15.0"]


def test_virtual_keys_differ_from_stored_ones_in_nothing_else():
    loaded = scenario.load("virtual_keys")
    given = {cell.cell_id: dict(cell.options) for cell in matrix.expand(loaded)}
    assert len(given) == 4 * 2 * 4
    for name, options in given.items():
        stored = name.split("/")[2] == "stored"
        assert options.pop("hoodie.populate.meta.fields") == ("true" if stored else "false")
        if stored:
            assert options.items() <= given[name.replace("/stored", "/virtual")].items()
    specs = {data.shape: loaded.dataset.spec(data) for data in loaded.dataset.points}
    assert {name: spec.record_key for name, spec in specs.items()} == {
        "uuid": ("uuid",),
        "number": ("uuid",),
        "long": ("uuid",),
        "composite": ("city", "uuid"),
    }
    kinds = {name: spec.columns["uuid"].kind for name, spec in specs.items()}
    assert kinds == {
        "uuid": "uuid",
        "number": "sequence",
        "long": "hashed",
        "composite": "sequence",
    }
    steps = [step.name for step in workload.steps(loaded.workload)]
    assert steps == ["upsert_1", "lookup", "point_query", "point_query_spark"]


def test_indexes_of_variants_are_checked():
    with pytest.raises(ScenarioError) as caught:
        scenario.load(
            "ci",
            sets=[
                "table.variants={shards = {}}",
                'table.variant_indexes={shard = ["record"], shards = ["recrod"]}',
            ],
        )
    told = " ".join(caught.value.mistakes)
    assert "unknown variant 'shard' (did you mean 'shards'?)" in told
    assert "unknown index 'recrod' (did you mean 'record'?)" in told
    assert "index 'bucket' has no variant left" in told


def test_variants_and_model_keys_are_checked():
    with pytest.raises(ScenarioError) as caught:
        scenario.load("ci", sets=["table.variants.a/b.hoodie.index.bloom.fpp=0.1"])
    assert (
        "table.variants: 'a/b' is not a name of letters, digits, - and _" in caught.value.mistakes
    )
    with pytest.raises(ScenarioError) as caught:
        scenario.load("ci", sets=["table.variants.a.hoodie.fpp=1", "workload.model_keys=[1]"])
    told = " ".join(caught.value.mistakes)
    assert "table.variants.a: unknown option hoodie.fpp" in told
    assert "workload.model_keys: the lookup model is about the index record only" in told
    with pytest.raises(ScenarioError, match=r"workload\.model_keys\.1: .*greater than or equal"):
        scenario.load("lookup_model", sets=["workload.model_keys=[1, 0]"])


@pytest.mark.parametrize("sizes", ["[300]", "[300, 200]", "[300, 300]", "[0, 5]", "7"])
def test_sizes_ascend(sizes):
    with pytest.raises(ScenarioError, match=r"dataset\.sizes"):
        scenario.load("ci", sets=[f"dataset.sizes={sizes}"])


@pytest.mark.parametrize("batches", ["[30]", "[30, 20]", "[0, 5]", "'x'"])
def test_batches_ascend(batches):
    with pytest.raises(ScenarioError, match=r"dataset\.batches"):
        scenario.load("ci", sets=[f"dataset.batches={batches}"])


@pytest.mark.parametrize("axis", ["sizes=[20, 30]", "batches=[20, 30]", "shapes.a.seed=3"])
def test_axes_are_not_for_the_lookup_model(axis):
    key = axis.partition("=")[0].partition(".")[0]
    with pytest.raises(ScenarioError, match=rf"dataset\.{key}: neither with a source"):
        scenario.load("lookup_model", sets=[f"dataset.{axis}"])


def test_what_the_axes_say_is_not_said_twice():
    batches = "dataset.batches=[20, 30]"
    with pytest.raises(ScenarioError) as caught:
        scenario.load("ci", sets=[batches, "dataset.settings.updates=5", "workload.rounds=0"])
    assert caught.value.mistakes == (
        "dataset.settings.updates: not with dataset.batches, which says it",
        "dataset.batches: needs workload.rounds",
    )
    with pytest.raises(ScenarioError, match=r"dataset\.batches: none, with table\.mappings"):
        scenario.load("mappings", sets=[batches])
    with pytest.raises(ScenarioError) as caught:
        scenario.load("ci", sets=["dataset.shapes.a.rows=5", "dataset.shapes.b/c.seed=1"])
    (mistake,) = caught.value.mistakes
    assert mistake.startswith("dataset.shapes: 'b/c' is not a name of letters, digits, - and _; ")
    assert mistake.endswith("; a.rows: it is said by dataset itself")


def test_shapes_are_checked_as_settings_are_and_named():
    with pytest.raises(ScenarioError) as caught:
        scenario.load(
            "ci",
            sets=[
                "dataset.sizes=[100, 200]",
                "dataset.shapes.a.columns.uuid.kind=uid",
                "dataset.shapes.b.update_choise.kind=zipf",
                "dataset.shapes.c.moves=20",
                "dataset.shapes.d={}",
            ],
        )
    mistakes = "\n".join(caught.value.mistakes)
    assert "dataset.shapes.a: trips: columns.uuid: unknown kind 'uid' (did you" in mistakes
    assert "dataset.shapes.b: trips: update_choise.kind: no key 'update_choise' (did" in mistakes
    assert "dataset.shapes.c: trips: moves: 20 per round take 400 rows at least" in mistakes
    assert "dataset.settings.moves: index 'bucket' looks for a key in its own" not in mistakes
    with pytest.raises(ScenarioError) as caught:
        scenario.load(
            "ci", sets=["dataset.shapes.a={}", "dataset.shapes.b={}", "dataset.settings.seed=-1"]
        )
    assert len(caught.value.mistakes) == 1
    assert caught.value.mistakes[0].startswith("dataset.name: trips: seed: ")


def test_all_mistakes_are_told_at_once_with_key_and_nearest_name(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text(
        'indexes = ["recrod", "record"]\n'
        "engines = []\n"
        "[dataset]\nrowz = 3\nrows = -1\n"
        '[workload]\nrounds = "two"\n'
        "[nonsense]\n"
    )
    with pytest.raises(ScenarioError) as caught:
        scenario.load(str(path), sets=["spark.mastr=local", "novalue"])
    assert caught.value.exit_code == 2
    text = str(caught.value)
    assert text.startswith(f"{path}: 8 mistakes: ")
    assert "\n" not in text
    assert sorted(caught.value.mistakes) == [
        "--set novalue: expected key=value",
        "dataset.rows: input should be greater than or equal to 1, not -1",
        "dataset.rowz: unknown key (did you mean 'rows'?)",
        "engines: must name at least one",
        "indexes: unknown index 'recrod' (did you mean 'record'?)",
        f"nonsense: unknown key (known are {SECTIONS})",
        "spark.mastr: unknown key (did you mean 'master'?)",
        "workload.rounds: input should be a valid integer, not 'two'",
    ]


def test_unknown_options_of_the_table_are_found_before_a_run():
    with pytest.raises(ScenarioError, match=r"hoodie\.metadata\.record\.index\.enable"):
        scenario.load("ci", sets=["table.options.hoodie.metadata.recrd.index.enable=true"])


@pytest.mark.parametrize("engine", ["hudi@0.15", "hudi", "spark", ""])
def test_unknown_engines_are_refused_by_name(engine):
    with pytest.raises(ScenarioError, match=f"engine '{engine}'"):
        scenario.load("ci", overrides={"engines": [engine]})


def test_the_lookup_model_is_about_one_engine():
    with pytest.raises(ScenarioError, match="the lookup model is about the engine native only"):
        scenario.load("lookup_model", overrides={"engines": ["hudi@1.1.1"]})


def test_a_source_of_an_unknown_table_version_is_refused(tmp_path):
    (tmp_path / ".hoodie").mkdir()
    properties = "hoodie.table.name=t\nhoodie.table.type=COPY_ON_WRITE\nhoodie.table.version=7\n"
    (tmp_path / ".hoodie/hoodie.properties").write_text(properties)
    with pytest.raises(ScenarioError, match=r"has table version 7, which is not read"):
        scenario.load("ci", sets=[f"table.source={tmp_path}"])


def test_columns_that_a_source_does_not_have_are_named(tmp_path):
    pq.write_table(pa.table({"id": ["a"], "v": [1]}), tmp_path / "rows.parquet")
    (tmp_path / "rows.csv").write_text("id,v\na,1\n")
    for name in ("rows.parquet", "rows.csv"):
        sets = [f"dataset.source.path={tmp_path / name}", "dataset.source.record_key=['key']"]
        with pytest.raises(ScenarioError, match=r"dataset\.source: no column 'key'.*'id'"):
            scenario.load("ci", sets=sets)


def test_options_of_an_engine_reach_its_cells_alone():
    option = "hoodie.metadata.compact.max.delta.commits"
    sets = [f"table.engine_options.hudi@1.1.1-v6.{option}=8"]
    loaded = scenario.load("hudi_vs_native", sets=sets)
    given = {cell.cell_id: cell.options.get(option) for cell in matrix.expand(loaded)}
    assert {cell for cell, value in given.items() if value} == {
        "hudi@1.1.1-v6/record",
        "hudi@1.1.1-v6/global_simple",
    }
    with pytest.raises(ScenarioError) as caught:
        scenario.load(
            "ci",
            sets=[f"table.engine_options.native.{option}=8", "table.engine_options.hudi.a=1"],
        )
    assert "engine 'hudi' needs a release" in str(caught.value)


def test_overrides_are_toml_or_text_and_keep_dots_of_option_names():
    loaded = scenario.load(
        "quickstart",
        sets=[
            "dataset.rows=50000",
            "dataset.update_share=0.25",
            "dataset.name=events",
            "table.options.hoodie.parquet.small.file.limit=0",
            "table.index_options.record.hoodie.metadata.record.index.min.filegroup.count=7",
            "spark.conf.spark.sql.adaptive.enabled=true",
        ],
        overrides={"indexes": ["bucket"], "spark.master": "local[1]"},
    )
    assert (loaded.dataset.rows, loaded.dataset.update_share) == (50_000, 0.25)
    assert loaded.dataset.name == "events"
    assert loaded.table.options["hoodie.parquet.small.file.limit"] == "0"
    record = loaded.table.index_options["record"]
    assert record["hoodie.metadata.record.index.min.filegroup.count"] == "7"
    assert loaded.spark.conf["spark.sql.adaptive.enabled"] == "true"
    assert (loaded.indexes, loaded.spark.master) == (("bucket",), "local[1]")


def test_parts_of_a_key_may_be_quoted_as_in_toml():
    option = "hoodie.metadata.record.index.min.filegroup.count"
    loaded = scenario.load(
        "ci", sets=[f'table.index_options.record."{option}"=6', "'dataset'.rows=50000"]
    )
    assert loaded.table.index_options["record"][option] == "6"
    assert loaded.dataset.rows == 50_000
    with pytest.raises(ScenarioError, match="table"):
        scenario.load("ci", sets=['table."unfinished=6'])


def test_a_key_that_leads_through_a_value_is_a_mistake():
    with pytest.raises(ScenarioError, match=r"dataset\.rows\.more: rows is not a section"):
        scenario.load("ci", sets=["dataset.rows.more=1"])


FILE = """
name = "mine"
rows = 500
updates = 30
inserts = 10
deletes = 5
record_key = ["id"]
partition_path = ["dt"]
date_partitions = 7
payload_bytes = 11
[columns]
id = { kind = "uuid" }
dt = { kind = "partition" }
"""


def test_what_a_scenario_does_not_say_its_datasets_file_does(tmp_path):
    (tmp_path / "mine.toml").write_text(FILE)
    (tmp_path / "s.toml").write_text('[dataset]\nname = "mine.toml"\n')
    filled = scenario.load(str(tmp_path / "s.toml")).dataset
    assert filled.name == str(tmp_path / "mine.toml")
    assert (filled.rows, filled.seed, filled.partitions, filled.payload_bytes) == (500, 42, 7, 11)
    assert (filled.batch_rows, filled.changes(), filled.delete_rows) == (40, (30, 10), 5)
    said = scenario.load(
        str(tmp_path / "s.toml"), sets=["dataset.rows=9000", "dataset.batch_rows=80"]
    ).dataset
    assert (said.rows, said.changes(), said.partitions) == (9000, (60, 20), 7)
    assert scenario.load("ci").dataset == scenario.load("ci").dataset.filled()


def test_a_datasets_file_that_is_wrong_is_told_of_once(tmp_path):
    (tmp_path / "mine.toml").write_text(FILE.replace("uuid", "uid"))
    (tmp_path / "s.toml").write_text('indexes = ["bloom"]\n[dataset]\nname = "mine.toml"\n')
    with pytest.raises(ScenarioError) as caught:
        scenario.load(str(tmp_path / "s.toml"), sets=["workload.model_keys=[1]"])
    assert len([line for line in caught.value.mistakes if "unknown kind 'uid'" in line]) == 1
    assert len(caught.value.mistakes) == 2


OWN = """
[dataset.source]
path = "rows"
record_key = ["id"]
format = "csv"
options = { header = false }
"""


def test_rows_of_the_users_own_are_named_with_their_key(tmp_path):
    (tmp_path / "s.toml").write_text(OWN)
    found = scenario.load(
        str(tmp_path / "s.toml"), sets=["dataset.source.options.sep=;", "dataset.source.ordering=n"]
    )
    own = found.dataset.source
    assert (own.path, own.record_key, own.ordering) == (str(tmp_path / "rows"), ("id",), "n")
    assert own.options == {"header": "false", "sep": ";"}


@pytest.mark.parametrize(
    ("changes", "part"),
    [
        (["dataset.source.format=xls"], "'xls' is none of parquet"),
        (["dataset.source.record_key=[]"], r"dataset\.source\.record_key"),
        (["table.source=x"], r"dataset\.source: not with table\.source"),
        (["dataset.sizes=[1, 2]"], r"dataset\.sizes: neither with a source"),
        (["table.mappings=true"], r"dataset\.source: none, with table\.mappings"),
    ],
)
def test_what_does_not_go_with_rows_of_the_users_own(tmp_path, changes, part):
    (tmp_path / "s.toml").write_text(OWN)
    with pytest.raises(ScenarioError, match=part):
        scenario.load(str(tmp_path / "s.toml"), sets=changes)


def test_streams_whose_rows_an_option_would_keep_where_they_are():
    moves = ["dataset.settings.moves=10", "indexes=['record', 'global_simple', 'bucket']"]
    move = "hoodie.simple.index.update.partition.path"
    with pytest.raises(ScenarioError) as error:
        scenario.load("ci", sets=[*moves, f"table.index_options.global_simple.{move}=true"])
    text = str(error.value)
    assert "'record' needs hoodie.record.index.update.partition.path = true" in text
    assert "index 'bucket' looks for a key in its own partition" in text
    assert move not in text
    payload = "hoodie.datasource.write.payload.class"
    hudis = "org.apache.hudi.common.model.DefaultHoodieRecordPayload"
    latest = hudis.replace("DefaultHoodieRecordPayload", "OverwriteWithLatestAvroPayload")
    late = "dataset.settings.late=10"
    with pytest.raises(ScenarioError, match=f"late: needs {payload} = {hudis}"):
        scenario.load("ci", sets=[late, f"table.options.{payload}={latest}"])
    scenario.load("ci", sets=[late, "dataset.settings.insert_shares=[0.5, 0.5]"])


@pytest.mark.parametrize(
    ("location", "rest", "told"),
    [
        ("runs", {}, "runs is not the URL of a store"),
        ("file:///tmp/x", {}, "is not the URL of a store"),
        ("memory://x/y", {}, "is not the URL of a store"),
        ("s3://", {}, "is not the URL of a store"),
        ("s3://b/x", {"table.mappings": True}, "table.location: none, with table.mappings"),
    ],
)
def test_a_location_is_one_of_a_store(location, rest, told):
    with pytest.raises(ScenarioError) as caught:
        scenario.load("ci", overrides={"table.location": location, **rest})
    assert any(told in mistake for mistake in caught.value.mistakes)
    assert scenario.load("ci", sets=["table.location=s3://b/x"]).table.location == "s3://b/x"


@pytest.mark.parametrize(
    ("engines", "conf", "fine"),
    [
        (["native"], {}, True),
        (["native", "native@bare", "native@local[1]"], {}, True),
        (["native", "native@worktree"], {}, False),
        (["hudi@0.15.0"], {}, False),
        (["native", "native@worktree"], {"spark.cores.max": "2"}, True),
        (["native", "native@worktree"], {"spark.dynamicAllocation.enabled": "true"}, True),
    ],
)
def test_sessions_share_a_standalone_cluster_as_they_are_told(engines, conf, fine):
    given = {"engines": engines, "indexes": ["record"], "spark.master": "spark://h:7077"}
    given |= {f"spark.conf.{name}": value for name, value in conf.items()}
    given["workload.lookup_absent"] = 0
    if fine:
        assert scenario.load("ci", overrides=given).spark.conf == conf
    else:
        with pytest.raises(ScenarioError, match=r"set spark\.cores\.max"):
            scenario.load("ci", overrides=given)
    assert scenario.load("ci", overrides={**given, "spark.master": "yarn"})


def test_a_source_must_be_a_hudi_table_and_is_found_beside_its_file(tmp_path):
    with pytest.raises(ScenarioError, match="not a Hudi table"):
        scenario.load("ci", sets=[f"table.source={tmp_path}"])
    with pytest.raises(ScenarioError, match=r"table\.source: an empty path"):
        scenario.load("ci", sets=["table.source="])
    (tmp_path / "t" / ".hoodie").mkdir(parents=True)
    (tmp_path / "t" / ".hoodie" / "hoodie.properties").write_text("hoodie.table.version=6")
    (tmp_path / "s.toml").write_text('[table]\nsource = "t"\n')
    assert scenario.load(str(tmp_path / "s.toml")).table.source == str(tmp_path / "t")


@pytest.mark.parametrize(
    ("content", "message"),
    [(b"a = = 1", "not TOML"), (b"\xff\xfe", "not TOML"), (None, "did you mean 'quickstart'")],
)
def test_files_that_cannot_be_read(tmp_path, monkeypatch, content, message):
    monkeypatch.chdir(tmp_path)
    if content is not None:
        (tmp_path / "quickstrat").write_bytes(content)
    with pytest.raises(ScenarioError, match=message):
        scenario.load("quickstrat")


def test_a_master_with_a_password_is_refused_without_showing_it():
    with pytest.raises(ScenarioError) as refused:
        scenario.load("ci", sets=["spark.master=spark://me:S3cret-of-mine@host:7077"])
    assert "no user or password" in str(refused.value)
    assert "S3cret-of-mine" not in redact_text(str(refused.value))
