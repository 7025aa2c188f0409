"""Tables on a real HDFS, and answers of its name node that are lost on the way."""

from __future__ import annotations

import contextlib
import socket
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from table_cases import create, data_rows, rows

from keymark import Table
from keymark.table.errors import StorageError
from keymark.table.layout.naming import STAGING
from keymark.table.properties.options import LOCAL_BYTES
from keymark.table.storage.stores import storage_at


class Cutting:
    """A proxy in front of a name node; once it is armed, it cuts off a connection at a rename.

    Of `request` the name node sees nothing, of `answer` it has done what it was asked.
    """

    def __init__(self, port, lost):
        self._port, self._lost, self.armed = port, lost, threading.Event()
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port = self._server.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._server.accept()
                node = socket.create_connection(("127.0.0.1", self._port))
                cut = threading.Event()
                for source, sink in ((client, node), (node, client)):
                    threading.Thread(
                        target=self._pump, args=(source, sink, cut, sink is node), daemon=True
                    ).start()

    def _pump(self, source, sink, cut, asking):
        with contextlib.suppress(OSError):
            while data := source.recv(1 << 16):
                if asking and self.armed.is_set() and b"rename2" in data:
                    self.armed.clear()
                    cut.set()
                if cut.is_set() and (self._lost == "request" or not asking):
                    break
                sink.sendall(data)
        for end in (source, sink):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()

    def close(self):
        self._server.close()


@pytest.mark.parametrize("lost", ["answer", "request"])
def test_a_rename_whose_answer_is_lost_is_known_all_the_same(hdfs, lost):
    with contextlib.closing(Cutting(hdfs.port, lost)) as proxy:
        storage = storage_at(f"hdfs://127.0.0.1:{proxy.port}/{lost}", {})
        storage.put("mine/first", b"first")
        for number in range(3):
            proxy.armed.set()
            if lost == "answer":
                storage.put(f"mine/{number}", b"mine")
            else:
                with pytest.raises(StorageError, match=r"^cannot write \S+/mine/\d: "):
                    storage.put(f"mine/{number}", b"mine")
            assert not proxy.armed.is_set()
        found = [status.path for status in storage.walk("")]
    assert found == [*(f"mine/{n}" for n in range(3) if lost == "answer"), "mine/first"]
    assert storage_at(f"{hdfs.url}/{lost}", {}).list(STAGING) == []


def test_a_name_node_that_takes_nothing_is_one_line(hdfs):
    storage = storage_at(f"{hdfs.url}/safe", {})
    storage.put("a", b"x")
    node = hdfs.node.getNamesystem()
    node.enterSafeMode(False)
    try:
        with pytest.raises(StorageError, match=r"^cannot write \S+/safe/b: SafeModeException: \S+"):
            storage.put("b", b"y")
        assert storage.read("a") == b"x"
    finally:
        node.leaveSafeMode(True)
    storage.put("b", b"y")


@pytest.mark.slow
def test_a_table_of_two_writers(hdfs):
    url = f"{hdfs.url}/user/two"
    create(url)
    tables = [Table.open(url) for _ in range(2)]
    with ThreadPoolExecutor(2) as pool:
        done = pool.map(lambda n: tables[n].upsert(rows(range(n * 10, n * 10 + 15))), range(2))
        assert sorted(each.inserted for each in done) == [10, 15]
    table = Table.open(url)
    assert data_rows(table).keys() == {f"k{n}" for n in range(25)}
    table.delete(["k1"])
    assert data_rows(Table.open(url)).keys() == {f"k{n}" for n in range(25) if n != 1}
    assert table.check().ok


@pytest.mark.spark
@pytest.mark.slow
def test_spark_tasks_write_and_read(hdfs, spark):
    """Each Python worker has a JVM of its own."""
    table = create(f"{hdfs.url}/user/spark", {LOCAL_BYTES: "0"}, spark=spark)
    table.upsert(spark.createDataFrame(rows(range(200)).to_pandas()))
    table.upsert(spark.createDataFrame(rows(range(100, 300), ts=2, value="w").to_pandas()))
    assert table.read().where("v like 'w%'").count() == 200
    assert table.read().count() == 300
    assert table.check().ok
