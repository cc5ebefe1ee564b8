"""A session's prompts: one runs, the others wait; every end is said once, after the last text."""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from agent_side.agent import Agent
from agent_side.agents.process import AgentError, AgentGone, Outcome
from agent_side.log import Log
from agent_side.mailbox import Mailbox
from agent_side.round_trips import RoundTrips
from agent_side.sessions import Session
from agent_side.stall import Stall
from agent_side.tasks import Spawn
from agent_side.turn import CANCELLED, Turn, TurnEnd, UnknownOutcome
from agent_side.way_back import WayBack
from bridge.protocol import acp
from bridge.protocol.entry import Origin
from bridge.protocol.errors import BridgeError
from bridge.protocol.round_trip import Reason

_GIVEN_UP = UnknownOutcome("the agent did not stop and was ended; what it did is not known")


@dataclass(frozen=True)
class Stage:
    """What turns run on: the same for all sessions of a connector."""

    agent: Agent
    questions: RoundTrips
    mailbox: Mailbox
    log: Log
    way_back: WayBack
    revive: Callable[[Session], Awaitable[None]]  # raises BridgeError or AgentError
    spawn: Spawn


class Turns:
    """The queue of one session's prompts."""

    def __init__(self, session: Session, stage: Stage) -> None:
        """Begin without a prompt."""
        self._session = session
        self._stage = stage
        self._running: Turn | None = None
        self._handed = False  # the agent was given the one that runs
        self._waiting: deque[Turn] = deque()
        self._stall = Stall(session)
        self._given_up = False  # the agent is being ended because it does not stop

    @property
    def busy(self) -> bool:
        """Whether a prompt runs or waits."""
        return self._running is not None or bool(self._waiting)

    @property
    def _live(self) -> bool:
        return self._stage.agent.knows(self._session.run)

    def submit(self, turn: Turn, *, announced: bool = False) -> None:
        """Run a prompt now or when its turn comes; ``announced``: the log has it as queued."""
        if not announced and (self.busy or not self._live):
            self._stage.log.append(self._session.id, turn.draft("queued"))
        self._waiting.append(turn)
        self._proceed()

    def cancel(self, by: Origin) -> None:
        """Stop the running prompt, and drop those that the same subject has waiting.

        When the agent has ignored a cancel for a while, the next one ends its process.
        """
        dropped = [turn for turn in self._waiting if turn.is_of(by)]
        self._waiting = deque(turn for turn in self._waiting if not turn.is_of(by))
        self._stop_running()
        # Right after it: some agents stop only when their question is answered.
        self._stage.questions.close_session(self._session.id, Reason.CANCELLED, by)
        for turn in dropped:
            self._end(turn, TurnEnd(CANCELLED))

    def withdraw(self, mail_id: str, by: Origin) -> None:
        """Stop one prompt, whether it runs or waits, and no other."""
        if self._running is not None and self._running.mail_id == mail_id:
            self._stop_running()
            self._stage.questions.close_session(self._session.id, Reason.CANCELLED, by)
        for turn in [turn for turn in self._waiting if turn.mail_id == mail_id]:
            self._waiting.remove(turn)
            self._end(turn, TurnEnd(CANCELLED))

    # Inside.

    def _stop_running(self) -> None:
        if self._running is None:
            return
        if not self._handed:
            self._drop(self._running)
        elif self._live:
            self._tell_to_stop()

    def _drop(self, turn: Turn) -> None:
        """End a prompt whose snapshot is still being taken."""
        self._stage.way_back.dropped(turn.id)
        self._running = None
        self._session.prompting = False
        self._end(turn, TurnEnd(CANCELLED))
        self._session.changed()
        self._proceed()

    def _tell_to_stop(self) -> None:
        if not self._stall.ignores_cancel:
            self._stage.agent.notify(acp.CANCEL, {"sessionId": self._session.agent_id})
            self._stall.cancelled()
        elif not self._given_up:
            self._given_up = True
            self._stage.spawn(self._stage.agent.end())

    def _proceed(self) -> None:
        if self._running is not None or not self._waiting:
            return
        if not self._live:
            self._stage.spawn(self._wake())
            return
        turn = self._running = self._waiting.popleft()
        self._session.prompting = True
        self._session.name_after(turn.prompt)
        self._session.changed()
        self._handed = False
        self._stage.way_back.before(self._session, turn, lambda: self._begin(turn))

    def _begin(self, turn: Turn) -> None:
        """Hand a prompt over, unless it was cancelled or the agent died meanwhile."""
        if self._running is not turn:
            return
        if self._live:
            self._hand(turn)
            return
        self._stage.way_back.dropped(turn.id)
        self._running = None
        self._session.prompting = False
        self._waiting.appendleft(turn)
        self._proceed()

    async def _wake(self) -> None:
        try:
            await self._stage.revive(self._session)
        except (BridgeError, AgentError) as error:
            waiting, self._waiting = self._waiting, deque()
            for turn in waiting:
                self._end(turn, TurnEnd.of(error))
        else:
            self._proceed()

    def _hand(self, turn: Turn) -> None:
        """Give a prompt to the agent once it is on disk that it was given."""
        log = self._stage.log
        log.append(self._session.id, turn.draft("started"))
        for draft in turn.user_chunks():
            log.append(self._session.id, draft)
        on_disk = log.write()
        if turn.mail_id is not None:
            on_disk = self._stage.mailbox.hand(turn.mail_id) and on_disk
        if not on_disk:
            return
        self._handed = True
        self._session.begin_doings()
        self._stall.begin()
        params = {"sessionId": self._session.agent_id, "prompt": turn.prompt}
        self._stage.agent.start_call(acp.PROMPT, params, lambda o: self._done(turn, o))

    def _done(self, turn: Turn, outcome: Outcome) -> None:
        gone = isinstance(outcome, AgentGone)
        reason = Reason.AGENT_EXITED if gone else Reason.TURN_ENDED
        self._stage.questions.close_session(self._session.id, reason)
        self._session.close_cards()
        self._running = None
        self._session.prompting = False
        self._stall.end()
        if gone and self._given_up:
            self._end(turn, TurnEnd(error=_GIVEN_UP.as_object()), "unknown")
        else:
            self._end(turn, TurnEnd.of(self._stage.agent.explained(outcome)))
        self._given_up = False
        self._stage.way_back.after(turn.id)
        self._session.changed()
        self._proceed()

    def _end(self, turn: Turn, end: TurnEnd, state: str = "ended") -> None:
        draft = turn.draft(state, stopReason=end.stop_reason, error=end.error)
        self._stage.log.append(self._session.id, draft)
        self._stage.log.then(lambda: turn.on_ended(end))
