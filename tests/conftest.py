from __future__ import annotations

import contextlib
import functools
import os
import re
import sys
from pathlib import Path

import pytest
from hypothesis import settings

# The first example may have to wait for a kernel's compilation.
settings.register_profile("keymark", deadline=None)
settings.load_profile("keymark")
os.environ.setdefault("TZ", "UTC")
# Spark's JVMs end soon here. The second compiler costs two cores more than its code saves, and half
# of a start is reading classes and checking their bytecode: `make` keeps an archive of them.
_JAVA_OPTIONS = ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]
_CLASSES = Path(sys.prefix) / "spark.jsa"
if _CLASSES.exists():
    # A JVM with other jars on its class path, such as Hudi's, does not use the archive.
    _JAVA_OPTIONS += ["-XX:+UnlockDiagnosticVMOptions", "-XX:-BytecodeVerificationRemote"]
    _JAVA_OPTIONS += [f"-XX:SharedArchiveFile={_CLASSES}", "-Xlog:cds=off", "-Xlog:class+path=off"]
os.environ.setdefault("SPARK_SUBMIT_OPTS", " ".join(_JAVA_OPTIONS))
# Tests that ask for a width set it; a terminal of the machine that runs them asks for none.
os.environ.pop("COLUMNS", None)


# What `make test` leaves to `make test-all`; tests/README.md has the times.
LONG = (
    "tests/benchmarks/",
    "tests/campaigns/",
    "tests/cluster/",
    "tests/datasets/test_generated.py",
    "tests/datasets/test_kinds_stream.py::test_truth_equals_brute_force",
    "tests/datasets/test_profile_command.py::test_a_table_on_a_store_is_read_there",
    "tests/datasets/test_update_choice.py",
    "tests/harness/test_formats_for_real.py",
    "tests/harness/test_hbase_beside_hudi.py",
    "tests/harness/test_hudi_for_real.py",
    "tests/harness/test_hudi_sources.py::test_a_table_of_hudi_1_x_is_measured",
    "tests/harness/test_job_for_real.py",
    "tests/harness/test_kill_resume.py",
    "tests/harness/test_library_for_real.py",
    "tests/harness/test_later_tables.py::test_a_release_measures_copies",
    "tests/harness/test_mapping_run.py::test_a_killed_run_goes_on",
    "tests/harness/test_revisions.py::test_workers_of_spark",
    "tests/harness/test_requests_on_s3.py::test_keymark_counts",
    "tests/harness/test_requests_on_s3.py::test_requests_of_other_formats",
    "tests/harness/test_run_for_real.py",
    "tests/harness/test_run_on_s3.py",
    "tests/harness/test_shared_load_with_spark.py",
    "tests/harness/test_without_spark.py::test_a_run_measures_it",
    "tests/indexes/test_conformance.py::test_history_of_joins",
    "tests/indexes/test_conformance_large.py::test_history_of_spark_frames",
    "tests/indexes/test_compact_beside.py::test_every_fault_leaves_answers_right",
    "tests/indexes/test_compact_runs.py::test_every_fault_leaves_answers_right",
    "tests/indexes/test_hbase_faults.py",
    "tests/indexes/test_hbase_for_real.py",
    "tests/indexes/test_partitioned_record.py::test_every_fault_leaves_answers_right",
    "tests/indexes/test_partitioned_record.py::test_a_large_batch_is_one_join[True]",
    "tests/indexes/test_simple.py::test_a_large_batch_is_one_join[simple]",
    "tests/indexes/test_toy_index.py",
    "tests/table/index_build/test_ordered_keys.py::test_a_shard_of_a_load_is_sorted",
    "tests/table/memory/test_memory.py",
    "tests/test_command_line.py::test_spark_says_nothing",
    "tests/interop/",
    "tests/measured/test_measured.py::test_stores_of_keys",
    "tests/measured/test_measured.py::test_streams_without_spark",
    "tests/reports/test_page_in_browser.py",
    "tests/reports/test_published.py::test_the_runs_in_the_repository_are_right",
    "tests/reports/test_site.py",
    "tests/reports/test_site_in_browser.py",
    "tests/reports/test_model_part.py::test_the_page_shows_the_model_once_per_run",
    "tests/table/histories/test_async_index.py::test_killed",
    "tests/table/histories/test_dead_services.py",
    "tests/table/histories/test_histories.py::test_a_planted_fault_is_found",
    "tests/table/histories/test_histories.py::test_history_of_a_seed[2",
    "tests/table/test_archive_histories.py",
    "tests/table/test_builds_cut_off.py",
    "tests/table/test_damage.py::test_any_damage_is_told_or_does_no_harm[hudis]",
    "tests/table/test_faults.py::test_death_while_cleaning_up_after_a_death",
    "tests/table/test_hadoop_storage.py",
    "tests/table/test_hdfs.py",
    "tests/table/test_secondary.py::test_every_fault_leaves_answers_right",
    "tests/table/test_secondary.py::test_no_file_with_a_match_is_left_out_whatever_the_type",
    "tests/table/test_fewer_shards.py::test_a_death_at_any_call[2-4]",
    "tests/table/test_large_batches.py::test_a_frame_is_run_once[0]",
    "tests/table/test_large_batches.py::test_a_worker_that_dies",
    "tests/table/test_readers.py::test_files_left_out_hold_no_row_that_polars_finds",
    "tests/table/test_large_batches.py::test_frames_are_written",
    "tests/table/test_large_batches.py::test_lookups_of_many_keys",
    "tests/table/test_lease_far.py::test_a_write_that_fails_anywhere",
    "tests/table/test_model.py::test_a_table_is_a_dict",
    "tests/table/test_object_storage.py",
    "tests/table/test_purge.py::test_a_death_at_any_call",
    "tests/table/test_readers.py::test_files_left_out_hold_no_row_that_duckdb_finds",
    "tests/table/test_reading_once.py::test_an_open_table_sees_what_another_handle_did",
    "tests/table/test_recover.py::test_killed_at_any_call_and_done_again",
    "tests/table/test_skipping.py::test_files_left_out_hold_no_row_that_passes",
    "tests/table/test_switch.py::test_a_switch_that_dies",
    "tests/indexes/test_conformance_s3.py",
    "tests/test_package.py",
)
# One of each kind stays.
SHORT = (
    "tests/harness/test_run_for_real.py::test_four_indexes_are_measured_verified_and_reported",
    "tests/interop/test_both_ways.py::test_both_ways[1.1.1-bucket-simple-purged-delete_flag]",
    "tests/reports/test_page_in_browser.py::test_the_page_fits_and_everybody_can_read_it[planned]",
    "tests/campaigns/test_campaigns.py::test_case[torn-",
    "tests/benchmarks/test_upsert_benchmark.py::test_upsert_in_process",
    "tests/indexes/test_conformance.py::test_history_of_joins[global_simple-text-0]",
    "tests/indexes/test_hbase_faults.py::test_at_every_call_of_storage[upsert-killed]",
    "tests/table/histories/test_async_index.py::test_killed_at_a_storage_call_and_resumed[0.6]",
    "tests/table/histories/test_histories.py::test_a_planted_fault_is_found[deletes",
    "tests/table/test_builds_cut_off.py::test_dead_right_after_its_commit_and_again",
    "tests/table/test_large_batches.py::test_lookups_of_many_keys_answer_with_a_frame[record]",
    "tests/table/test_lease_far.py::test_a_write_that_fails_anywhere_loses_and_doubles_nothing[k",
    "tests/table/test_reading_once.py::test_an_open_table_sees_what_another_handle_did[restore]",
    "tests/table/test_switch.py::test_a_switch_that_dies_leaves_the_old_index_or_the_new_one[record-k",
)

