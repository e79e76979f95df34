"""A federation run by Flower: a ServerApp over the driver, a ClientApp over the host of a site.

An app is two lines: ``app = server_app()`` in one module and ``app = client_app()`` in another. The run configuration of the
app says what is trained and how; the configuration of each node says where the data of its site lies. ``reshuffle flower new``
writes such an app.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from reshuffle.flower.client import client_app
    from reshuffle.flower.server import server_app
    from reshuffle.flower.strategy import ProxFedAvg

__all__ = ["ProxFedAvg", "client_app", "server_app"]

# Public name -> module that has it. Each message starts a process at a site, which needs the client's part alone.
_HOMES = {"client_app": "client", "server_app": "server", "ProxFedAvg": "strategy"}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
