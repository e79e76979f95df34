"""Addresses from which files are downloaded: https, without redirects to other schemes."""

from __future__ import annotations

import os
from typing import IO, TYPE_CHECKING
from urllib.parse import urlsplit
from urllib.request import (
    HTTPDefaultErrorHandler,
    HTTPErrorProcessor,
    HTTPHandler,
    HTTPRedirectHandler,
    HTTPSHandler,
    OpenerDirector,
    ProxyHandler,
    Request,
)

from reshuffle.errors import InputError, shown

if TYPE_CHECKING:
    from http.client import HTTPMessage

ASKED = "RESHUFFLE_HTTP"
"""The environment variable that, set to 1, allows unencrypted addresses."""
LOOPBACK = ("127.0.0.1", "localhost", "::1")


class Refused(Exception):
    """A server's answer that no further attempt would change."""


def check_address(url: str) -> None:
    """Accept https, and http to this machine itself or if RESHUFFLE_HTTP=1 allows it."""
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
    except ValueError:
        raise InputError(f"{shown(url)} is no address") from None
    if not host or any(c.isspace() or not c.isprintable() for c in url):
        raise InputError(f"{shown(url)} is not the address of a server")
    plain = parts.scheme == "http" and (host in LOOPBACK or os.environ.get(ASKED) == "1")
    if parts.scheme != "https" and not plain:
        raise InputError(
            f"{shown(url)} must begin with https://: nobody can change on its way what comes from there. "
            f"{ASKED}=1 in the environment allows http:// too"
        )


class _Redirects(HTTPRedirectHandler):
    def redirect_request(
        self, req: Request, fp: IO[bytes], code: int, msg: str, headers: HTTPMessage, newurl: str
    ) -> Request | None:
        if urlsplit(newurl).scheme != urlsplit(req.full_url).scheme:
            raise Refused(f"the server points to {shown(newurl)}, with another scheme")
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def opener() -> OpenerDirector:
    """An opener for http and https addresses only, which uses the proxies of the environment."""
    director = OpenerDirector()
    for handler in (
        ProxyHandler, HTTPHandler, HTTPSHandler, HTTPDefaultErrorHandler, HTTPErrorProcessor, _Redirects,
    ):  # fmt: skip
        director.add_handler(handler())
    return director
