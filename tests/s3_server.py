"""An S3 on this machine's loopback: moto's server in a process of its own, and faults to order.

    python tests/s3_server.py        prints `{"port": N}` and serves until its input ends

One lock around the application makes its put-if-absent atomic, as S3's is: by itself moto looks
first and writes then. The faults are the network's and the service's, in front of that lock:

    latency    seconds that every request takes longer
    throttle   of so many requests one is answered with 503 SlowDown, undone
    drop       of so many writing requests one is done, and its answer lost
    blind      If-None-Match is not looked at, as by some servers that speak S3

It counts the requests of each kind that it got, by HTTP method and, for lists and deletions of many
objects, by query.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import secrets
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

_CONTROL, _COUNTS = "/_faults", "/_counts"
_SLOW_DOWN = b"<Error><Code>SlowDown</Code><Message>Reduce your request rate.</Message></Error>"
KEY, SECRET = "loopback", "canary-of-a-secret"


@dataclass(frozen=True, slots=True)
class Faults:
    """What goes wrong; 0 is never."""

    latency: float = 0.0
    throttle: int = 0
    drop: int = 0
    blind: bool = False


class FaultyApp:
    """A WSGI application behind one lock, with faults in front of it."""

    def __init__(self, app: Callable[..., Iterable[bytes]]) -> None:
        self._app = app
        self._lock = threading.Lock()
        self._faults = Faults()
        self._requests, self._writes = itertools.count(1), itertools.count(1)
        self._kinds: Counter[str] = Counter()

    def __call__(self, environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        if environ["PATH_INFO"] == _CONTROL:
            return self._set(environ, start)
        if environ["PATH_INFO"] == _COUNTS:
            told = json.dumps(self._kinds).encode()
            start("200 OK", [("Content-Length", str(len(told)))])
            return [told]
        self._kinds[kind_of(environ["REQUEST_METHOD"], environ["QUERY_STRING"])] += 1
        faults = self._faults
        time.sleep(faults.latency)
        if faults.throttle and next(self._requests) % faults.throttle == 0:
            start("503 Slow Down", [("Content-Type", "application/xml")])
            return [_SLOW_DOWN]
        if faults.blind:
            environ.pop("HTTP_IF_NONE_MATCH", None)
        with self._lock:
            answer = list(self._app(environ, start))
        writes = environ["REQUEST_METHOD"] in ("PUT", "POST", "DELETE")
        if writes and faults.drop and next(self._writes) % faults.drop == 0:
            environ["werkzeug.socket"].shutdown(socket.SHUT_RDWR)
        return answer

    def _set(self, environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        length = int(environ["CONTENT_LENGTH"])
        self._faults = Faults(**json.loads(environ["wsgi.input"].read(length)))
        self._requests, self._writes = itertools.count(1), itertools.count(1)
        start("200 OK", [("Content-Length", "0")])
        return []


def kind_of(method: str, query: str) -> str:
    """The kind of a request, as Keymark names it; others by their method."""
    if method == "GET" and ("list-type=" in query or "delimiter=" in query):
        return "list"
    if method == "POST" and query.partition("&")[0].partition("=")[0] == "delete":
        return "delete"
    return method.lower()


def serve() -> None:
    """Serve on a free port until the parent closes this process's input."""
    from moto.server import create_backend_app
    from werkzeug.serving import WSGIRequestHandler, make_server

    class Handler(WSGIRequestHandler):
        protocol_version = "HTTP/1.1"

        def log(self, *_: Any) -> None:
            pass

    app = FaultyApp(create_backend_app("s3"))
    server = make_server("127.0.0.1", 0, app, threaded=True, request_handler=Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    sys.stdout.write(json.dumps({"port": server.server_port}) + "\n")
    sys.stdout.flush()
    sys.stdin.read()


@dataclass(frozen=True, slots=True)
class S3Server:
    """A server that runs."""

    endpoint: str

    @property
    def options(self) -> dict[str, str]:
        """The options of a table there."""
        options = {
            "endpoint": self.endpoint,
            "allow_http": "true",
            "region": "us-east-1",
            "access_key_id": KEY,
            "secret_access_key": SECRET,
        }
        return {f"keymark.storage.{name}": value for name, value in options.items()}

    def bucket(self) -> str:
        """The URL of a new bucket."""
        name = f"bucket-{secrets.token_hex(8)}"
        self._send("PUT", f"/{name}")
        return f"s3://{name}"

    @contextlib.contextmanager
    def faults(self, **faults: Any) -> Iterator[None]:
        """Let things go wrong for a while."""
        self._send("POST", _CONTROL, json.dumps(asdict(Faults(**faults))).encode())
        try:
            yield
        finally:
            self._send("POST", _CONTROL, json.dumps(asdict(Faults())).encode())

    def counts(self) -> dict[str, int]:
        """The requests so far, by kind."""
        return dict(json.loads(self._send("GET", _COUNTS)))

    def _send(self, method: str, path: str, data: bytes = b"") -> bytes:
        headers = {"Content-Length": str(len(data)), "Content-Type": "application/octet-stream"}
        request = urllib.request.Request(self.endpoint + path, data, headers=headers, method=method)
        with urllib.request.urlopen(request, timeout=60) as answer:
            return bytes(answer.read())


@contextlib.contextmanager
def s3_server() -> Iterator[S3Server]:
    """A server for as long as the context is open; it ends with this process, too."""
    command = [sys.executable, str(Path(__file__).resolve())]
    # Of the surroundings' settings for AWS none must count.
    surroundings = {k: v for k, v in os.environ.items() if not k.startswith("AWS_")}
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=surroundings
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        port = json.loads(process.stdout.readline())["port"]
        try:
            yield S3Server(f"http://127.0.0.1:{port}")
        finally:
            process.stdin.close()


if __name__ == "__main__":
    serve()
