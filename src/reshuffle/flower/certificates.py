"""Makes keys for a trial: an authority, the server's certificate, and a key pair for each node.

They are made by pyca/cryptography on the curve P-384, which Flower demands of the keys of nodes.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from reshuffle.errors import InputError, extra
from reshuffle.files import write_new

with extra("flower", "cryptography", "a certificate or a key"):
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.hashes import SHA384
    from cryptography.hazmat.primitives.serialization import (
        Encoding,
        NoEncryption,
        PrivateFormat,
        PublicFormat,
    )

AUTHORITY = "ca"
SERVER = "server"
LOCAL = ("127.0.0.1", "localhost")
"""Names in the server's certificate besides the given ones, by which its own processes reach it."""

OWN = tuple(f"{name}.{end}" for name in (AUTHORITY, SERVER) for end in ("crt", "key"))
NEEDED = tuple(name for name in OWN if name != f"{AUTHORITY}.key")
"""Files of a folder to which sites can be added; the authority's key may have been taken elsewhere."""
LONGEST = 36_500
"""Days for which certificates can be made: a hundred years, since dates end with the year 9999."""
COMMON = 64
"""Characters that the common name of a certificate may have; the names that count are the alternative ones."""
LABEL = re.compile(r"[A-Za-z0-9_]([A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?")
"""A part of the name of a machine, between two dots."""


def make_keys(folder: Path, servers: Sequence[str], sites: Sequence[str], days: int) -> list[Path]:
    """Write ca.crt and ca.key, server.crt and server.key, and for each site its private key and SITE.pub; returns the paths.

    A folder that holds an authority already keeps it, so that sites can be added; no file is overwritten.
    """
    names = [*dict.fromkeys([*servers, *LOCAL])]
    for server in servers:
        _check_server(server)
    if not 1 <= days <= LONGEST:
        raise InputError(f"days must be from 1 to {LONGEST:,}, got {days:,}")
    _check_sites(sites)
    fresh = not any((folder / name).exists() for name in OWN)
    lacking = [name for name in NEEDED if not (folder / name).exists()]
    if not fresh and lacking:
        raise InputError(
            f"{folder} has some files of an authority and a server, and {lacking[0]} is missing: give another folder"
        )
    if not fresh and servers:
        raise InputError(
            f"{folder} has an authority and a server's certificate already: give another folder, or --site alone"
        )
    for path in [folder / f"{site}{end}" for site in sites for end in ("", ".pub")]:
        if path.exists():
            raise InputError(f"{path} is there already; keys are not overwritten")
    folder.mkdir(parents=True, exist_ok=True)
    written = _authority(folder, names, days) if fresh else []
    for site in sites:
        written += _node(folder, site)
    return written


def _check_server(name: str) -> None:
    """Refuse a text that is neither an address nor the name of a machine."""
    with suppress(ValueError):
        ip_address(name)
        return
    labels = name.split(".")
    if len(name) > 253 or not all(map(LABEL.fullmatch, labels)) or labels[-1].isdigit():
        raise InputError(
            "server must be an IP address or the name of a machine, without a port, a scheme or a prefix length, in "
            f"ASCII (letters outside of it as xn--…), got {name!r}"
        )


def _check_sites(sites: Sequence[str]) -> None:
    """Refuse names that cannot be names of files, or that would name two files."""
    for site in sites:
        if not site or not all(c.isalnum() or c in "-_." for c in site) or site.startswith("."):
            raise InputError(
                f"a site's name becomes that of a file: letters, digits, - and _, got {site!r}"
            )
        if site in (AUTHORITY, SERVER, *OWN):
            raise InputError(f"a site cannot be called {site!r}: the folder has files of that name")
    files = [f"{site}{end}" for site in sites for end in ("", ".pub")]
    twice = [name for name in files if files.count(name) > 1]
    if twice:
        raise InputError(f"sites must be different names, and two of them need a file {twice[0]!r}")


def _authority(folder: Path, servers: Sequence[str], days: int) -> list[Path]:
    """An authority that signs one certificate, the server's; its key is written for anyone who wants to sign more."""
    key, server = _key(), _key()
    own, name = _name("reshuffle federation"), _name(servers[0][:COMMON])
    constraint = x509.BasicConstraints(ca=True, path_length=0)
    root = _builder(own, own, key, days).add_extension(constraint, critical=True)
    constraint = x509.BasicConstraints(ca=False, path_length=None)
    leaf = _builder(name, own, server, days).add_extension(constraint, critical=True)
    for told in (
        x509.SubjectAlternativeName([_general(one) for one in servers]),
        x509.ExtendedKeyUsage([x509.oid.ExtendedKeyUsageOID.SERVER_AUTH]),
        x509.AuthorityKeyIdentifier.from_issuer_public_key(key.public_key()),
    ):
        leaf = leaf.add_extension(told, critical=False)
    written = []
    for stem, certificate, private in ((AUTHORITY, root, key), (SERVER, leaf, server)):
        public, secret = folder / f"{stem}.crt", folder / f"{stem}.key"
        write_new(public, certificate.sign(key, SHA384()).public_bytes(Encoding.PEM), 0o644)
        write_new(secret, _private(private, PrivateFormat.PKCS8))
        written += [public, secret]
    return written


def _node(folder: Path, site: str) -> list[Path]:
    """A node's key pair in the format of OpenSSH, which Flower reads."""
    key = _key()
    public = key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH)
    write_new(folder / site, _private(key, PrivateFormat.OpenSSH))
    write_new(folder / f"{site}.pub", public + f" {site}\n".encode(), 0o644)
    return [folder / site, folder / f"{site}.pub"]


def _key() -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(ec.SECP384R1())


def _private(key: ec.EllipticCurvePrivateKey, form: PrivateFormat) -> bytes:
    return key.private_bytes(Encoding.PEM, form, NoEncryption())


def _name(common: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, common)])


def _general(name: str) -> x509.GeneralName:
    """An address or a name of a machine."""
    try:
        return x509.IPAddress(ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, days: int
) -> x509.CertificateBuilder:
    now, public = datetime.now(UTC), key.public_key()
    made = x509.CertificateBuilder().subject_name(subject).issuer_name(issuer).public_key(public)
    made = made.serial_number(x509.random_serial_number()).not_valid_before(
        now - timedelta(hours=1)
    )
    identifier = x509.SubjectKeyIdentifier.from_public_key(public)
    return made.not_valid_after(now + timedelta(days=days)).add_extension(identifier, False)
