"""The devices whose signatures this machine takes: their public keys, in one file of its owner's.

Every connector of the machine reads the same file; a change shows at the next look.
"""

from __future__ import annotations

import time
from pathlib import Path

import msgspec

from agent_side.folder import alone, write_safely
from bridge.protocol import signing
from bridge.protocol.uplink import DeviceCard

FILE = "devices.json"


class Device(msgspec.Struct, frozen=True, rename="camel"):
    """A paired device."""

    id: str
    key: str
    name: str
    subject: str  # who held it when it was paired
    paired_at: int  # Unix milliseconds

    @property
    def fingerprint(self) -> str:
        """The beginning of its id in words."""
        return signing.fingerprint(self.id)

    @property
    def card(self) -> DeviceCard:
        """What the relay is told of it."""
        return DeviceCard(self.id, self.key, self.name, self.subject)


class _Pinned(msgspec.Struct, frozen=True):
    devices: tuple[Device, ...] = ()
    required: bool = False  # stays when a relay has the last one forgotten


class DevicesUnreadable(OSError):
    """The file is there and is no list of devices: nothing may be taken for unsigned."""


class Devices:
    """The paired devices of this machine."""

    def __init__(self, folder: Path) -> None:
        """Name the folder of all connectors' state; nothing is read yet."""
        self._path = folder / FILE
        self._seen: tuple[int, int, int] | None = None
        self._pinned = _Pinned()
        self._looked = _Pinned()

    def all(self) -> tuple[Device, ...]:
        """Give all devices, the first paired first; raises DevicesUnreadable."""
        return self._read().devices

    def get(self, id_: str) -> Device | None:
        """Give one device."""
        return next((device for device in self.all() if device.id == id_), None)

    @property
    def required(self) -> bool:
        """Whether a device was ever paired here and the owner has not undone that."""
        return self._read().required

    def look(self) -> bool:
        """Give whether something changed since the last look; raises DevicesUnreadable."""
        before, self._looked = self._looked, self._read()
        return self._looked != before

    def pin(self, *, key: str, name: str, subject: str) -> Device:
        """Take a device's key for good, and its signature for needed from now on."""
        id_ = signing.device_id(key)
        device = Device(id_, key, name, subject, time.time_ns() // 1_000_000)
        with alone(self._path):
            others = tuple(one for one in self.all() if one.id != id_)
            self._write(_Pinned((*others, device), required=True))
        return device

    def forget(self, id_: str, *, by_owner: bool) -> Device | None:
        """Take a device's signature no more; gives it if it was there.

        Only the owner, at this machine, ends the need for signatures with the last device.
        """
        with alone(self._path):
            found = self.get(id_)
            left = tuple(one for one in self.all() if one.id != id_)
            required = self.required and not (by_owner and not left)
            if found is not None or by_owner:
                self._write(_Pinned(left, required))
        return found

    def _read(self) -> _Pinned:
        try:
            stat = self._path.stat()
        except FileNotFoundError:
            self._seen, self._pinned = None, _Pinned()
            return self._pinned
        seen = (stat.st_mtime_ns, stat.st_ino, stat.st_size)
        if seen != self._seen:
            self._pinned = self._decode()
            self._seen = seen
        return self._pinned

    def _decode(self) -> _Pinned:
        try:
            return msgspec.json.decode(self._path.read_bytes(), type=_Pinned)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise DevicesUnreadable(f"{self._path} holds no devices: {error}") from None

    def _write(self, pinned: _Pinned) -> None:
        write_safely(self._path, pinned)
        self._path.chmod(0o600)