# What `make test-all` leaves to `make test-engines`: further releases and engines of each kind, and
# checks of all cases where it has some.
ENGINES = (
    "tests/harness/test_coalesced_write.py",
    "tests/harness/test_formats_for_real.py::test_an_engine_without_its_jars",
    "tests/harness/test_formats_for_real.py::test_ordered_tables_hold_the_same_rows",
    "tests/harness/test_hudi_for_real.py::test_a_release_is_measured_and_verified_beside_native[hudi@1",
    "tests/harness/test_hudi_for_real.py::test_a_secondary_index",
    "tests/harness/test_hudi_for_real.py::test_compaction",
    "tests/harness/test_hudi_for_real.py::test_consistent_buckets",
    "tests/harness/test_hudi_for_real.py::test_tables_of_a_releases_own_version_are_verified[hudi@1.0",
    "tests/harness/test_hudi_for_real.py::test_tables_of_a_releases_own_version_are_verified[hudi@1.2.0-9-indexes1",
    "tests/harness/test_later_tables.py::test_a_release_measures_copies_and_leaves_the_source[1.0.2",
    "tests/harness/test_later_tables.py::test_a_release_measures_copies_and_leaves_the_source[1.1.1",
    "tests/harness/test_library_for_real.py::test_a_cell_that_takes_too_much_memory",
    "tests/harness/test_library_for_real.py::test_a_library_that_is_not_there",
    "tests/harness/test_requests_on_s3.py::test_hudis_client",
    "tests/harness/test_requests_on_s3.py::test_requests_of_other_formats_are_what_the_server_gets[i",
    "tests/reports/test_site_in_browser.py::test_axe_core_finds_nothing_on_any_page",
)


