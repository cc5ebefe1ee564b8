"""OpenAI responses."""

import json
import time

from agents.fakellm.script import new_id, texts

USAGE = {
    "input_tokens": 1000,
    "input_tokens_details": {"cached_tokens": 0},
    "output_tokens": 50,
    "output_tokens_details": {"reasoning_tokens": 0},
    "total_tokens": 1050,
}
FAILURE = {"error": {"message": "rig says no", "type": "server_error"}}


def read(req):
    """Give the tools offered, the results since the last prompt, and that prompt."""
    given = req["input"]
    items = given if isinstance(given, list) else [{"role": "user", "content": given}]
    results, text = 0, ""
    for item in items:
        if str(item.get("type", "")).endswith("_output"):
            results += 1
        elif item.get("role") == "user":
            results, text = 0, texts(item["content"])
    named = [(tool_name(t), t.get("parameters")) for t in req.get("tools") or []]
    return [(name, schema) for name, schema in named if name], results, text


def write(req, answer, patch):
    """Give the whole response, and the events that stream it; ``patch``: a free tool's input."""
    free = {t["name"] for t in req.get("tools") or [] if t["type"] == "custom"}
    output = output_of(answer, free, patch)
    response = {
        "id": new_id("resp"),
        "object": "response",
        "created_at": int(time.time()),
        "model": req["model"],
        "status": "completed",
        "output": output,
        "error": None,
        "incomplete_details": None,
        "usage": USAGE,
    }
    opened = {**response, "status": "in_progress", "output": []}
    events = [("response.created", {"response": opened}, False)]
    for i, item in enumerate(output):
        events += item_events(i, item, answer)
    events.append(("response.completed", {"response": response}, False))
    numbered = [
        (name, {"type": name, "sequence_number": i, **event}, pause)
        for i, (name, event, pause) in enumerate(events)
    ]
    return response, numbered


def tool_name(tool):
    return tool.get("name") or (tool["type"] if tool["type"] in ("local_shell", "shell") else None)


def output_of(answer, free, patch):
    part = {"type": "output_text", "text": answer.text, "annotations": []}
    message = {"type": "message", "id": new_id("msg"), "role": "assistant", "content": [part]}
    output = [{**message, "status": "completed"}]
    if answer.thoughts:
        summary = [{"type": "summary_text", "text": "".join(answer.thoughts)}]
        thought = {"type": "reasoning", "id": new_id("rs"), "content": [], "summary": summary}
        output.insert(0, {**thought, "encrypted_content": None})
    if answer.call:
        name, arguments = answer.call
        call = {"call_id": new_id("call"), "name": name, "status": "completed"}
        if name in free:
            output.append({"type": "custom_tool_call", "id": new_id("ctc"), "input": patch, **call})
        else:
            given = json.dumps(arguments)
            output.append({"type": "function_call", "id": new_id("fc"), "arguments": given, **call})
    return output


def item_events(i, item, answer):
    opened = {**item, "status": "in_progress"}
    if item["type"] == "message":
        opened["content"] = []
    yield "response.output_item.added", {"output_index": i, "item": opened}, False
    at = {"item_id": item["id"], "output_index": i}
    if item["type"] == "reasoning":
        for thought in answer.thoughts:
            delta = {**at, "summary_index": 0, "delta": thought}
            yield "response.reasoning_summary_text.delta", delta, True
    elif item["type"] == "message":
        yield from message_events({**at, "content_index": 0}, item["content"][0], answer)
    elif item["type"] == "function_call":
        given = item["arguments"]
        yield "response.function_call_arguments.delta", {**at, "delta": given}, False
        yield "response.function_call_arguments.done", {**at, "arguments": given}, False
    yield "response.output_item.done", {"output_index": i, "item": item}, True


def message_events(at, part, answer):
    yield "response.content_part.added", {**at, "part": {**part, "text": ""}}, False
    for piece in answer.pieces:
        yield "response.output_text.delta", {**at, "delta": piece}, True
    yield "response.output_text.done", {**at, "text": answer.text}, False
    yield "response.content_part.done", {**at, "part": part}, False
