"""Starting an HBase: what is refused, and what a dead one leaves is no obstacle."""

from __future__ import annotations

import json
import os
import socket
import xml.etree.ElementTree as ET

import pytest
from typer.testing import CliRunner

from keymark.harness.errors import HarnessError
from keymark.harness.hbase import cli
from keymark.harness.hbase import server as hbase_server

PORTS = {"thrift_port": 1, "zookeeper_port": 2}


def begin(folder, **ports):
    def download(name):
        raise AssertionError(f"{name} is downloaded before the ports are looked at")

    return hbase_server.start(folder, show=lambda _: None, download=download, **{**PORTS, **ports})


def state_of(folder, pid):
    state = {
        "folder": str(folder),
        "thrift_port": 1,
        "zookeeper_port": 2,
        "server_pid": pid,
        "thrift_pid": pid,
    }
    (folder / "state.json").write_text(json.dumps(state))


@pytest.fixture
def taken():
    """A port that is taken; the one below it is free."""
    while True:
        with socket.socket() as holder:
            holder.bind((hbase_server.HOST, 0))
            port = holder.getsockname()[1]
            with socket.socket() as below:
                try:
                    below.bind((hbase_server.HOST, port - 1))
                except OSError:
                    continue
            holder.listen()
            yield port
            return


@pytest.fixture
def free():
    with socket.socket() as probe:
        probe.bind((hbase_server.HOST, 0))
        return probe.getsockname()[1]


def test_a_port_that_is_taken_is_named_with_its_option(tmp_path, taken, free):
    with pytest.raises(HarnessError, match=rf"Thrift's port {taken} .*--thrift-port"):
        begin(tmp_path, thrift_port=taken)
    with pytest.raises(HarnessError, match=rf"ZooKeeper's port {taken} .*--zookeeper-port"):
        begin(tmp_path, thrift_port=free, zookeeper_port=taken)
    with pytest.raises(HarnessError, match=rf"HBase's master's port {taken}"):
        begin(tmp_path, thrift_port=free, zookeeper_port=taken - 1)


@pytest.mark.parametrize("pid", [pytest.param(os.getpid(), id="another"), 2**22 + 1])
def test_another_process_or_none_is_not_taken_for_hbase(tmp_path, pid):
    state_of(tmp_path, pid)
    assert hbase_server.running(tmp_path) is None
    assert not hbase_server.stop(tmp_path, lambda _: None)
    assert not (tmp_path / "state.json").exists()


@pytest.mark.parametrize("text", ["", "{}", "[]", "nonsense"])
def test_a_damaged_state_is_none(tmp_path, text):
    (tmp_path / "state.json").write_text(text)
    assert hbase_server.running(tmp_path) is None
    assert not hbase_server.stop(tmp_path, lambda _: None)


def test_all_addresses_are_local(tmp_path):
    folder = tmp_path / "a & b"
    folder.mkdir()
    hbase_server._write_site(folder, 2181)
    root = ET.parse(folder / "conf" / "hbase-site.xml").getroot()
    settings = {p.findtext("name"): p.findtext("value") for p in root}
    for name, value in settings.items():
        if name.endswith(("address", "Address", "quorum")):
            assert value == "127.0.0.1"
    assert settings["hbase.tmp.dir"] == f"{folder}/data/tmp"
    assert settings["hbase.master.port"] == "2182"


def test_commands_without_a_server(tmp_path):
    runner = CliRunner()
    folder = ["--dir", str(tmp_path)]
    told = runner.invoke(cli.app, ["status", *folder, "--json"])
    assert (told.exit_code, json.loads(told.stdout)) == (1, {"running": False})
    told = runner.invoke(cli.app, ["stop", *folder, "--json"])
    assert (told.exit_code, json.loads(told.stdout)) == (0, {"stopped": False})
