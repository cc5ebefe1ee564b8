"""A piece of an agent's text that says nothing else: neighbouring ones may be joined."""

from __future__ import annotations

from typing import Literal

import msgspec


class Text(msgspec.Struct, forbid_unknown_fields=True):
    """A block of plain text."""

    text: str
    type: Literal["text"]


class Chunk(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """An update that adds to a message or a thought; anything more in it is another thing."""

    content: Text
    kind: Literal["agent_message_chunk", "agent_thought_chunk"] = msgspec.field(
        name="sessionUpdate"
    )
    message_id: str | None = msgspec.field(name="messageId", default=None)

    def continues(self, before: Chunk) -> bool:
        """Whether it adds to the same text as another one."""
        return (self.kind, self.message_id) == (before.kind, before.message_id)


_decode = msgspec.json.Decoder(Chunk).decode


def read(update: bytes | msgspec.Raw) -> Chunk | None:
    """Give an update as a piece of text, None when it is anything else."""
    try:
        return _decode(update)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


def join(chunks: list[Chunk]) -> Chunk:
    """Give one piece that says what neighbouring ones say."""
    text = "".join(chunk.content.text for chunk in chunks)
    return Chunk(Text(text, "text"), chunks[-1].kind, chunks[-1].message_id)
