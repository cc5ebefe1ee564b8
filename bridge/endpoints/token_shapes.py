"""The JSON bodies of tokens, as OpenAPI shows them."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from bridge.endpoints.shapes import Shape


class Refresh(Shape):
    """A refresh token to be spent."""

    refresh_token: str = Field(max_length=512)
    request_id: str = Field(
        default="",
        max_length=64,
        description="random: the same request may be repeated when its answer was lost",
    )


class Refreshed(Shape):
    """A token, and what gives the next one."""

    token: str
    refresh_token: str
    expires_in: int = Field(description="of the token, in seconds")


class TokenInUse(Shape):
    """A token that was used."""

    id: str
    kind: Literal["person", "agent"]
    subject: str
    role: str
    made_at: str
    expires_at: str
    last_used: str = Field(description="to within a minute")
    bound: bool = Field(description="to a key of the machine that uses it")
    revoked_at: str | None = None


class TokensInUse(Shape):
    """Tokens in use, the last used first."""

    tokens: list[TokenInUse]
