"""A relay process of a house as peers know it that speak frame by frame."""

from __future__ import annotations

from fakes.peers import OPTIONS, ClientPeer
from faults.clock import clock
from faults.house import TENANT, House

from bridge.protocol.acp import Role
from bridge.tokens import Tokens


class Place:
    """Its port, and tokens for whoever comes."""

    def __init__(self, house: House, relay: int = 0, ahead_seconds: int = 0) -> None:
        self.port = int(house.relays[relay].url.rpartition(":")[2])
        folder = house.folder / "keys" / "keys"
        self._tokens = Tokens(folder, clock=clock(ahead_seconds))  # by the clock of that relay

    def token(self, role: Role = Role.OPERATOR, *, kind: str = "person", subject: str = "alice"):
        return self._tokens.issue(kind, subject, TENANT, role)


async def decide(person: ClientPeer, id_: str, hash_: str, n: int) -> dict:
    """Answer a question: who has an even number allows it."""
    answer = {"optionId": OPTIONS[n % 2]}
    decision = f"d-{id_}-{n}"
    return await person.call(
        "_bridge/decide", id=id_, hash=hash_, answer=answer, decisionId=decision
    )
