"""``reshuffle federate keys``: signing keys of sites, for secure sums."""

from __future__ import annotations

import hashlib
from pathlib import Path

import click

from reshuffle.cli.common import Folder, Output, output_options

KEYS = "keys"
"""The word after ``federate`` that asks for keys; data of this name is ``./keys``."""
SHOWN = 32
"""Characters of a fingerprint: 128 bits, which two people can compare by telephone."""


class FederateCommand(click.Command):
    """``federate DATA``, and ``federate keys``, which is a command of its own."""

    def make_context(
        self,
        info_name: str | None,
        args: list[str],
        parent: click.Context | None = None,
        **extra: object,
    ) -> click.Context:
        if args and args[0] == KEYS:
            return keys.make_context(f"{info_name} {KEYS}", args[1:], parent, **extra)
        return super().make_context(info_name, args, parent, **extra)


@click.command(name=KEYS)
@click.argument("folder", type=Folder())
@click.option(
    "--site",
    "sites",
    multiple=True,
    required=True,
    metavar="NAME",
    help="A site that gets a key; may be given several times, for a trial on one machine.",
)
@output_options
def keys(folder: Path, sites: tuple[str, ...], output: Output) -> None:
    """Make a signing key for secure sums: NAME.key, which nobody else may read, and NAME.pub for the other sites.

    Each site makes its own and sends NAME.pub to the others, who put it beside their own key and compare the fingerprint
    with its owner.

    \b
    Examples:
      reshuffle federate keys keys --site north
      reshuffle federate keys trial --site north --site south --site east
    """
    from reshuffle.federated.secure.settings import check_installed

    check_installed()
    from reshuffle.federated.secure.keys import make_keys

    files = make_keys(folder, sites)
    public = {name: (folder / f"{name}.pub").read_bytes() for name in sites}
    prints = {name: hashlib.sha256(key).hexdigest()[:SHOWN] for name, key in public.items()}
    output.line("\n".join(map(str, files)))
    for name, found in prints.items():
        output.line(f"fingerprint of {name}.pub: {found}")
    output.document({"folder": folder, "files": files, "fingerprints": prints})
