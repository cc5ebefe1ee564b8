"""A scripted ACP agent: a program that speaks ACP over stdio, and the class that tests start it by.

    python tests/fakes/agent.py SCRIPT.json

SCRIPT.json is one object; every key is optional:

    initialize   laid over the result of initialize
    new          laid over the result of session/new (modes, configOptions, _meta...)
    sessions     the ids of the sessions it makes, in order; then "session-1", "session-2"...
    turns        a list; the steps of the first prompt, of the second, and so on
    turns_by_text  {word: steps}; a prompt with that word runs these instead
    load         steps run before session/load is answered; present: loadSession is advertised
    start        steps run before anything is read
    before_new   steps run before session/new is answered, in the new session
    after_new    steps run after it
    errors       {method: error object}: requests that are refused
    cancel       what session/cancel does with open questions: "withdraw" them by
                 $/cancel_request (as claude, the default), leave them "silent" (as codex),
                 or "wait" for their answers (as gemini)
    ignore_eof, ignore_term   true: it does not leave by itself, not even on SIGTERM
    record       the JSONL file it writes what it received and sent to

A step is an object with one of these keys:

    {"update": {...}}                  session/update in the turn's session ("session" overrides)
    {"ask": {...}, "id": 0}            session/request_permission, and wait for the answer;
                                       "method" asks otherwise, "wait": false goes on at once
    {"await": 0}                       wait for the answer to that question
    {"notify": [method, params]}       any notification
    {"chunks": N, "text": "..."}       N agent_message_chunks; "kind" names another update; in the
                                       text {i} is the number, {at} the time in ns; "every": seconds
                                       "apart": true: each a message of its own, which nobody joins
    {"delay_until_file": path}         go on when the file exists
    {"until_cancel": true}             go on when the turn is cancelled
    {"write": [path, text]}            write a file
    {"raw": "..."}                     a line on standard output as it is
    {"noise": "..."}                   the same, for text that is no message
    {"partial": "..."}                 text without a line feed
    {"stderr": "..."}                  a line on standard error
    {"big": BYTES}                     an update of that size
    {"die": code} / {"signal": n}      end at once
    {"result": {...}} / {"error": {}}  answer the prompt now; else {"stopReason": "end_turn"} at
                                       the end, or "cancelled" after session/cancel
    {"late": [steps]}                  steps run after the prompt is answered
    {"ignore_cancel": true}            from here on session/cancel changes nothing

Any step may have "if": it is done only when the last answer was that option (or action, or one of
a list). After session/cancel the remaining steps are left out, "late" ones are not.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from agent_side.agents.process import AgentCommand


class FakeAgent:
    """What a test holds: the script on disk, the command to start, what the agent received."""

    def __init__(self, folder: Path, /, **script: Any) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.record = folder / "agent.jsonl"
        self.script = folder / "script.json"
        self.script.write_text(json.dumps({"record": str(self.record), **script}))
        self.argv = (sys.executable, "-I", "-S", str(Path(__file__).resolve()), str(self.script))

    def command(self, cwd: Path, **more: Any) -> AgentCommand:
        """Give the command as AgentProcess takes it."""
        from agent_side.agents.process import AgentCommand

        described: dict[str, Any] = {
            "name": "fake",
            "title": "Fake Agent",
            "argv": self.argv,
            "env": dict(os.environ),
            "cwd": cwd,
            "ask_mode": None,
            "login_hint": "fake login",
        }
        return AgentCommand(**{**described, **more})

    def lines(self, way: str) -> list[Any]:
        """Give what went that way: "in" (received) or "out" (sent), whole messages."""
        if not self.record.exists():
            return []
        entries = [json.loads(line) for line in self.record.read_text().splitlines()]
        return [entry[way] for entry in entries if way in entry]

    def received(self, method: str) -> list[Any]:
        """Give the params of the requests and notifications of one method, in order."""
        return [m.get("params") for m in self.lines("in") if m.get("method") == method]

    def answers(self) -> dict[Any, Any]:
        """Give the answers to the agent's own requests, by id."""
        return {
            m["id"]: m.get("result", m.get("error")) for m in self.lines("in") if "method" not in m
        }


class Cancelled(Exception):
    """The turn was cancelled."""


class Wire:
    """Standard input and output, recorded; and the questions that wait for an answer."""

    def __init__(self, record: str | None) -> None:
        self._lock = threading.Lock()
        self._record = Path(record).open("a") if record else None  # noqa: SIM115
        self._next_id = 0
        self.answered = threading.Condition()
        self.answers: dict[Any, Any] = {}

    def note(self, way: str, message: Any) -> None:
        if self._record:
            self._record.write(json.dumps({way: message}) + "\n")
            self._record.flush()

    def send(self, **message: Any) -> None:
        text = json.dumps({"jsonrpc": "2.0", **message})
        with self._lock:
            self.note("out", {"jsonrpc": "2.0", **message})
            os_write(text + "\n")

    def raw(self, text: str) -> None:
        with self._lock:
            self.note("raw", text[:1000])
            os_write(text)

    def new_id(self) -> int:
        with self._lock:
            self._next_id += 1
            return self._next_id - 1

    def take_answer(self, message: Any) -> None:
        with self.answered:
            self.answers[message["id"]] = message.get("result") or {"error": message.get("error")}
            self.answered.notify_all()


