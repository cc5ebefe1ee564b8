"""The relay's signing keys: one Ed25519 key a file, ``<n>.pem``; the highest number signs.

Older keys still check what they signed, until their file is deleted. Relay processes look at the
folder once a second while tokens come in, so keys change without a restart.
"""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Callable
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)

from bridge.protocol.errors import InvalidParams

LOOK_SECONDS = 1.0


class SigningKeys:
    """The keys of one folder, by their id."""

    def __init__(self, folder: Path, *, clock: Callable[[], float] = time.monotonic) -> None:
        """Read the keys, making the first one when there is none; raises OSError."""
        self._folder = folder
        self._clock = clock
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        if not _files(folder):
            _make(folder, "1")
        self._names = _files(folder)
        self._keys = {path.stem: _read(path) for path in self._names}
        self._publics = {kid: key.public_key() for kid, key in self._keys.items()}
        self._looked_at = clock()

    @property
    def newest(self) -> tuple[str, Ed25519PrivateKey]:
        """Give the key that signs, with its id."""
        self._look()
        kid = max(self._keys, key=int)
        return kid, self._keys[kid]

    def public(self, kid: str) -> Ed25519PublicKey | None:
        """Give the key that checks what a key signed, if it still counts."""
        self._look()
        return self._publics.get(kid)

    def publics(self) -> dict[str, Ed25519PublicKey]:
        """Give every key that still counts, by its id."""
        self._look()
        return dict(self._publics)

    def rotate(self) -> str:
        """Make the next key, which signs from now on; gives its id."""
        kid = str(max(int(path.stem) for path in _files(self._folder)) + 1)
        _make(self._folder, kid)
        self._look(at_once=True)
        return kid

    def retire(self, kid: str) -> None:
        """Delete an older key: what it signed is no longer taken; raises InvalidParams."""
        newest, _ = self.newest
        if kid == newest:
            raise InvalidParams(f"key {kid} signs now: rotate first, then retire it")
        if kid not in self._keys:
            raise InvalidParams(f"there is no key {kid!r:.40}; there are {', '.join(self._keys)}")
        (self._folder / f"{kid}.pem").unlink(missing_ok=True)
        self._look(at_once=True)

    def _look(self, *, at_once: bool = False) -> None:
        """Take in what changed in the folder; an unreadable one changes nothing."""
        now = self._clock()
        if now - self._looked_at < LOOK_SECONDS and not at_once:
            return
        self._looked_at = now
        try:
            names = _files(self._folder)
            if names == self._names or not names:
                return
            keys = {path.stem: self._keys.get(path.stem) or _read(path) for path in names}
        except OSError:
            return
        self._names, self._keys = names, keys
        self._publics = {kid: key.public_key() for kid, key in keys.items()}


def _files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.glob("*.pem") if path.stem.isdecimal())


def _read(path: Path) -> Ed25519PrivateKey:
    try:
        key = load_pem_private_key(path.read_bytes(), password=None)
    except (ValueError, TypeError) as error:
        raise OSError(f"{path} is no private key in PEM: {error}") from None
    if not isinstance(key, Ed25519PrivateKey):
        raise OSError(f"{path} is no Ed25519 key")
    return key


def _make(folder: Path, kid: str) -> None:
    pem = Ed25519PrivateKey.generate().private_bytes(
        Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()
    )
    draft = folder / f".{kid}-{secrets.token_hex(8)}"
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(pem)
        file.flush()
        os.fsync(file.fileno())
    try:
        os.link(draft, folder / f"{kid}.pem")  # two processes that start at once agree on one
    except FileExistsError:
        pass
    finally:
        draft.unlink()
