"""A server on loopback that downloads come from, with an empty cache, as long as a test runs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from reshuffle.datasets import download


@contextmanager
def serving(
    handler: type[BaseHTTPRequestHandler], folder: Path, patch: pytest.MonkeyPatch
) -> Iterator[None]:
    """Downloads ask this handler and are kept in ``folder``/cache."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    patch.delenv("RESHUFFLE_DATA", raising=False)
    patch.setenv("RESHUFFLE_CACHE", str(folder / "cache"))
    patch.setenv("RESHUFFLE_URL", f"http://127.0.0.1:{server.server_port}/")
    patch.setenv("no_proxy", "127.0.0.1")
    patch.setattr(download, "PAUSE", 0.001)
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
