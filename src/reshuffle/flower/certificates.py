"""Makes keys for a trial: an authority, the server's certificate, and a key pair for each node.

They are made by pyca/cryptography on the curve P-384, which Flower demands of the keys of nodes.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING

from reshuffle.errors import InputError, extra
from reshuffle.files import write_atomically

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
    from cryptography.x509 import Certificate, CertificateBuilder, GeneralName, Name

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
    with extra("flower", "cryptography", "a certificate or a key"):
        import cryptography.x509  # noqa: F401  # so that nothing is written where it is missing
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
    from cryptography import x509

    key, server = _key(), _key()
    own = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "reshuffle federation")])
    constraint = x509.BasicConstraints(ca=True, path_length=0)
    root = _signed(_builder(own, own, key, days).add_extension(constraint, critical=True), key)
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, servers[0][:COMMON])])
    told = x509.SubjectAlternativeName([_general(one) for one in servers])
    leaf = _builder(name, own, server, days).add_extension(told, critical=False)
    leaf = leaf.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
    leaf = leaf.add_extension(
        x509.ExtendedKeyUsage([x509.oid.ExtendedKeyUsageOID.SERVER_AUTH]), critical=False
    )
    issued = x509.AuthorityKeyIdentifier.from_issuer_public_key(key.public_key())
    signed = _signed(leaf.add_extension(issued, critical=False), key)
    return [
        _write(folder / f"{AUTHORITY}.crt", _pem(root), secret=False),
        _write(folder / f"{AUTHORITY}.key", _private(key), secret=True),
        _write(folder / f"{SERVER}.crt", _pem(signed), secret=False),
        _write(folder / f"{SERVER}.key", _private(server), secret=True),
    ]


def _node(folder: Path, site: str) -> list[Path]:
    """A node's key pair in the format of OpenSSH, which Flower reads."""
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    key = _key()
    public = key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH)
    return [
        _write(folder / site, _private(key, openssh=True), secret=True),
        _write(folder / f"{site}.pub", public + f" {site}\n".encode(), secret=False),
    ]


def _key() -> EllipticCurvePrivateKey:
    from cryptography.hazmat.primitives.asymmetric import ec

    return ec.generate_private_key(ec.SECP384R1())


def _builder(
    subject: Name, issuer: Name, key: EllipticCurvePrivateKey, days: int
) -> CertificateBuilder:
    from cryptography import x509

    now = datetime.now(UTC)
    made = x509.CertificateBuilder().subject_name(subject).issuer_name(issuer)
    made = made.public_key(key.public_key()).serial_number(x509.random_serial_number())
    made = made.not_valid_before(now - timedelta(hours=1)).not_valid_after(
        now + timedelta(days=days)
    )
    return made.add_extension(
        x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False
    )


def _signed(builder: CertificateBuilder, key: EllipticCurvePrivateKey) -> Certificate:
    from cryptography.hazmat.primitives import hashes

    return builder.sign(key, hashes.SHA384())


def _general(name: str) -> GeneralName:
    """An address or a name of a machine."""
    from cryptography import x509

    try:
        return x509.IPAddress(ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _pem(certificate: Certificate) -> bytes:
    from cryptography.hazmat.primitives.serialization import Encoding

    return certificate.public_bytes(Encoding.PEM)


def _private(key: EllipticCurvePrivateKey, openssh: bool = False) -> bytes:
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    form = PrivateFormat.OpenSSH if openssh else PrivateFormat.PKCS8
    return key.private_bytes(Encoding.PEM, form, NoEncryption())


def _write(path: Path, content: bytes, secret: bool) -> Path:
    """Write a new file; from the moment it exists, a file with a secret is readable only by its owner."""
    if path.exists():
        raise InputError(f"{path} is there already; keys are not overwritten")
    if not secret:
        write_atomically(path, content)
        return path
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(content)
    return path
