"""Carries out mail: each once, in order, none waiting behind a prompt."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from agent_side.agents.process import AgentError
from agent_side.host import Host
from agent_side.mailbox import Mailbox
from agent_side.policy import Policy, named_agent
from agent_side.signatures import Signatures
from agent_side.status import now_ms
from agent_side.tasks import Spawn
from agent_side.turn import TurnEnd, UnknownOutcome
from bridge.protocol import acp
from bridge.protocol.entry import Origin
from bridge.protocol.errors import BridgeError, InvalidParams, NotAllowed, NotFound
from bridge.protocol.jsonrpc import Payload
from bridge.protocol.round_trip import Decision
from bridge.protocol.uplink import Mail, MailDone


class Orders:
    """The mail of one connector, from its arrival to its outcome."""

    def __init__(
        self,
        agent_id: str,
        host: Host,
        *,
        policy: Policy,
        signatures: Signatures,
        mailbox: Mailbox,
        on_done: Callable[[MailDone], None],
        spawn: Spawn,
    ) -> None:
        """Tell ``on_done`` every outcome."""
        self._agent_id = agent_id
        self._host = host
        self._policy = policy
        self._signatures = signatures
        self._mailbox = mailbox
        self._on_done = on_done
        self._spawn = spawn
        self.skew_ms = 0  # the relay's clock minus ours: a mail's end is told in its time
        self.queued: dict[str, str] = {}  # mail ids to the turns that the log has as queued

    def resume(self) -> None:
        """Carry on with the mail of an earlier process."""
        for mail in list(self._mailbox.pending.values()):
            if mail.mail_id in self._mailbox.handed:
                self._fail(mail, UnknownOutcome("the connector restarted while the agent had this"))
            else:
                self.carry_out(mail, is_resumed=True)

    def carry_out(self, mail: Mail, *, is_resumed: bool = False) -> None:
        """Do what a mail asks, or say why not; its outcome is told in either case."""
        try:
            method, params = self._policy.check_mail(mail, now_ms() + self.skew_ms)
            if method != acp.DECIDE:
                mail = self._signed(mail, is_resumed=is_resumed)
            self._steps[method](self, mail, params)
        except BridgeError as error:
            self._fail(mail, error)

    def _signed(self, mail: Mail, *, is_resumed: bool) -> Mail:
        origin = self._signatures.mail(mail, mail.message, now_ms(), is_resumed=is_resumed)
        return msgspec.structs.replace(mail, origin=origin)

    def _prompt(self, mail: Mail, params: Payload) -> None:
        prompt = params.get("prompt")
        if not isinstance(prompt, list):
            raise InvalidParams("a prompt is a list of content blocks, each with a type")
        self._host.prompt(
            _session_id(params),
            prompt,
            mail.origin,
            mail_id=mail.mail_id,
            on_ended=lambda end: self._prompt_ended(mail, end),
            turn_id=self.queued.pop(mail.mail_id, None),
        )

    def _prompt_ended(self, mail: Mail, end: TurnEnd) -> None:
        after = self._host.last(_session_id(mail.message["params"]))
        if end.error is not None:
            self._finish(MailDone(mail.mail_id, error=end.error, after=str(after)))
            return
        result = end.result or {"stopReason": end.stop_reason}
        self._finish(MailDone(mail.mail_id, result, after=str(after)))

    def _cancel(self, mail: Mail, params: Payload) -> None:
        self._host.cancel(_session_id(params), mail.origin)
        self._finish(MailDone(mail.mail_id, {}))

    def _decide(self, mail: Mail, params: Payload) -> None:
        try:
            decision = msgspec.convert(params, Decision)
        except msgspec.ValidationError as error:
            raise InvalidParams(f"no decision: {error}") from None
        if decision.rule is not None:
            resolved = self._host.questions.end_by_rule(decision, mail.origin, decision.rule)
        else:
            by, also = self._decided_by(mail, decision)
            resolved = self._host.questions.decide(decision, by, also)
        self._finish(MailDone(mail.mail_id, msgspec.to_builtins(resolved)))

    def _decided_by(self, mail: Mail, decision: Decision) -> tuple[Origin, Origin | None]:
        questions = self._host.questions
        question = questions.open.get(decision.id)
        if question is None:
            return mail.origin, None  # over: it changes nothing any more
        try:
            return self._signatures.decision(mail, decision, question.session_id, now_ms())
        except NotAllowed:
            questions.refuse(decision.id, mail.origin)
            raise

    def _set_mode(self, mail: Mail, params: Payload) -> None:
        mode = self._policy.check_mode(params.get("modeId"))
        self._await(mail, self._host.set_mode(_session_id(params), mode))

    def _set_option(self, mail: Mail, params: Payload) -> None:
        session = self._host.roster.get(_session_id(params))
        self._policy.check_option(params, session.facts.config_options)
        self._await(mail, self._host.set_config_option(session.id, params))

    def _set_approval(self, mail: Mail, params: Payload) -> None:
        preset = self._policy.check_approval(params.get("preset"))
        changed = self._host.set_approval(_session_id(params), preset, mail.origin)
        self._finish(MailDone(mail.mail_id, changed))

    def _new(self, mail: Mail, params: Payload) -> None:
        if named_agent(params) not in (None, self._agent_id):
            raise NotFound("that agent is not here")
        cwd = self._policy.check_cwd(params.get("cwd"))
        if not self._mailbox.hand(mail.mail_id):
            return

        async def opened() -> Payload:
            return (await self._host.new_session(cwd)).result

        self._await(mail, opened())

    def _undo(self, mail: Mail, params: Payload) -> None:
        session_id, turn = _session_id(params), _turn(params)
        if self._mailbox.hand(mail.mail_id):
            force = params.get("force") is True
            back = self._host.way_back
            self._await(mail, back.undo(session_id, turn, mail.origin, force=force))

    def _undo_preview(self, mail: Mail, params: Payload) -> None:
        self._await(mail, self._host.way_back.preview(_session_id(params), _turn(params)))

    _steps: dict[str, Callable[[Orders, Mail, Payload], None]] = {  # noqa: RUF012
        acp.PROMPT: _prompt,
        acp.CANCEL: _cancel,
        acp.DECIDE: _decide,
        acp.SET_MODE: _set_mode,
        acp.SET_CONFIG_OPTION: _set_option,
        acp.SET_APPROVAL: _set_approval,
        acp.NEW: _new,
        acp.UNDO: _undo,
        acp.UNDO_PREVIEW: _undo_preview,
    }

    # Outcomes.

    def _await(self, mail: Mail, result: Awaitable[Any]) -> None:
        self._spawn(self._finish_with(mail, result))

    async def _finish_with(self, mail: Mail, result: Awaitable[Any]) -> None:
        try:
            self._finish(MailDone(mail.mail_id, await result))
        except (BridgeError, AgentError) as error:
            self._finish(MailDone(mail.mail_id, error=error.as_object()))

    def _fail(self, mail: Mail, error: BridgeError) -> None:
        self._finish(MailDone(mail.mail_id, error=error.as_object()))

    def _finish(self, done: MailDone) -> None:
        self._mailbox.finish(done)
        self._on_done(done)


def _session_id(params: Payload) -> str:
    session_id = params.get("sessionId")
    if not isinstance(session_id, str):
        raise InvalidParams("sessionId is missing")
    return session_id


def _turn(params: Payload) -> str:
    turn = params.get("turn")
    if not isinstance(turn, str):
        raise InvalidParams("turn is missing")
    return turn
