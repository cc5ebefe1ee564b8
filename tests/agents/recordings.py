"""What real agents said, recorded, and the fake agent's script that says it again.

A file of transcripts/ is one session with one prompt, a line a message; ``dir`` "in" is from the
agent. Long lists and texts are cut.
"""

import json
from pathlib import Path

FOLDER = Path(__file__).with_name("transcripts")
NAMES = sorted(path.stem for path in FOLDER.glob("*.jsonl"))  # "claude-allow"…


def lines(name):
    """Give (direction, message) pairs."""
    text = (FOLDER / f"{name}.jsonl").read_text()
    return [(entry["dir"], entry["msg"]) for entry in map(json.loads, text.splitlines())]


def answer_to(name, method):
    """Give the agent's answer to the first request of a method."""
    asked = next(m["id"] for way, m in lines(name) if way == "out" and m.get("method") == method)
    said = (m for way, m in lines(name) if way == "in" and "method" not in m)
    return next(m for m in said if m["id"] == asked)


def said_in_turn(name):
    """Give the agent's requests and notifications from the prompt on."""
    after = lines(name)[prompt_at(name) :]
    return [m for way, m in after if way == "in" and "method" in m]


def script(name):
    """Give the script by which FakeAgent says it all again, waiting where the agent waited."""
    made = answer_to(name, "session/new")["result"]
    return {
        "initialize": answer_to(name, "initialize")["result"],
        "new": made,
        "sessions": [made["sessionId"]],
        "turns": [[{"ignore_cancel": True}, *steps(name)]],
    }


def steps(name):
    end = answer_to(name, "session/prompt")
    found, late = [], []
    for way, message in lines(name)[prompt_at(name) + 1 :]:
        into = late if any("result" in s or "error" in s for s in found) else found
        if way == "in" and message == end:
            found.append({k: v for k, v in message.items() if k in ("result", "error")})
        elif way == "in":
            into.append({"raw": json.dumps(message, ensure_ascii=False)})
        elif message.get("method") == "session/cancel":
            into.append({"until_cancel": True})
        elif "method" not in message:
            into.append({"await": message["id"]})
    return [*found, {"late": late}]


def prompt_at(name):
    methods = [m.get("method") for _, m in lines(name)]
    return methods.index("session/prompt")
