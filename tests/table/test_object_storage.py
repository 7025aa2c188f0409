"""An S3 that is slow, throttles, loses answers or does not put if absent; and what is kept secret.

The faults are the server's: what the client makes of them is obstore's and ours.
"""

from __future__ import annotations

import json
import os
import pickle
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pytest
from s3_server import SECRET
from table_cases import SHARDS, SMALL_BLOOMS, create, data_rows, rows
from typer.testing import CliRunner

from keymark import Table
from keymark import cli as keymark_cli
from keymark.table.cli import app
from keymark.table.errors import (
    InvalidOptionError,
    LockHeldError,
    MissingFileError,
    StorageError,
    TableError,
)
from keymark.table.storage.object_storage import ObjectStorage
from keymark.table.storage.stores import storage_at

ONE_WRITER = {"hoodie.write.concurrency.mode": "single_writer"}
FEW_RETRIES = {"keymark.storage.max_retries": "1"}


@pytest.fixture
def url(s3):
    return f"{s3.bucket()}/t"


def contents(storage):
    return {status.path: storage.read(status.path) for status in storage.walk("")}


@pytest.mark.parametrize("every", [1, 2, 3])
def test_a_put_whose_answer_is_lost_is_known_all_the_same(s3, url, every):
    """Also where the request is sent again and meets the object of its own first try."""
    storage = storage_at(url, {**s3.options, **FEW_RETRIES})
    storage.put("theirs", b"theirs")
    with s3.faults(drop=every):
        for number in range(6):
            storage.put(f"mine/{number}", b"")
            with pytest.raises(FileExistsError):
                storage.put("theirs", b"mine")
            # The same content, and another writer's all the same.
            with pytest.raises(FileExistsError):
                storage.put("theirs", b"theirs")
    assert contents(storage) == {"theirs": b"theirs"} | {f"mine/{n}": b"" for n in range(6)}


def test_a_switch_of_the_connection_is_what_obstore_takes_it_for(s3, url, monkeypatch):
    allow = "keymark.storage.allow_http"
    rest = {name: value for name, value in s3.options.items() if name != allow}
    assert len(rest) < len(s3.options)
    for number, value in enumerate(("1", "yes", "On")):
        storage_at(url, {**rest, allow: value}).put(f"a/{number}", b"x")
    monkeypatch.setenv("AWS_ALLOW_HTTP", "1")
    # Connections are kept by their settings.
    storage_at(url, {**rest, "keymark.storage.user_agent": "test"}).put("a/by environment", b"x")
    with pytest.raises(InvalidOptionError, match=f"^option {allow}: 'maybe' is neither true nor"):
        storage_at(url, {**rest, allow: "maybe"})


@pytest.mark.parametrize("name", ["max_retries", "retry_seconds"])
@pytest.mark.parametrize("value", ["many", "1.5", "-1", "9" * 20, ""])
def test_retries_are_whole_numbers(name, value):
    named = f"^option keymark.storage.{name}: {value!r} is not a whole number$"
    with pytest.raises(InvalidOptionError, match=named):
        storage_at("s3://bucket/t", {f"keymark.storage.{name}": value})


def test_throttling_is_waited_out(s3, url):
    storage = storage_at(url, s3.options)
    with s3.faults(throttle=3, latency=0.001):
        for number in range(5):
            storage.put(f"a/{number}", b"x")
            storage.replace(f"a/{number}", b"y")
        assert len(storage.list("a")) == 5
        assert storage.open("a/1").read(0, 1) == b"y"
        storage.delete_tree("a")
        assert not storage.exists("a")


