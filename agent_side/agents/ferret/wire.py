"""The ferret agent's messages: whole ones out, and questions that block until their answer."""

from __future__ import annotations

import json
import os
import queue
import threading
from typing import Any


class Wire:
    """Whole messages out, and questions that block until they are answered or withdrawn."""

    def __init__(self) -> None:
        """Take standard output for messages; what else prints goes to standard error."""
        self._out = os.dup(1)
        os.dup2(2, 1)
        self._lock = threading.Lock()
        self._waiting: dict[str, queue.SimpleQueue[dict[str, Any] | None]] = {}
        self._asked = 0

    def send(self, **message: Any) -> None:
        """Write one message."""
        data = memoryview(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
        with self._lock:
            while data:
                data = data[os.write(self._out, data) :]

    def ask(self, method: str, params: dict[str, Any]) -> dict[str, Any] | None:
        """Send a question and wait; None when it was withdrawn or answered with an error."""
        with self._lock:
            self._asked += 1
            id_ = f"ask-{self._asked}"
            answer = self._waiting[id_] = queue.SimpleQueue()
        self.send(id=id_, method=method, params=params)
        return answer.get()

    def take_answer(self, message: dict[str, Any]) -> None:
        """Hand an answer to who waits for it; late ones are dropped."""
        if waiting := self._waiting.pop(str(message.get("id")), None):
            waiting.put(message.get("result"))

    def withdraw(self) -> None:
        """Take back the open question, if there is one."""
        for id_ in list(self._waiting):
            if waiting := self._waiting.pop(id_, None):
                self.send(method="$/cancel_request", params={"requestId": id_})
                waiting.put(None)
