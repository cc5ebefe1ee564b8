"""The sessions of a connector, by their public ids and by the agent's own."""

from __future__ import annotations

from agent_side.sessions import Session
from bridge.protocol.errors import NotFound


class Roster:
    """Who is who: the agent's ids stay on this side of it."""

    def __init__(self) -> None:
        """Begin without a session."""
        self.sessions: dict[str, Session] = {}
        self._of_agent: dict[str, Session] = {}  # of the process that runs now

    def add(self, session: Session) -> None:
        """Take a session in."""
        self.sessions[session.id] = session

    def get(self, session_id: object) -> Session:
        """Give a session by its public id; raises NotFound."""
        session = self.sessions.get(session_id) if isinstance(session_id, str) else None
        if session is None:
            raise NotFound(f"no session {str(session_id)[:80]!r}")
        return session

    def of_agent(self, agent_id: object) -> Session | None:
        """Give the session that the agent means by one of its ids."""
        return self._of_agent.get(agent_id) if isinstance(agent_id, str) else None

    def bind(self, session: Session) -> None:
        """Take the agent's id of a session for that session from now on."""
        self._of_agent[session.agent_id] = session

    def unbind(self, session: Session) -> None:
        """Take the agent's id of a session for nothing."""
        self._of_agent.pop(session.agent_id, None)

    def forget_agent(self) -> None:
        """Forget all of the agent's ids: its next process may use them anew."""
        self._of_agent.clear()
