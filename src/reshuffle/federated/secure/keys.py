"""Signing keys of sites (Ed25519): each has its own private key, and pins the public keys of the others.

A folder at a site holds its private key NAME.key, which nobody else may read, and NAME.pub of every site. The people at the sites
exchange public keys by a channel that they trust, never through the driver.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
    load_pem_public_key,
)

from reshuffle.digests import digest
from reshuffle.errors import InputError
from reshuffle.federated.secure.settings import NAME
from reshuffle.files import write_new

SIGNATURE = 64
"""Bytes of a signature."""
LARGEST = 4096
"""The most bytes of a key file that are read; key files have about 120."""
HINT = "`reshuffle federate keys FOLDER --site NAME` makes a key"


@dataclass(frozen=True, eq=False)
class SiteKeys:
    """The private key of a site, and the public keys that it has pinned."""

    name: str
    private: Ed25519PrivateKey
    pins: Mapping[str, Ed25519PublicKey]

    def sign(self, text: bytes) -> bytes:
        return self.private.sign(text)

    def check(self, name: str, text: bytes, signature: bytes) -> None:
        """Refuse a text that the site of this name has not signed."""
        if name not in self.pins:
            raise InputError(
                f"it has no public key of {name!r}: {name}.pub must lie beside its own key"
            )
        try:
            self.pins[name].verify(signature, text)
        except InvalidSignature:
            raise InputError(
                f"a message in the name of {name!r} is not signed by the key that this site has pinned for it"
            ) from None

    def digest_of(self, names: Sequence[str]) -> str:
        """A digest of the public keys of these sites, by which sites compare what they have pinned."""
        missing = [name for name in names if name not in self.pins]
        if missing:
            raise InputError(
                f"it has no public key of {', '.join(map(repr, missing[:5]))}: NAME.pub of each site must lie beside its "
                f"own key, {self.name}.key"
            )
        return digest({name: self.pins[name].public_bytes_raw() for name in names})


def make_keys(folder: Path, names: Sequence[str]) -> list[Path]:
    """Write NAME.key, readable only by its owner, and NAME.pub for each name; nothing is overwritten."""
    for name in names:
        if not NAME.fullmatch(name):
            raise InputError(
                f"a site's name must be of the letters A to Z and a to z, digits, '.', '_' and '-', got {name!r}"
            )
    if len(set(names)) < len(names):
        raise InputError(f"sites must have different names, got {', '.join(names)}")
    paths = [folder / f"{name}.{end}" for name in names for end in ("key", "pub")]
    there = [path for path in paths if path.exists()]
    if there:
        raise InputError(f"{there[0]} is there already; keys are not overwritten")
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    for name in names:
        private = Ed25519PrivateKey.generate()
        secret = private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        public = private.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
        write_new(folder / f"{name}.key", secret)
        write_new(folder / f"{name}.pub", public, 0o644)
    return paths


def open_keys(folder: str | os.PathLike[str] | None, name: str | None) -> SiteKeys:
    """The keys of the site of this name. Errors name files, but not their contents."""
    if folder is None or name is None:
        raise InputError(f"it has no signing key for secure sums, and no folder for it: {HINT}")
    place = Path(folder)
    own = place / f"{name}.key"
    if not own.is_file():
        others = sorted(path.name for path in place.glob("*.key"))
        found = f"; the folder has {', '.join(others[:3])}" if others else ""
        raise InputError(f"it has no signing key {own.name} in its folder of keys{found}: {HINT}")
    mode = own.stat().st_mode
    if os.name == "posix" and mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise InputError(
            f"its signing key {own.name} can be read by others (mode {stat.S_IMODE(mode):o}): chmod 600, or make "
            "another one if others may have read it"
        )
    private = _loaded(own, lambda text: load_pem_private_key(text, None))
    if not isinstance(private, Ed25519PrivateKey):
        raise InputError(f"its signing key {own.name} is no private key of Ed25519 in PEM format")
    pins = {path.stem: _public(path) for path in sorted(place.glob("*.pub"))}
    raw = {other: key.public_bytes_raw() for other, key in pins.items()}
    if raw.get(name) != private.public_key().public_bytes_raw():
        what = "is not there" if name not in pins else "is of another key"
        raise InputError(f"its signing key {own.name} does not fit: {name}.pub beside it {what}")
    first: dict[bytes, str] = {}
    for other, key in raw.items():
        if first.setdefault(key, other) != other:
            raise InputError(
                f"{first[key]}.pub and {other}.pub hold the same key: each site must have one of its own"
            )
    return SiteKeys(name, private, pins)


def _public(path: Path) -> Ed25519PublicKey:
    found = _loaded(path, load_pem_public_key)
    if not isinstance(found, Ed25519PublicKey):
        raise InputError(f"{path.name} is no public key of Ed25519 in PEM format")
    return found


def _loaded(path: Path, load: Callable[[bytes], object]) -> object:
    """The key in a file; None if it holds none."""
    try:
        with path.open("rb") as file:
            return load(file.read(LARGEST))
    except OSError as error:
        raise InputError(f"{path.name} cannot be read: {error.strerror}") from None
    except (ValueError, TypeError, UnicodeError):
        return None
