"""A store for tests: the part of S3 that Arrow uses for small files, over a folder.

Buckets are folders.  Signatures are not checked, and there are no uploads in parts.
https://docs.aws.amazon.com/AmazonS3/latest/API/
"""

from __future__ import annotations

import io
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape


@contextmanager
def s3_server(root: Path) -> Iterator[dict[str, str]]:
    """Serve a folder on the loopback interface; yield the environment of its clients."""
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(_Requests, root)) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield {
                "AWS_ENDPOINT_URL": f"http://127.0.0.1:{server.server_port}",
                "AWS_ACCESS_KEY_ID": "id",
                "AWS_SECRET_ACCESS_KEY": "secret",
                "AWS_DEFAULT_REGION": "us-east-1",
            }
        finally:
            server.shutdown()
            thread.join()


class _Requests(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def __init__(self, root: Path, *arguments: object) -> None:
        self._root = root
        super().__init__(*arguments)  # type: ignore[arg-type]  # the server's

    def do_GET(self) -> None:  # of the base class
        url = urlsplit(self.path)
        path = self._root / unquote(url.path).strip("/")
        query = {name: values[0] for name, values in parse_qs(url.query).items()}
        if "list-type" in query:
            self._list(path, query.get("prefix", ""), query.get("delimiter", ""))
        elif path.is_file():
            data = path.read_bytes()
            if span := self.headers["Range"]:
                first, last = span.removeprefix("bytes=").split("-")
                self._answer(206, data[int(first) : int(last) + 1])
            else:
                self._answer(200, data)
        else:
            self._answer(200 if path.parent == self._root and path.is_dir() else 404)

    do_HEAD = do_GET  # noqa: N815  # of the base class

    def do_PUT(self) -> None:  # of the base class
        if "chunked" in self.headers.get("Transfer-Encoding", ""):
            data = _joined(self.rfile)
        else:
            data = self.rfile.read(int(self.headers["Content-Length"]))
        if "aws-chunked" in self.headers.get("Content-Encoding", ""):
            data = _joined(io.BytesIO(data))
        path = self._root / unquote(urlsplit(self.path).path).lstrip("/")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            if self.path.endswith("/"):  # how folders are marked
                path.mkdir(exist_ok=True)
            else:
                path.write_bytes(data)
        except OSError:
            self._answer(403)
        else:
            self._answer(200)

    def _list(self, bucket: Path, prefix: str, delimiter: str) -> None:
        items = []
        folders = set()
        for path in sorted(bucket.rglob("*")):
            key = path.relative_to(bucket).as_posix() + "/" * path.is_dir()
            rest = key.removeprefix(prefix)
            if not key.startswith(prefix):
                continue
            if delimiter and delimiter in rest:
                folders.add(prefix + rest.partition(delimiter)[0] + delimiter)
            else:
                size = path.stat().st_size if path.is_file() else 0
                items.append(f"<Contents><Key>{escape(key)}</Key><Size>{size}</Size></Contents>")
        prefixes = [f"<Prefix>{escape(folder)}</Prefix>" for folder in folders]
        items += [f"<CommonPrefixes>{each}</CommonPrefixes>" for each in prefixes]
        items.append(f"<KeyCount>{len(items)}</KeyCount>")
        body = f"<ListBucketResult>{''.join(items)}</ListBucketResult>"
        self._answer(200, body.encode())

    def _answer(self, code: int, body: bytes = b"") -> None:
        self.send_response(code)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("ETag", '"of no meaning"')
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


def _joined(body: io.BufferedIOBase) -> bytes:
    """Return a body that comes in chunks, each after a line with its length."""
    joined = b""
    while length := int(body.readline().partition(b";")[0], 16):
        joined += body.read(length)
        body.readline()
    while body.readline().strip():
        pass  # trailers
    return joined