def os_write(text: str) -> None:
    data = memoryview(text.encode("utf-8", "surrogateescape"))
    while data:
        data = data[os.write(1, data) :]


class Turn:
    """Runs the steps of one prompt, in a thread of its own."""

    def __init__(self, agent: Agent, session: str, request_id: Any) -> None:
        self.agent, self.wire = agent, agent.wire
        self.session, self.request_id = session, request_id
        self.cancelled = False
        self.deaf = False  # ignores cancel
        self.open: list[Any] = []
        self.last: Any = None
        self.replied = request_id is None
        self.late: list[Any] = []

    def run(self, steps: list[Any]) -> None:
        try:
            self.steps(steps)
            reason = "end_turn"
        except Cancelled:
            reason = "cancelled"
        self.reply(result={"stopReason": reason})
        self.cancelled, self.deaf = False, True
        self.agent.turns.pop(self.session, None)
        self.steps(self.late)

    def steps(self, steps: list[Any]) -> None:
        for step in steps:
            if self.cancelled and not self.deaf:
                self.late += [s for other in steps for s in other.get("late", [])]
                raise Cancelled
            if "if" in step and self.last not in listed(step["if"]):
                continue
            name = next(key for key in step if hasattr(self, f"do_{key}"))
            getattr(self, f"do_{name}")(step)
        if self.cancelled and not self.deaf:
            raise Cancelled

    def reply(self, **outcome: Any) -> None:
        if not self.replied:
            self.replied = True
            self.wire.send(id=self.request_id, **outcome)

    def cancel(self) -> None:
        how = "silent" if self.deaf else self.agent.script.get("cancel", "withdraw")
        for id_ in self.open if how == "withdraw" else []:
            self.wire.send(method="$/cancel_request", params={"requestId": id_})
        with self.wire.answered:
            self.cancelled = True
            self.wire.answered.notify_all()

    def update(self, step: Any, update: Any) -> None:
        session = step.get("session", self.session)
        self.wire.send(method="session/update", params={"sessionId": session, "update": update})

    # One method a step.

    def do_update(self, step: Any) -> None:
        self.update(step, step["update"])

    def do_ask(self, step: Any) -> None:
        id_ = step["id"] if "id" in step else self.wire.new_id()
        self.open.append(id_)
        self.wire.answers.pop(id_, None)  # an id may come again
        params = {"sessionId": step.get("session", self.session), **step["ask"]}
        self.wire.send(
            id=id_, method=step.get("method", "session/request_permission"), params=params
        )
        if step.get("wait", True):
            self.do_await({"await": id_})

    def do_await(self, step: Any) -> None:
        id_ = step["await"]
        patient = self.agent.script.get("cancel") == "wait"
        with self.wire.answered:
            self.wire.answered.wait_for(
                lambda: (
                    id_ in self.wire.answers or (self.cancelled and not patient and not self.deaf)
                )
            )
        self.open = [other for other in self.open if other != id_]
        outcome = self.wire.answers.get(id_, {})
        chosen = outcome.get("outcome") or {}
        self.last = (
            chosen.get("optionId") or outcome.get("action") or chosen.get("outcome") or "error"
        )

    def do_notify(self, step: Any) -> None:
        method, params = step["notify"]
        self.wire.send(method=method, params=params)

    def do_chunks(self, step: Any) -> None:
        for i in range(step["chunks"]):
            if self.cancelled and not self.deaf:
                return
            text = step.get("text", "part {i} ").replace("{i}", str(i))
            text = text.replace("{at}", str(time.time_ns()))
            kind = step.get("kind", "agent_message_chunk")
            piece = {"sessionUpdate": kind, "content": {"type": "text", "text": text}}
            self.update(step, piece | ({"messageId": f"m{i}"} if step.get("apart") else {}))
            time.sleep(step.get("every", 0))

    def do_delay_until_file(self, step: Any) -> None:
        while not Path(step["delay_until_file"]).exists():
            if self.cancelled and not self.deaf:
                return
            time.sleep(0.005)

    def do_until_cancel(self, _step: Any) -> None:
        with self.wire.answered:
            self.wire.answered.wait_for(lambda: self.cancelled)

    def do_write(self, step: Any) -> None:
        path, text = step["write"]
        Path(path).write_text(text)
        self.wire.note("wrote", path)

    def do_raw(self, step: Any) -> None:
        self.wire.raw(step["raw"] + "\n")

    def do_noise(self, step: Any) -> None:
        self.wire.raw(step["noise"] + "\n")

    def do_partial(self, step: Any) -> None:
        self.wire.raw(step["partial"])

    def do_stderr(self, step: Any) -> None:
        os.write(2, (step["stderr"] + "\n").encode())

    def do_big(self, step: Any) -> None:
        text = "x" * step["big"]
        update = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}}
        params = {"sessionId": self.session, "update": update}
        self.wire.raw(
            json.dumps({"jsonrpc": "2.0", "method": "session/update", "params": params}) + "\n"
        )

    def do_die(self, step: Any) -> None:
        os._exit(step["die"])

    def do_signal(self, step: Any) -> None:
        os.kill(os.getpid(), step["signal"])

    def do_result(self, step: Any) -> None:
        self.reply(result=step["result"])

    def do_error(self, step: Any) -> None:
        self.reply(error=step["error"])

    def do_late(self, step: Any) -> None:
        self.late += step["late"]

    def do_ignore_cancel(self, step: Any) -> None:
        self.deaf = step["ignore_cancel"]


