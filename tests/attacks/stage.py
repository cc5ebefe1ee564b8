"""A paired phone, its laptop, and what a relay between them may try."""

import json

from fakes.device import FakeDevice
from fakes.relay import FakeRelay
from fakes.running import Running, asks

from agent_side.devices import Devices
from bridge.protocol.entry import META_KEY

EVIL = FakeDevice("evil", "mallory")
YES, NO = {"optionId": "yes"}, {"optionId": "no"}
TWO_QUESTIONS = [[asks(id_=1, wait=False), asks({"rawInput": {"command": "rm -rf /"}}, id_=2)]]


class Stage:
    """A paired phone, its laptop, and the relay between them."""

    def __init__(self, running: Running, relay: FakeRelay) -> None:
        self.running = running
        self.relay = relay
        self.phone = FakeDevice()
        self.session = ""
        self.count = 0

    async def begin(self):
        Devices(self.running.state).pin(
            key=self.phone.key, name=self.phone.name, subject=self.phone.subject
        )
        self.session = await self.running.session()
        self.running.prompt(self.session)
        await self.relay.until(lambda: len(self.relay.questions()) >= 2)
        return self

    @property
    def epoch(self):
        return self.relay.hellos[-1].epoch

    @property
    def agent(self):
        return self.relay.hellos[-1].agents[0].id

    def question(self, command="make"):
        """The open question about a command."""
        return next(
            q
            for q in self.relay.questions()
            if json.loads(trip(q)["subject"])["command"] == command
        )

    def about(self, question, answer=YES):
        """What a device says of a question, and the mail's own words for it."""
        self.count += 1
        params = {
            "id": question["id"],
            "sessionId": question["params"]["sessionId"],
            "hash": trip(question)["hash"],
            "answer": answer,
            "decisionId": f"d-{self.count}",
        }
        return params, {**params, "epoch": self.epoch}

    async def decide(self, params, signature):
        """Send a decision as a relay would; gives its outcome."""
        self.count += 1
        mail_id = f"m-{self.count}"
        self.relay.send_mail("_bridge/decide", params, mail_id, signature=signature)
        return await self.relay.outcome(mail_id)

    @property
    def approved(self):
        """The agent's questions that were allowed."""
        answers = self.running.agent.answers()
        return [id_ for id_, a in answers.items() if a["outcome"].get("optionId") != "no"]


def trip(question):
    return question["params"]["_meta"][META_KEY]["roundTrip"]