def test_a_store_that_never_answers_is_one_line_without_secrets(s3, url):
    storage = storage_at(url, {**s3.options, **FEW_RETRIES})
    storage.put("p/file", b"x")
    uses = (
        lambda: storage.put("p/file", b""),
        lambda: storage.replace("p/file", b""),
        lambda: storage.read("p/file"),
        lambda: storage.open("p/file"),
        lambda: storage.delete("p/file"),
        lambda: storage.list("p/file"),
        lambda: list(storage.walk("p/file")),
        lambda: storage.exists("p/file"),
    )
    with s3.faults(throttle=1):
        for use in uses:
            with pytest.raises(
                StorageError, match=r"^cannot \w+ s3://\S+/t/p/file: 503 Service"
            ) as told:
                use()
            assert told.value.__suppress_context__
    assert storage.read("p/file") == b"x"


def test_no_secret_is_shown_or_stored(s3, url):
    table = create(url, s3.options)
    table.upsert(rows([1]))
    with pytest.raises(StorageError) as refused:
        storage_at(f"{url}-other-bucket", s3.options).read("x/../../y")
    shown = [repr(table.storage), str(table.storage), str(refused.value), table.storage.root]
    with pytest.raises(InvalidOptionError) as unknown:
        storage_at(url, {**s3.options, "keymark.storage.acess_key": SECRET})
    assert "keymark.storage.acess_key" in str(unknown.value)
    assert SECRET not in " ".join([*shown, str(unknown.value)])
    assert not any(SECRET.encode() in data for data in contents(table.storage).values())


def test_tasks_connect_by_themselves(s3, url):
    storage = storage_at(url, s3.options)
    storage.put("a", b"x")
    copy = pickle.loads(pickle.dumps(storage))
    assert copy == storage
    assert copy.read("a") == b"x"


def test_reading_small_parts_costs_few_requests(s3, url, monkeypatch):
    storage = storage_at(url, s3.options)
    storage.put("file", bytes(1 << 20))
    asked = []
    read = ObjectStorage.read_range

    def counted(self, path, offset, length):
        asked.append((offset, length))
        return read(self, path, offset, length)

    monkeypatch.setattr(ObjectStorage, "read_range", counted)
    source = storage.open("file")
    for offset in range((1 << 20) - 8, (1 << 20) - 100_000, -5000):
        source.read(offset, 8)
    assert asked == [((1 << 20) - (128 << 10), 128 << 10)]
    for offset in range(0, 100_000, 1000):
        source.read(offset, 1000)
    source.read(0, 400_000)
    assert asked[1:] == [(0, 128 << 10), (0, 400_000)]


def test_a_store_that_does_not_put_if_absent_is_for_one_writer_only(s3, url):
    with s3.faults(blind=True):
        with pytest.raises(StorageError, match=r"cannot put if absent.*single_writer"):
            create(url, s3.options)
        table = create(url, {**s3.options, **ONE_WRITER})
        table.upsert(rows([1, 2]))
        with pytest.raises(FileExistsError):
            table.storage.put(".hoodie/hoodie.properties", b"")
        assert data_rows(table).keys() == {"k1", "k2"}
    off = {**s3.options, "keymark.storage.conditional_put": "disabled"}
    with pytest.raises(StorageError, match="cannot put if absent"):
        Table.open(url, options=off).upsert(rows([3]))
    assert data_rows(Table.open(url, options=off)).keys() == {"k1", "k2"}


def test_of_two_that_create_a_table_one_does(s3, url):
    create(url, s3.options)
    with pytest.raises(StorageError, match="holds a table already"):
        create(url, s3.options)
    other = Table.open(url, options=s3.options)
    assert other.upsert(rows([1])).inserted == 1


def test_where_tables_can_be(tmp_path):
    for bad in ("ftp://host/t", "http://host/t", "s4://bucket/t"):
        with pytest.raises(StorageError, match=r"tables can be at file://, s3://"):
            Table.open(bad)
    with pytest.raises(TableError, match=r"keymark\.storage\.timeout"):
        Table.open("s3://bucket/t", options={"keymark.storage.timeout": "long"})
    assert storage_at(f"file://{tmp_path}", {}).root == str(tmp_path)