class Agent:
    """Answers the client's requests; a prompt runs in a thread, so that cancel is heard."""

    def __init__(self, script: Any) -> None:
        self.script = script
        self.wire = Wire(script.get("record"))
        self.turns: dict[str, Turn] = {}
        self._made = 0
        self._prompts = 0

    def run(self) -> None:
        if self.script.get("ignore_term"):
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
        Turn(self, "", None).steps(self.script.get("start", []))
        for line in sys.stdin:
            self.take(json.loads(line))
        while self.script.get("ignore_eof"):
            time.sleep(60)
        os._exit(0)

    def take(self, message: Any) -> None:
        self.wire.note("in", message)
        method, params, id_ = message.get("method"), message.get("params") or {}, message.get("id")
        if method is None:
            self.wire.take_answer(message)
        elif method in self.script.get("errors", {}):
            self.wire.send(id=id_, error=self.script["errors"][method])
        elif answer := getattr(self, "on_" + method.replace("/", "_"), None):
            answer(params, id_)
        elif id_ is not None:
            self.wire.send(id=id_, error={"code": -32601, "message": f"no method {method}"})

    def on_initialize(self, _params: Any, id_: Any) -> None:
        result = {
            "protocolVersion": 1,
            "agentInfo": {"name": "fake", "title": "Fake Agent", "version": "1"},
            "agentCapabilities": {"loadSession": "load" in self.script, "promptCapabilities": {}},
            "authMethods": [],
        }
        self.wire.send(id=id_, result={**result, **self.script.get("initialize", {})})

    def on_session_new(self, _params: Any, id_: Any) -> None:
        self._made += 1
        named = self.script.get("sessions", [])
        session = named[self._made - 1] if self._made <= len(named) else f"session-{self._made}"
        Turn(self, session, None).steps(self.script.get("before_new", []))
        self.wire.send(id=id_, result={"sessionId": session, **self.script.get("new", {})})
        Turn(self, session, None).steps(self.script.get("after_new", []))

    def on_session_load(self, params: Any, id_: Any) -> None:
        if "load" not in self.script:
            self.wire.send(id=id_, error={"code": -32601, "message": "sessions cannot be loaded"})
            return
        Turn(self, params["sessionId"], None).steps(self.script["load"])
        self.wire.send(id=id_, result=self.script.get("new", {}))

    def on_session_set_mode(self, params: Any, id_: Any) -> None:
        self.wire.send(id=id_, result={})
        mode = {"sessionUpdate": "current_mode_update", "currentModeId": params["modeId"]}
        Turn(self, params["sessionId"], None).steps([{"update": mode}])

    def on_session_set_config_option(self, _params: Any, id_: Any) -> None:
        options = self.script.get("new", {}).get("configOptions", [])
        self.wire.send(id=id_, result={"configOptions": options})

    def on_session_set_model(self, _params: Any, id_: Any) -> None:
        self.wire.send(id=id_, result={})

    def on_session_prompt(self, params: Any, id_: Any) -> None:
        turn = Turn(self, params["sessionId"], id_)
        self.turns[params["sessionId"]] = turn
        threading.Thread(target=turn.run, args=(self.choose(params),), daemon=True).start()

    def on_session_cancel(self, params: Any, _id: Any) -> None:
        if turn := self.turns.get(params["sessionId"]):
            turn.cancel()

    def choose(self, params: Any) -> list[Any]:
        text = " ".join(block.get("text", "") for block in params.get("prompt", []))
        for word, steps in self.script.get("turns_by_text", {}).items():
            if word in text:
                return steps
        turns, number = self.script.get("turns", []), self._prompts
        self._prompts += 1
        return turns[number] if number < len(turns) else [{"chunks": 1, "text": "done"}]


def listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


if __name__ == "__main__":
    Agent(json.loads(Path(sys.argv[1]).read_text())).run()
