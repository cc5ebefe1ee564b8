"""The chain that shows when an audit record was changed, removed or slipped in.

The *link* of a record is the SHA-256 over the link before it and the record itself. A *seal* is a
link signed with a key of the relay, which Redis does not hold: whoever can write Redis cannot make
one. What was cut at its age limit leaves its last seal behind, and the chain goes on from there.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections import deque
from collections.abc import Mapping
from typing import NamedTuple

import msgspec
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey


class Record(NamedTuple):
    """One audit record: its stream id and its fields of text."""

    id: str
    fields: dict[str, str]

    @property
    def place(self) -> tuple[int, int]:
        """Give what records are in order by."""
        return place_of(self.id)


class Seal(msgspec.Struct, frozen=True):
    """A signed link: the record it is of, how many there were up to it, and who signed."""

    upto: str
    count: int
    link: str  # hex
    kid: str
    signature: str  # base64


class Finding(NamedTuple):
    """What a check of a tenant's chain found; ``fault`` is empty when it holds."""

    records: int
    seals: int
    unsealed: int  # the newest ones, written since the last seal
    newest_link: str
    fault: str


def place_of(stream_id: str) -> tuple[int, int]:
    """Give the two numbers of a stream id."""
    time, _, number = stream_id.partition("-")
    return int(time), int(number)


def beginning(tenant: str) -> bytes:
    """Give the link before a tenant's first record."""
    return hashlib.sha256(f"audit {tenant}".encode()).digest()


def link(before: bytes, record: Record) -> bytes:
    """Give the link of a record that comes after the record with the link ``before``."""
    text = msgspec.json.encode([record.id, sorted(record.fields.items())])
    return hashlib.sha256(before + text).digest()


def sealed_text(tenant: str, upto: str, count: int, link_hex: str) -> bytes:
    """Give the bytes that a seal's signature is over."""
    return msgspec.json.encode(["audit-seal", tenant, upto, count, link_hex])


class Walk:
    """A walk along a tenant's records, the oldest first, from seal to seal.

    Records older than ``cut_before`` (Unix milliseconds) may be gone: they were cut with age.
    """

    def __init__(
        self,
        tenant: str,
        seals: list[Seal],
        keys: Mapping[str, Ed25519PublicKey],
        cut_before: int,
    ) -> None:
        """Check the seals' signatures; then every record wants its step."""
        self.fault = _wrong_seal(tenant, seals, keys)
        self._ahead = deque(seals)
        self._cut_before = cut_before
        self._link, self._count = beginning(tenant), 0
        self._is_cut = False  # the part up to the next seal may lack its beginning
        self._records = self._unsealed = 0
        self._seals = seals

    def step(self, record: Record) -> bool:
        """Take the next record; False when the chain is broken here or was before."""
        if not self._records:
            self._begin(record)
        self._records += 1
        self._unsealed += 1
        self._link, self._count = link(self._link, record), self._count + 1
        if self._ahead and place_of(self._ahead[0].upto) <= record.place:
            self._meet(self._ahead.popleft(), record)
        return not self.fault

    def finding(self) -> Finding:
        """Give the result, when no record is left or the chain broke."""
        for seal in self._ahead:
            if not self._may_be_cut(seal.upto):
                self._break(f"record {seal.upto} was sealed and is gone")
        newest = self._seals[-1].link if self._seals else ""
        return Finding(self._records, len(self._seals), self._unsealed, newest, self.fault)

    def _begin(self, first: Record) -> None:
        """Go on from the newest seal before the first record that is held."""
        while self._ahead and place_of(self._ahead[0].upto) < first.place:
            seal = self._ahead.popleft()
            if not self._may_be_cut(seal.upto):
                self._break(f"record {seal.upto} was sealed and is gone")
            self._link, self._count = bytes.fromhex(seal.link), seal.count
        self._is_cut = self._may_be_cut(first.id)

    def _meet(self, seal: Seal, record: Record) -> None:
        if seal.upto != record.id:
            self._break(f"record {seal.upto} was sealed and is gone")
        fits = (seal.link, seal.count) == (self._link.hex(), self._count)
        if not fits and not (self._is_cut and self._count < seal.count):
            self._break(f"a record up to {seal.upto} was changed, removed or added")
        self._link, self._count = bytes.fromhex(seal.link), seal.count
        self._is_cut, self._unsealed = False, 0

    def _break(self, fault: str) -> None:
        self.fault = self.fault or fault

    def _may_be_cut(self, stream_id: str) -> bool:
        return place_of(stream_id)[0] < self._cut_before


def _wrong_seal(tenant: str, seals: list[Seal], keys: Mapping[str, Ed25519PublicKey]) -> str:
    for seal in seals:
        key = keys.get(seal.kid)
        if key is None:
            return f"the seal at {seal.upto} is signed with key {seal.kid!r}, which is not here"
        try:
            key.verify(
                base64.b64decode(seal.signature, validate=True),
                sealed_text(tenant, seal.upto, seal.count, seal.link),
            )
        except (InvalidSignature, binascii.Error):
            return f"the seal at {seal.upto} is not signed by this relay"
    return ""
