"""What the LLM answers: text, and a call of one of the tools that the request offers."""

import json
import re
import time
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import Any

DEFAULTS = {
    "tool": "shell",  # shell | write | read | plan | ask | none, or a tool's exact name
    "calls": 1,  # tool calls in this turn, one an answer
    "chunks": 4,  # streamed text chunks before each tool call
    "final_chunks": 3,  # and after the last result
    "think": 0,  # reasoning chunks ahead of the text, where the format has them
    "delay": 0.0,  # seconds between chunks
    "command": "echo rig-was-here > rig.out && cat rig.out",
    "path": "rig.txt",
    "content": "written by the rig\n",
    # Laid over the filled arguments where the tool has them: Codex's way out of its sandbox.
    "args": {"sandbox_permissions": "require_escalated", "justification": "the rig asks"},
    "text": "",  # the final text, if it matters
    "fail": 0,  # HTTP status to fail with
}
NAMES = {  # what agents call their tools, best first
    "shell": ["Bash", "bash", "run_shell_command", "shell_command", "exec_command", "shell"],
    "write": ["Write", "write", "write_file", "create_file", "apply_patch"],
    "read": ["Read", "read", "read_file"],
    "plan": ["TodoWrite", "todowrite", "write_todos", "update_plan", "todo_write", "todo"],
    "ask": ["AskUserQuestion", "question", "ask_user", "request_user_input"],
}


@dataclass
class Answer:
    """What to stream: thoughts, pieces of text, perhaps a tool call; or a status to fail with."""

    thoughts: list[str]
    pieces: list[str]
    call: tuple[str, dict[str, Any]] | None
    delay: float
    fail: int

    @property
    def text(self):
        return "".join(self.pieces)


class Script:
    """The script for all turns, laid over by what a prompt says."""

    def __init__(self, changes, log=None):
        self._script = {**DEFAULTS, **changes}
        self._log = Path(log).open("w") if log else None  # noqa: SIM115

    def of(self, text):
        script = dict(self._script)
        for found in re.finditer(r"FAKE(?=\{)", text):
            script.update(json.JSONDecoder().raw_decode(text, found.end())[0])
        return script

    def answer(self, tools, results, text):
        """tools: [(name, schema)]; results: tool results so far in this turn."""
        script = self.of(text)
        call = choose(tools, script) if results < script["calls"] else None
        self.note(
            "answer", tools=[n for n, _ in tools], results=results, call=call, text=text[-300:]
        )
        if not tools:
            return Answer([], ["Rig title"], None, 0, 0)
        thoughts = [f"Thought {i + 1}. " for i in range(script["think"])]
        pieces = say(script, results, call)
        return Answer(thoughts, pieces, call, script["delay"], script["fail"])

    def note(self, event, **more):
        if self._log:
            self._log.write(json.dumps({"t": time.time(), "event": event, **more}) + "\n")
            self._log.flush()


def say(script, results, call):
    if call:
        return [f"Step {results + 1} part {i + 1}. " for i in range(script["chunks"])]
    if script["text"]:
        return re.findall(r"\S+\s*", script["text"])
    return [f"Done part {i + 1} after {results} results. " for i in range(script["final_chunks"])]


def choose(tools, script):
    """The call to make, as (name, arguments), or None."""
    wanted = NAMES.get(script["tool"], [script["tool"]])
    for name in wanted:
        for offered, schema in tools:
            if offered == name or offered.endswith(("__" + name, "." + name)):
                arguments = fill({"type": "object", **(schema or {})}, script)
                known = (schema or {}).get("properties", {})
                extra = {k: v for k, v in script["args"].items() if k in known}
                return offered, {**arguments, **extra}
    return None


def fill(schema, script, name=""):
    """A value for a JSON schema, by the names that agents' tools use."""
    schema = schema or {}
    for way in ("anyOf", "oneOf", "allOf"):
        if schema.get(way):
            return fill(schema[way][0], script, name)
    kind = schema.get("type", "string")
    kind = str(kind[0] if isinstance(kind, list) else kind).lower()
    if "enum" in schema:
        wanted = [v for v in ("in_progress", "create", "write") if v in schema["enum"]]
        return (wanted or schema["enum"])[0]
    if kind == "object":
        fields = schema.get("properties", {})
        return {k: fill(fields.get(k), script, k) for k in schema.get("required", list(fields))}
    if kind == "array":
        return fill_list(schema, script, name)
    if kind in ("integer", "number"):
        return max(schema.get("minimum", 1), 10000 if "timeout" in name.lower() else 1)
    return False if kind == "boolean" else fill_text(script, name)


def fill_list(schema, script, name):
    if name.lower() in ("command", "cmd"):
        return ["bash", "-lc", script["command"]]
    count = max(2 if name.lower() in ("options", "todos", "plan") else 1, schema.get("minItems", 1))
    items = [fill(schema.get("items"), script, name) for _ in range(count)]
    for i, item in enumerate(items):
        for key in ("label", "content", "step", "description", "id"):
            if isinstance(item, dict) and isinstance(item.get(key), str):
                item[key] += f" {i + 1}"
    return items


def fill_text(script, name):
    low = name.lower()
    if low in ("command", "cmd", "script"):
        return script["command"]
    if "path" in low or low in ("filename", "file"):
        return script["path"]
    if low in ("content", "file_text", "contents"):
        return script["content"]
    return patch(script) if low in ("patch", "input") else f"rig {name}".strip()


def patch(script):
    body = "".join("+" + line + "\n" for line in script["content"].splitlines())
    return f"*** Begin Patch\n*** Add File: {script['path']}\n{body}*** End Patch\n"


def new_id(prefix):
    return f"{prefix}_{uuid.uuid4().hex[:20]}"


def texts(content):
    if isinstance(content, str):
        return content
    return " ".join(p.get("text", "") for p in content or [] if isinstance(p, dict))
