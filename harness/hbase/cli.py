"""The command `hbase`: an HBase on this machine, started and stopped."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from keymark.harness.cli import Shown, download_bar
from keymark.harness.hbase import server

app = typer.Typer(
    help="Start and stop an HBase on this machine, for the index `hbase`.", add_completion=False
)
FolderOption = Annotated[
    Path | None, typer.Option("--dir", help="folder of its data; default in the user's cache")
]
JsonOption = Annotated[bool, typer.Option("--json", help="print one JSON document")]


@app.command()
def start(
    *,
    folder: FolderOption = None,
    thrift_port: Annotated[int, typer.Option(help="port of Thrift")] = server.THRIFT_PORT,
    zookeeper_port: Annotated[
        int, typer.Option(help="port of ZooKeeper, for Hudi")
    ] = server.ZOOKEEPER_PORT,
    as_json: JsonOption = False,
) -> None:
    """Start HBase, unless it runs; the first time its jars (145 MB) are downloaded."""
    with Shown() as shown:
        found = server.start(
            (folder or server.default_folder()).absolute(),
            thrift_port=thrift_port,
            zookeeper_port=zookeeper_port,
            show=shown.begin,
            download=download_bar,
        )
    _tell(found, as_json=as_json)


@app.command()
def stop(*, folder: FolderOption = None, as_json: JsonOption = False) -> None:
    """Stop HBase; its tables stay."""
    place = (folder or server.default_folder()).absolute()
    with Shown() as shown:
        stopped = server.stop(place, shown.begin)
    if as_json:
        print(json.dumps({"stopped": stopped}))
    else:
        print("HBase is stopped" if stopped else f"no HBase of {place} runs")


@app.command()
def status(*, folder: FolderOption = None, as_json: JsonOption = False) -> None:
    """Tell whether HBase runs, and where; exit code 1 if it does not."""
    found = server.running((folder or server.default_folder()).absolute())
    _tell(found, as_json=as_json)
    if found is None:
        raise typer.Exit(1)


def _tell(found: server.Running | None, *, as_json: bool) -> None:
    if as_json:
        print(json.dumps({"running": found is not None, **(asdict(found) if found else {})}))
    elif found is None:
        print("HBase does not run: `make hbase` starts it")
    else:
        print(
            f"HBase runs: Thrift at {server.HOST}:{found.thrift_port}, ZooKeeper at "
            f"{server.HOST}:{found.zookeeper_port}, data in {found.folder}"
        )
