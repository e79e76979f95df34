"""``reshuffle flower``: an app for a federation between sites, and the keys for a trial of one."""

from __future__ import annotations

from pathlib import Path

import click

from reshuffle.cli.common import Folder, Output, output_options


@click.group()
def flower() -> None:
    """Run a federation between sites by Flower: its SuperLink at the server, a SuperNode at each site.

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
    """Write a small ready app into FOLDER, which `flwr run` takes as it is.

    \b
    Examples:
      reshuffle flower new study && flwr run study --stream
      reshuffle flower new study --sites sites.toml
    """
    from reshuffle.flower.new import new_app

    files = new_app(folder, sites, names)
    output.line("\n".join(map(str, files)))
    output.line(f"simulate it with: flwr run {folder} --stream")
    output.document({"folder": folder, "files": files})
