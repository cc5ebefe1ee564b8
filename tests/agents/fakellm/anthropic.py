"""Anthropic Messages."""

import json

from agents.fakellm.script import new_id

USAGE = {
    "input_tokens": 1000,
    "output_tokens": 50,
    "cache_read_input_tokens": 0,
    "cache_creation_input_tokens": 0,
}
FAILURE = {"type": "error", "error": {"type": "api_error", "message": "rig says no"}}


def read(req):
    """Give the tools offered, the results since the last prompt, and that prompt."""
    results, text = 0, ""
    for message in req["messages"]:
        if message["role"] != "user":
            continue
        content = message["content"]
        parts = content if isinstance(content, list) else [{"type": "text", "text": content}]
        got = sum(p.get("type") == "tool_result" for p in parts)
        said = [p["text"] for p in parts if p.get("type") == "text"]
        said = " ".join(t for t in said if "<system-reminder>" not in t)
        if got and "FAKE{" not in said:  # after a stop, results and the next prompt come as one
            results += got
        elif said:
            results, text = 0, said
    tools = [(t["name"], t.get("input_schema")) for t in req.get("tools") or []]
    return tools, results, text


def write(req, answer):
    """Give the whole message, and the events that stream it."""
    blocks = content_of(answer)
    stop = "tool_use" if answer.call else "end_turn"
    message = {
        "id": new_id("msg"),
        "type": "message",
        "role": "assistant",
        "model": req["model"],
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": USAGE,
    }
    events = [("message_start", {"message": message}, False)]
    for i, block in enumerate(blocks):
        start, deltas = stream_of(block, answer)
        events.append(("content_block_start", {"index": i, "content_block": start}, False))
        events += [("content_block_delta", {"index": i, "delta": d}, True) for d in deltas]
        events.append(("content_block_stop", {"index": i}, False))
    end = {"delta": {"stop_reason": stop, "stop_sequence": None}, "usage": {"output_tokens": 50}}
    events += [("message_delta", end, False), ("message_stop", {}, False)]
    named = [(name, {"type": name, **event}, pause) for name, event, pause in events]
    return {**message, "content": blocks, "stop_reason": stop}, named


def content_of(answer):
    blocks = [{"type": "text", "text": answer.text}]
    if answer.thoughts:
        thinking = "".join(answer.thoughts)
        blocks.insert(0, {"type": "thinking", "thinking": thinking, "signature": "c2ln"})
    if answer.call:
        name, arguments = answer.call
        blocks.append({"type": "tool_use", "id": new_id("toolu"), "name": name, "input": arguments})
    return blocks


def stream_of(block, answer):
    if block["type"] == "thinking":
        deltas = [{"type": "thinking_delta", "thinking": t} for t in answer.thoughts]
        deltas.append({"type": "signature_delta", "signature": block["signature"]})
        return {"type": "thinking", "thinking": "", "signature": ""}, deltas
    if block["type"] == "text":
        deltas = [{"type": "text_delta", "text": t} for t in answer.pieces]
        return {"type": "text", "text": ""}, deltas
    given = json.dumps(block["input"])
    return {**block, "input": {}}, [{"type": "input_json_delta", "partial_json": given}]
