"""The JSON bodies of notifications, as OpenAPI shows them."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from bridge.endpoints.shapes import Shape


class PushKeys(Shape):
    """A browser's public key and secret for messages to it, base64url."""

    p256dh: Annotated[str, Field(max_length=100)]
    auth: Annotated[str, Field(max_length=40)]


class PushQuiet(Shape):
    """Hours without notifications, in minutes of the browser's day."""

    begins: Annotated[int, Field(ge=0, lt=1440)]
    ends: Annotated[int, Field(ge=0, lt=1440)]
    utc_offset: Annotated[int, Field(ge=-1440, le=1440)] = 0


class PushWish(Shape):
    """Of what a browser is notified, and whether a locked screen may show it all."""

    kinds: list[Literal["question", "turn", "failure"]] = Field(
        default=["question", "turn", "failure"]
    )
    shows: Literal["little", "all"] = "little"
    quiet: PushQuiet | None = None


class Subscribe(Shape):
    """What a browser's push service gave (PushSubscription), and the wish."""

    endpoint: Annotated[str, Field(max_length=2048)]
    keys: PushKeys
    wish: PushWish = PushWish()


class PushAttempt(Shape):
    """What became of one message: the push service's HTTP status, 0 without an answer."""

    status: int
    reason: str = ""
    took_ms: int = 0
    at: str | None = None


class Subscription(Shape):
    """One browser that is notified."""

    id: str
    device: str
    created_at: str
    here: bool = Field(description="whether it is the browser that asks")
    wish: PushWish
    last: PushAttempt | None = None


class Push(Shape):
    """The relay's key for subscriptions, and one's own."""

    key: str
    subscriptions: list[Subscription]


class PushTried(PushAttempt):
    """A test's attempt at one browser."""

    id: str
    device: str


class PushAttempts(Shape):
    """A test's attempts."""

    attempts: list[PushTried]