@pytest.mark.parametrize("faults", [{"drop": 3}, {"throttle": 4}, {"latency": 0.005}], ids=str)
def test_a_table_on_a_bad_day_loses_and_doubles_nothing(s3, url, faults):
    options = {**s3.options, "keymark.storage.max_retries": "3"}
    table, known = create(url, options), {}
    with s3.faults(**faults):
        for number in range(4):
            batch = rows(range(number, number + 4), ts=number)
            try:
                table.upsert(batch)
            except (StorageError, LockHeldError):
                # Told and not done, or done: a look at the table says which, whole.
                found = data_rows(Table.open(url, options=s3.options))
                assert found.keys() in (known.keys(), known.keys() | set(batch["k"].to_pylist()))
            known = data_rows(Table.open(url, options=s3.options))
    Table.open(url, options=s3.options).upsert(rows(range(7), ts=9))
    table = Table.open(url, options=s3.options)
    assert data_rows(table).keys() == {f"k{n}" for n in range(7)}
    assert table.check().ok


def test_the_command_line(s3, url, tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows([1, 2]).to_pylist()))
    given = [
        part
        for name, value in {**s3.options, **SHARDS, **SMALL_BLOOMS}.items()
        for part in ("--option", f"{name}={value}")
    ]
    keys = ["--key", "k", "--partition", "p", "--ordering", "ts"]

    def run(*arguments):
        done = CliRunner().invoke(app, [*arguments, "--json", *given], catch_exceptions=False)
        assert done.exit_code == 0, done.output
        return json.loads(done.stdout)

    assert run("create", url, *keys)["path"] == url
    assert run("upsert", url, str(path))["inserted"] == 2
    assert run("delete", url, "--key", "k1")["deleted"] == 1
    assert run("read", url)["rows"] == 1
    assert run("lookup", url, "--key", "k2")["keys"][0]["found"]
    assert run("info", url)["rows"] == 1
    assert run("check", url)["ok"]


class Refusing(BaseHTTPRequestHandler):
    """A store, and a machine's metadata service, that let nobody in."""

    def answer(self):
        self.send_response(403)
        self.send_header("Content-Length", "0")
        self.end_headers()

    do_GET = do_HEAD = do_PUT = answer  # noqa: N815 - the base class's names

    def log_message(self, *_):
        pass


@pytest.mark.parametrize("known", [False, True])
def test_s3_without_credentials_says_in_one_line_what_it_looked_for(monkeypatch, capsys, known):
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    with ThreadingHTTPServer(("127.0.0.1", 0), Refusing) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        at = f"http://127.0.0.1:{server.server_port}"
        settings = {"endpoint": at, "metadata_endpoint": at, "allow_http": "true"}
        if known:
            settings |= {"access_key_id": "mine", "secret_access_key": "refused"}
        given = [f"--option=keymark.storage.{name}={value}" for name, value in settings.items()]
        code = keymark_cli.main(["table", "info", "s3://bucket/trips", *given])
        server.shutdown()
    said = capsys.readouterr().err
    assert (code, said.count("\n")) == (2, 1)
    assert said.startswith("error: cannot read s3://bucket/trips/.hoodie/hoodie.properties: 403")
    names = ("keymark.storage.access_key_id", "AWS_ACCESS_KEY_ID", "no role of this machine")
    assert [name in said for name in names] == [not known] * 3
    assert "redacted" not in said


def test_marks_of_empty_folders_that_hadoop_made_do_not_keep_a_deletion_from_ending(s3):
    bucket = s3.bucket()
    storage = storage_at(f"{bucket}/t", s3.options)
    storage.put("a/file", b"1")
    s3._send("PUT", f"/{bucket.removeprefix('s3://')}/t/a/empty/")
    storage.delete_tree("")
    assert [status.path for status in storage.walk("")] == ["a/empty"]
    with pytest.raises(MissingFileError):
        storage.read("a/empty")
