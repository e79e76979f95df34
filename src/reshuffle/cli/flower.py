"""``reshuffle flower``: writes an app for a federation between sites, and keys to try it out."""

from __future__ import annotations

import shlex
from importlib.util import find_spec
from pathlib import Path

import click

from reshuffle.cli.common import Folder, Output, output_options

SIMULATED = 2
"""The number of nodes that Flower simulates by default."""


@click.group()
def flower() -> None:
    """Set up a federation over a network, with Flower.

    A SuperLink runs at the server and a SuperNode at each site; docs/flower.md shows the whole set-up.

    \b
    Examples:
      reshuffle flower new study
      reshuffle flower certs keys --server 10.0.0.1 --site north --site south
    """


@flower.command()
@click.argument("folder", type=Folder())
@click.option(
    "--sites",
    metavar="FILE",
    help="A sites.toml, or a folder with a file for each site, whose settings and names the app takes over. A simulation "
    "runs on its data.",
)
@click.option("--names", metavar="NAME,NAME", help="The sites.  [default: north, south]")
@output_options
def new(folder: Path, sites: str | None, names: str | None, output: Output) -> None:
    """Write an app that `flwr run` takes as it is.

    \b
    Examples:
      reshuffle flower new study && flwr run study --stream
      reshuffle flower new study --sites sites.toml
    """
    from reshuffle.flower.new import new_app

    files, count = new_app(folder, sites, names)
    output.line("\n".join(map(str, files)))
    more = f' --federation-config "num-supernodes={count}"' if count != SIMULATED else ""
    output.line(f"simulate it with: flwr run {shlex.quote(str(folder))} --stream{more}")
    if find_spec("flwr") is None:
        output.note('flwr is not installed here: pip install "reshuffle[flower]"')
    output.document({"folder": folder, "files": files})


@flower.command()
@click.argument("folder", type=Folder())
@click.option(
    "--server",
    "servers",
    multiple=True,
    metavar="ADDRESS",
    help="An address or a name by which the sites reach the server; may be given several times. 127.0.0.1 and localhost "
    "are always among them.",
)
@click.option(
    "--site",
    "sites",
    multiple=True,
    metavar="NAME",
    help="A site that gets a key; may be given several times.",
)
@click.option("--days", type=click.IntRange(min=1), default=90, show_default=True,
              help="Days for which the certificates are valid.")  # fmt: skip
@output_options
def certs(
    folder: Path, servers: tuple[str, ...], sites: tuple[str, ...], days: int, output: Output
) -> None:
    """Make the keys and certificates of a trial.

    They are an authority, the server's certificate, and a key pair for each site. The server needs server.crt, server.key, ca.crt and every NAME.pub; a site needs ca.crt and NAME, its private key. ca.key
    stays where it was made. For a federation that lasts, let each site make its own key and send its public part alone.

    \b
    Examples:
      reshuffle flower certs keys --server 10.0.0.1 --site north --site south
      reshuffle flower certs keys --site east
    """
    from reshuffle.flower.certificates import make_keys

    files = make_keys(folder, servers, sites, days)
    output.line("\n".join(map(str, files)))
    output.document({"folder": folder, "files": files})
