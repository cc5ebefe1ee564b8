"""An agent that streams updates at a fixed rate, each with the time at which it was written.

Started by ``bench.pipe``; the clock is the machine's monotonic one.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any


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
            rate, seconds = json.loads(message["params"]["prompt"][0]["text"])
            _stream(rate, seconds)
            _say(id=id_, result={"stopReason": "end_turn"})
        elif id_ is not None and method is not None:
            _say(id=id_, result={})


def _stream(rate: float, seconds: float) -> None:
    began = time.monotonic()
    for number in range(round(rate * seconds)):
        time.sleep(max(0.0, began + number / rate - time.monotonic()))
        text = f"{time.monotonic_ns()} the quick brown fox jumps over the lazy dog"
        content = {"type": "text", "text": text}
        update = {"sessionUpdate": "agent_message_chunk", "content": content}
        _say(method="session/update", params={"sessionId": "one", "update": update})


def _say(**message: Any) -> None:
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


if __name__ == "__main__":
    main()
