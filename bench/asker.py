"""An agent that asks so many questions one after the other, and says when each was answered.

Started by ``bench.decide`` behind a real connector; the clock is the machine's monotonic one.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

OPTIONS = [
    {"optionId": "allow", "name": "Allow once", "kind": "allow_once"},
    {"optionId": "no", "name": "Reject", "kind": "reject_once"},
]


def main() -> None:
    """Serve ACP on stdin and stdout."""
    for line in sys.stdin:
        message = json.loads(line)
        method, id_ = message.get("method"), message.get("id")
        if method == "initialize":
            _say(id=id_, result={"protocolVersion": 1, "agentCapabilities": {}})
        elif method == "session/new":
            _say(id=id_, result={"sessionId": "one"})
        elif method == "session/prompt":
            times = [_ask(number) for number in range(int(message["params"]["prompt"][0]["text"]))]
            content = {"type": "text", "text": json.dumps(times)}
            update = {"sessionUpdate": "agent_message_chunk", "content": content}
            _say(method="session/update", params={"sessionId": "one", "update": update})
            _say(id=id_, result={"stopReason": "end_turn"})
        elif id_ is not None and method is not None:
            _say(id=id_, result={})


def _ask(number: int) -> int:
    """Ask and give the time at which the answer was read, in nanoseconds."""
    call = {
        "toolCallId": f"call-{number}",
        "title": "git push",
        "kind": "execute",
        "rawInput": {"command": f"git push origin main # {number}"},
    }
    params = {"sessionId": "one", "toolCall": call, "options": OPTIONS}
    _say(id=f"q-{number}", method="session/request_permission", params=params)
    for line in sys.stdin:
        if json.loads(line).get("id") == f"q-{number}":
            return time.monotonic_ns()
    raise SystemExit("the connector left")


def _say(**message: Any) -> None:
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


if __name__ == "__main__":
    main()
