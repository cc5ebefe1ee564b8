"""Gemini's generateContent."""

from agents.fakellm.script import new_id, texts

CONTEXT = "<session_context>"  # the agent's own words, beside the prompt or before it
USAGE = {"promptTokenCount": 1000, "candidatesTokenCount": 50, "totalTokenCount": 1050}


def read(req):
    """Give the tools offered, the results since the last prompt, and that prompt."""
    results, text = 0, ""
    for content in req.get("contents") or []:
        if content.get("role") != "user":
            continue
        got = sum("functionResponse" in part for part in content["parts"])
        said = texts([p for p in content["parts"] if CONTEXT not in p.get("text", "")])
        if got:
            results += got
        elif said:
            results, text = 0, said
    declared = [f for t in req.get("tools") or [] for f in t.get("functionDeclarations", [])]
    tools = [(f["name"], f.get("parametersJsonSchema") or f.get("parameters")) for f in declared]
    return tools, results, text


def wanted_schema(req):
    """Give the schema of the JSON that the request wants instead of text, or None."""
    config = req.get("generationConfig") or {}
    if config.get("responseMimeType") != "application/json":
        return None
    return config.get("responseJsonSchema") or config.get("responseSchema")


def write(model, answer):
    """Give the whole answer, and the chunks that stream it."""
    parts = [{"text": f"**Thinking** {t}", "thought": True} for t in answer.thoughts]
    parts += [{"text": t} for t in answer.pieces]
    if answer.call:
        name, arguments = answer.call
        parts.append({"functionCall": {"name": name, "args": arguments, "id": new_id("call")}})
    last = len(parts) - 1
    chunks = [chunk(model, [part], "STOP" if i == last else None) for i, part in enumerate(parts)]
    return chunk(model, parts, "STOP"), [(None, each, True) for each in chunks]


def chunk(model, parts, finish):
    candidate = {"index": 0, "content": {"role": "model", "parts": parts}}
    if finish:
        candidate["finishReason"] = finish
    answer = {"candidates": [candidate], "modelVersion": model, "responseId": "rig"}
    return {**answer, "usageMetadata": USAGE}