def kind(name):
    """Which of the values of `--long` chooses a test, by its node id."""
    if name.startswith(ENGINES):
        return "engines"
    return "only" if name.startswith(LONG) and not name.startswith(SHORT) else "without"


def pytest_make_parametrize_id(val, argname):
    """A test is not named by a long value of a parameter: every worker sends and keeps the name."""
    if isinstance(val, str | bytes) and len(val) > 500:
        return f"{argname}_of_{len(val)}"
    return None


def pytest_collection_modifyitems(config, items):
    """Leave out the tests that `--long` does not choose."""
    chosen = config.getoption("--long")
    if chosen != "with":
        left_out = [item for item in items if kind(item.nodeid) != chosen]
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if kind(item.nodeid) == chosen]


@functools.cache
def named_skips():
    """Tests that may be skipped: the first column of a table in tests/README.md."""
    text = (Path(__file__).parent / "README.md").read_text("utf-8")
    table = text.partition("| may be skipped |")[2].partition("\n\n")[0]
    return tuple(f"tests/{name}" for name in re.findall(r"^\| `([^`]+)`", table, re.MULTILINE))


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item):
    """A skipped test fails, unless tests/README.md names it: what is skipped for ever rots."""
    outcome = yield
    report = outcome.get_result()
    is_skipped = report.skipped and not hasattr(report, "wasxfail")
    if is_skipped and not item.nodeid.startswith(named_skips()):
        report.outcome = "failed"
        report.longrepr = f"skipped, and tests/README.md does not name it: {report.longrepr}"


def pytest_addoption(parser):
    parser.addoption(
        "--long",
        choices=("with", "without", "only", "engines"),
        default="with",
        help="all tests, those without the long ones, the long ones, or those of further engines",
    )
    parser.addoption(
        "--cluster",
        choices=("share", "full"),
        default="share",
        help="the tests on a cluster of two workers: shorter histories and five kills, or all",
    )


@pytest.fixture(scope="session")
def spark():
    """One local session for all tests that are marked `spark`."""
    from keymark.table.runtime.spark import session

    opened = session(
        "local[2]",
        {
            "spark.ui.enabled": "false",
            "spark.sql.shuffle.partitions": "2",
            "spark.default.parallelism": "2",
            "spark.driver.memory": "2g",
            "spark.sql.sources.parallelPartitionDiscovery.threshold": "1000",
        },
    )
    yield opened
    opened.stop()


@pytest.fixture(scope="session")
def s3():
    """A real S3 server on the loopback interface, in a process of its own."""
    from s3_server import s3_server

    with s3_server() as server:
        yield server


@pytest.fixture(scope="session")
def hdfs(tmp_path_factory):
    """A real HDFS on the loopback interface, in a JVM of its own.

    Skipped without its jars, and where Hadoop's own servers do not start: no judge, no verdict.
    """
    from hdfs_server import HdfsUnavailableError, hdfs_server, missing_jars

    if missing := missing_jars():
        pytest.skip(f"{missing[0]} is not in the cache; get it once by: keymark hbase start")
    with contextlib.ExitStack() as stack:
        try:
            server = stack.enter_context(hdfs_server(tmp_path_factory.mktemp("hdfs")))
        except HdfsUnavailableError as error:
            pytest.skip(f"Hadoop's servers do not start on this machine: {error}")
        yield server
