"""One prompt's run through ferret's loop, with every decision asked for."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from agent_side.agents.ferret.calls import describe

if TYPE_CHECKING:
    from agent_side.agents.ferret.session import Session

MOST_STEPS = 50  # model calls in one turn
SILENCE_SECONDS = 2.0  # after a cancel, before the turn is ended though the model's answer hangs


class Turn(threading.Thread):
    """One prompt's run; the engine's loop calls it as middleware, policy and stream handler."""

    def __init__(self, session: Session, id_: Any, text: str, *, after: Turn | None) -> None:
        """Prepare the loop; ``after`` is the turn before, which may still have to end."""
        super().__init__(daemon=True)
        self.over = False
        self._session = session
        self._engine = session.engine
        self._request_id = id_
        self._text = text
        self._after = after
        self._lock = threading.Lock()
        self._token = self._engine.CancellationToken()
        self._calls: list[Any] = []  # of the model's last answer, not yet decided
        self._cards: dict[str, Any] = {}  # tool calls shown and not closed

    def run(self) -> None:
        """Run the loop and answer the prompt, whatever happens."""
        if self._after:
            self._after.join()
        try:
            outcome: dict[str, Any] = {"result": {"stopReason": self._loop()}}
        except Exception as error:  # noqa: BLE001  the provider's errors are of any kind
            outcome = {"error": {"code": -32603, "message": f"{type(error).__name__}: {error}"}}
        if self._token.is_cancelled:
            outcome = {"result": {"stopReason": "cancelled"}}
        self._mend_context()
        for id_ in list(self._cards):
            self._close(id_, "failed", "not run")
        self._end(outcome)

    def cancel(self) -> None:
        """Stop at the next chance, and tell the client soon even when the model is silent."""
        self._token.cancel()
        self._session.wire.withdraw()
        self._session.commands.stop()
        silence = threading.Timer(
            SILENCE_SECONDS, self._end, [{"result": {"stopReason": "cancelled"}}]
        )
        silence.daemon = True
        silence.start()

    def _loop(self) -> str:
        session, engine = self._session, self._engine
        session.commands.start()
        if self._token.is_cancelled:
            return "cancelled"
        session.context.add(engine.Message.user(self._text))
        bus = engine.EventBus()
        bus.subscribe("tool_call", lambda event: self._show(event.call_id, "in_progress"))
        bus.subscribe("tool_result", self._tool_result)
        config = engine.LoopConfig(
            permissions=self,
            event_bus=bus,
            handler=self,
            middleware=[self],
            cancellation=self._token,
        )
        loop = engine.ReAct(max_steps=MOST_STEPS, config=config)
        agent = session.agent
        for step in loop.iter_steps(agent.provider, agent.tools, session.context, session.env):
            if step.pending_approval:  # never by our policy; fails closed if the engine changes
                step.pending_approval.deny("not allowed")
            if step.done:
                return "max_turn_requests" if step.step >= MOST_STEPS else "end_turn"
        return "end_turn"

    def _end(self, outcome: dict[str, Any]) -> None:
        with self._lock:
            if self.over:
                return
            self.over = True
        self._session.wire.send(id=self._request_id, **outcome)

    def _mend_context(self) -> None:
        """Give every tool call a result: providers refuse a history where one is missing."""
        context, message = self._session.context, self._engine.Message
        messages = context.to_messages()
        answered = {m.call_id for m in messages if m.role == "tool"}
        for call in [c for m in messages for c in (m.tool_calls or [])]:
            if call.id not in answered:
                context.add(message.tool(call.id, "not run: the turn was cancelled"))

    # The loop's middleware.

    def before_model(self, context: Any, _tools: Any) -> Any:
        """Change nothing."""
        return context

    def after_model(self, response: Any, _context: Any) -> Any:
        """Show all tool calls before the first is asked about."""
        self._calls = list(response.tool_calls)
        for call in self._calls:
            self._cards[call.id] = call
            self._update("tool_call", **describe(call, self._session.cwd), status="pending")
        return response

    def after_agent(self, result: Any, _env: Any) -> Any:
        """Change nothing."""
        return result

    # The loop's permission policy.

    def evaluate(self, tool_name: str, args: dict[str, Any]) -> Any:
        """Decide one tool call: by the mode, by what is always allowed, or by asking."""
        action = self._engine.PermissionAction
        call = next((c for c in self._calls if c.name == tool_name and c.arguments == args), None)
        if call is None or self._token.is_cancelled:
            return action.DENY
        self._calls.remove(call)
        decided = self._engine.policy_for_mode(self._session.mode).evaluate(tool_name, args)
        if decided is action.ASK:
            decided = action.ALLOW if self._allowed(call) else action.DENY
        if decided is not action.ALLOW:
            self._close(call.id, "failed", "not allowed; nothing was done")
            return action.DENY
        return action.ALLOW

    def _allowed(self, call: Any) -> bool:
        session = self._session
        if session.mode != "strict" and (call.name == "think" or call.name in session.always):
            return True
        options = [
            {"optionId": "allow", "name": "Allow once", "kind": "allow_once"},
            {"optionId": "always", "name": f"Allow {call.name} always", "kind": "allow_always"},
            {"optionId": "reject", "name": "Reject", "kind": "reject_once"},
        ]
        card = {**describe(call, session.cwd), "status": "pending"}
        params = {"sessionId": session.id, "toolCall": card, "options": options}
        answer = session.wire.ask("session/request_permission", params) or {}
        chosen = (answer.get("outcome") or {}).get("optionId")
        if chosen == "always":
            session.always.add(call.name)
        return chosen in ("allow", "always") and not self._token.is_cancelled

    # The loop's stream handler and events.

    def handle_event(self, event: Any) -> None:
        """Pass on a piece of text."""
        if event.type == "text_delta" and event.content:
            text = {"type": "text", "text": event.content}
            self._update("agent_message_chunk", content=text)

    def on_step_start(self, *_: Any) -> None:
        """Show nothing: cards and text tell it all."""

    on_step_end = on_tool_start = on_tool_end = on_done = on_step_start

    def _tool_result(self, event: Any) -> None:
        self._close(event.call_id, "completed" if event.success else "failed", event.output)

    def _close(self, call_id: str, status: str, output: str) -> None:
        self._cards.pop(call_id, None)
        content = {"type": "content", "content": {"type": "text", "text": output}}
        self._show(call_id, status, content=[content])

    def _show(self, call_id: str, status: str, **more: Any) -> None:
        self._update("tool_call_update", toolCallId=call_id, status=status, **more)

    def _update(self, what: str, /, **more: Any) -> None:
        if not self.over:
            self._session.update(what, **more)
