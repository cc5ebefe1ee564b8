"""The demo's scripts: what it does for which prompt."""

from __future__ import annotations

import json
import re
from typing import Any

from agent_side.agents.asked import Refused
from agent_side.agents.demo.session import Cancelled, Session
from agent_side.agents.demo.work import Work

MOST_QUESTIONS = 20  # at once
WINDOW = 200_000  # tokens, as usage_update tells it; the demo counts four characters as one
WORDS = {
    "run": "asks, then runs a command",
    "edit": "asks, then adds a line to a file",
    "read": "reads a file",
    "plan": "shows a plan and works it off",
    "parallel": "asks several questions at once",
    "stream": "streams many pieces of text",
    "choose": "asks with a form",
    "fail": "ends the turn with an error",
}
FORM: dict[str, Any] = {
    "mode": "form",
    "message": "What shall the demo take?",
    "requestedSchema": {
        "type": "object",
        "properties": {
            "colour": {
                "type": "string",
                "title": "Colour",
                "oneOf": [
                    {"const": "red", "title": "Red"},
                    {"const": "green", "title": "Green"},
                    {"const": "blue", "title": "Blue"},
                ],
            },
            "count": {
                "type": "integer",
                "title": "How many",
                "minimum": 1,
                "maximum": 9,
                "default": 1,
            },
            "note": {"type": "string", "title": "Note"},
        },
        "required": ["colour"],
    },
}


def choose_script(text: str) -> tuple[str, str]:
    """Give the script that a prompt asks for, and what follows the word."""
    word, _, rest = text.strip().removeprefix("/").partition(" ")
    if word.lower() in WORDS:
        return word.lower(), rest.strip()
    for word in ("choose", "parallel", "stream"):
        if found := re.search(rf"\b{word}\b(.*)", text, re.IGNORECASE | re.DOTALL):
            return word, found[1].strip()
    return "tour", ""


class Turn(Work):
    """What the agent does for one prompt."""

    def __init__(self, session: Session, *, forms: bool) -> None:
        """Take the session and whether the client shows forms."""
        super().__init__(session)
        self._forms = forms

    def play(self, text: str) -> None:
        """Do what the prompt asks for; raises Cancelled and Refused."""
        word, rest = choose_script(text)
        try:
            getattr(self, f"play_{word}")(rest)
        except Cancelled:
            self.withdraw()
            raise
        used = self.session.letters // 4
        self.session.update("usage_update", used=used, size=WINDOW)

    # The scripts.

    def play_tour(self, _rest: str) -> None:
        """Think, plan, read, edit, run."""
        steps = ["Look around", "Write a greeting", "Run a command"]
        self.think("A tour, then. First I look at the folder, then I change a little something.")
        self.say(f"Hello! I am the demo agent, at work in `{self.session.cwd}`.\n\n")
        self.plan(steps, 0)
        self.look_around()
        self.plan(steps, 1)
        self.say("Next I write a line to `hello.txt`. You decide whether I may.\n\n")
        written = self.edit("hello.txt")
        self.plan(steps, 2)
        self.say("And I run a command. Again, you decide.\n\n")
        ran = self.run("ls -l && cat hello.txt" if written else "ls -l")
        self.plan(steps, 3)
        done = {True: "done", False: "not done"}
        self.say(f"That was it: the edit was {done[written]}, the command was {done[ran]}.\n\n")
        self.say("Try `run date`, `edit notes.md`, `parallel 3`, `stream 200` or `choose`.")

    def play_run(self, command: str) -> None:
        """Run one command."""
        self.say("You want a command run, so I ask first.\n\n")
        ran = self.run(command or "ls -l")
        self.say("It ran." if ran else "It did not run.")

    def play_edit(self, name: str) -> None:
        """Edit one file."""
        self.say("You want a file edited, so I ask first.\n\n")
        written = self.edit(name or "hello.txt")
        self.say("The file is written." if written else "The file is as it was.")

    def play_read(self, name: str) -> None:
        """Read one file."""
        self.read(name) if name else self.look_around()
        self.say("That is what it says.")

    def play_plan(self, _rest: str) -> None:
        """Show a plan and work it off."""
        steps = ["Read the request", "Think about it", "Write it up"]
        for done in range(len(steps) + 1):
            self.plan(steps, done)
            self.say(f"{done} of {len(steps)} done. ")

    def play_parallel(self, rest: str) -> None:
        """Ask several questions at once and run each command when its answer comes."""
        found = re.search(r"\d+", rest)
        count = min(int(found[0]) if found else 3, MOST_QUESTIONS)
        self.say(f"Here are {count} questions at once; answer them in any order.\n\n")
        commands = [f"echo {i} > parallel-{i}.txt" for i in range(1, count + 1)]
        cards = [self.command_card(command) for command in commands]
        waiting = {self.ask_permission(card, "commands"): card for card in cards}
        while waiting:
            id_ = self.wait_for_one(set(waiting))
            card = waiting.pop(id_)
            if self.permitted(id_, card, card["rawInput"]["command"]):
                self.execute(card)
        self.say("All are answered.")

    def play_stream(self, rest: str) -> None:
        """Stream text."""
        found = [int(n) for n in re.findall(r"\d+", rest)]
        count, pause = (found[0] if found else 100), (found[1] / 1000 if found[1:] else None)
        for i in range(1, count + 1):
            self.piece("agent_message_chunk", f"piece {i} of {count}\n", pause)

    def play_choose(self, _rest: str) -> None:
        """Ask with a form."""
        if not self._forms:
            self.say("I would ask with a form, but your client shows none.")
            return
        id_ = self.wire.ask("elicitation/create", {"sessionId": self.session.id, **FORM})
        self._open[id_] = ""
        answer = self.answer_to(self.wait_for_one({id_}))
        chosen = json.dumps(answer.get("content") or {}, ensure_ascii=False)
        action = answer.get("action", "cancel")
        self.say(f"You chose {chosen}." if action == "accept" else f"No choice ({action}).")

    def play_fail(self, _rest: str) -> None:
        """Fail as a model's provider does."""
        self.say("This turn fails on purpose.")
        raise Refused(-32603, "the demo was asked to fail")
