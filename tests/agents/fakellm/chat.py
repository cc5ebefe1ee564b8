"""OpenAI chat completions."""

import json
import time

from agents.fakellm.script import new_id, texts

USAGE = {"prompt_tokens": 1000, "completion_tokens": 50, "total_tokens": 1050}
FAILURE = {"error": {"message": "rig says no", "type": "server_error"}}


def read(req):
    """Give the tools offered, the results since the last prompt, and that prompt."""
    results, text = 0, ""
    for message in req["messages"]:
        if message["role"] == "tool":
            results += 1
        elif message["role"] == "user":
            results, text = 0, texts(message["content"])
    functions = [tool["function"] for tool in req.get("tools") or []]
    return [(f["name"], f.get("parameters")) for f in functions], results, text


def write(req, answer):
    """Give the whole completion, and the chunks that stream it."""
    base = {"id": new_id("chatcmpl"), "created": int(time.time()), "model": req["model"]}
    calls = calls_of(answer)
    stop = "tool_calls" if calls else "stop"
    message = {
        "role": "assistant",
        "content": answer.text,
        **({"tool_calls": calls} if calls else {}),
    }
    choice = {"index": 0, "message": message, "finish_reason": stop}
    whole = {**base, "object": "chat.completion", "usage": USAGE, "choices": [choice]}

    def chunk(delta, finish=None):
        choices = [{"index": 0, "delta": delta, "finish_reason": finish}]
        return {**base, "object": "chat.completion.chunk", "choices": choices}

    events = [(None, chunk({"role": "assistant", "content": ""}), False)]
    events += [(None, chunk({"reasoning_content": t}), True) for t in answer.thoughts]
    events += [(None, chunk({"content": t}), True) for t in answer.pieces]
    if calls:
        events.append((None, chunk({"tool_calls": calls}), True))
    events.append((None, {**chunk({}, stop), "usage": USAGE}, False))
    return whole, [*events, (None, "[DONE]", False)]


def calls_of(answer):
    if not answer.call:
        return []
    name, arguments = answer.call
    function = {"name": name, "arguments": json.dumps(arguments)}
    return [{"index": 0, "id": new_id("call"), "type": "function", "function": function}]
