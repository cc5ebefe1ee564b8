"""The way back from every turn: a snapshot before it, a receipt after it, and its undo.

Everything that touches the disk runs in threads. Work in one folder happens one piece after the
other: a snapshot never sees half of another turn's undo, and an undo never half of a turn.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from agent_side.doings import Doings
from agent_side.log import Draft, Log
from agent_side.receipts import Evidence, compose, files_of
from agent_side.sessions import Session
from agent_side.snapshots import undoing
from agent_side.snapshots.git import GitFailed, GitMissing, Interrupted
from agent_side.snapshots.snapshot import Snapshot, shown
from agent_side.snapshots.store import Begun, Kept, Store
from agent_side.snapshots.unit import TooLarge
from agent_side.tasks import Spawn
from agent_side.turn import Turn
from agent_side.undo import LISTED, edited_later, impossible, left, preview
from bridge.protocol import entry
from bridge.protocol.entry import Origin
from bridge.protocol.errors import NotFound, UndoImpossible
from bridge.protocol.jsonrpc import Payload

BEFORE_SECONDS = 10.0  # a turn waits so long for its snapshot, then begins without one
FIRST_SECONDS = 600.0  # for the first look at a folder, while nobody waits
SETTLE_SECONDS = 5.0  # for the receipts of turns that end when the connector does

logger = logging.getLogger(__name__)


@dataclass
class _Running:
    """A turn between its snapshot and its receipt."""

    session: Session
    turn: str
    origin: Origin | None
    began: float = field(default_factory=time.monotonic)
    begun: Begun | None = None
    doings: Doings | None = None
    why: str = ""
    detail: str = ""
    shared: bool = False


class WayBack:
    """The snapshots of one connector's turns."""

    def __init__(self, store: Store, log: Log, spawn: Spawn, *, most_bytes: int) -> None:
        """Keep snapshots in ``store`` and write receipts to ``log``; 0 bytes: keep none."""
        self.why = "" if most_bytes else "off"  # nothing is kept; a word of receipts.NOT_KEPT
        self._store = store
        self._log = log
        self._spawn = spawn
        self._most_bytes = most_bytes
        self._running: dict[str, _Running] = {}
        self._locks: dict[Path, asyncio.Lock] = {}
        self._opened = asyncio.Event()
        self._ending: set[str] = set()  # turns whose receipt is on its way
        self._settled = asyncio.Event()
        self._settled.set()

    # Life.

    async def open(self, sessions: Callable[[str], Session]) -> None:
        """Get ready, and write the receipts of turns that an earlier process did not end."""
        try:
            if not self.why:
                await asyncio.to_thread(self._store.open)
        except GitMissing:
            self.why = "git_missing"
        except (GitFailed, OSError) as error:
            self.why = "failed"
            logger.warning("no turn can be undone: %s", error)
        self._opened.set()
        if self.why:
            return
        for begun in await asyncio.to_thread(self._store.begun):
            self._take_up(begun, sessions)
        await self._tidy()

    async def close(self) -> None:
        """Write the receipts that are on their way, then end what runs."""
        try:
            async with asyncio.timeout(SETTLE_SECONDS):
                await self._settled.wait()
        except TimeoutError:
            logger.warning("a turn's receipt is written at the next start")
        self._store.close()

    def warm(self, session: Session) -> None:
        """Read a session's folder before its first turn, so that it need not wait."""
        if not self.why:
            self._spawn(self._warm(session.cwd))

    # A turn.

    def before(self, session: Session, turn: Turn, then: Callable[[], None]) -> None:
        """Keep what is there before a turn, then do the next step; it comes in any case."""
        running = self._running[turn.id] = _Running(session, turn.id, turn.origin, why=self.why)
        if self.why:
            then()
        else:
            self._spawn(self._before(running, then))

    def dropped(self, turn: str) -> None:
        """Forget a turn that was cancelled before it began."""
        running = self._running.pop(turn, None)
        if running is not None and running.begun is not None:
            self._spawn(self._drop(running.begun))

    def after(self, turn: str) -> None:
        """Compare, and write the receipt of a turn that has ended."""
        running = self._running.get(turn)
        if running is None:
            return
        if self.why == "off":
            del self._running[turn]
            return
        if running.origin is not None:
            running.doings = running.session.doings
        self._ending.add(turn)
        self._settled.clear()
        self._spawn(self._after(running))

    # Undoing.

    async def preview(self, session_id: str, turn: str) -> Payload:
        """Say what the undo of a turn would change; raises NotFound."""
        await self._opened.wait()
        kept = await asyncio.to_thread(self._find, session_id, turn)
        named: Payload = {"sessionId": session_id, "turn": turn}
        if why := self._obstacle(kept):
            return {**named, "possible": False, "reason": why.data["why"], "text": why.message}
        async with self._alone(Path(kept.folder)):
            planned = await asyncio.to_thread(self._plan, kept)
        return {**named, "possible": True, **preview(planned)}

    async def undo(self, session_id: str, turn: str, by: Origin, *, force: bool) -> Payload:
        """Lead a session's folder back to before a turn.

        Raises NotFound, UndoImpossible, and EditedLater unless it is to be done by force.
        """
        await self._opened.wait()
        kept = await asyncio.to_thread(self._find, session_id, turn)
        async with self._alone(Path(kept.folder)):
            if why := self._obstacle(kept):
                raise why
            try:
                done, stays = await asyncio.to_thread(self._undo, kept, force=force)
            except (GitFailed, OSError) as error:
                raise impossible("failed", detail=str(error)) from None
        return self._undone(kept, done, stays, by, forced=force)

    # Inside: before and after.

    async def _before(self, running: _Running, then: Callable[[], None]) -> None:
        folder = running.session.cwd
        for other in self._running.values():
            if other is not running and _overlap(other.session.cwd, folder):
                running.shared = other.shared = True
        try:
            async with asyncio.timeout(BEFORE_SECONDS):
                await self._opened.wait()
                async with self._alone(folder):
                    running.begun = await asyncio.to_thread(self._begin, running)
        except TimeoutError:
            running.why = "too_slow"
        except (Interrupted, TooLarge, GitFailed, OSError) as error:
            running.why, running.detail = _reason(error)
        finally:
            running.why = running.why or ("" if running.begun else self.why or "failed")
            then()
        if running.why == "too_slow":
            await self._warm(folder)

    def _begin(self, running: _Running) -> Begun:
        session = running.session
        before = self._store.take(session.cwd, BEFORE_SECONDS)
        begun = Begun(running.turn, session.id, str(session.cwd), before)
        self._store.begin(begun)
        return begun

    async def _after(self, running: _Running) -> None:
        session = running.session
        took = round((time.monotonic() - running.began) * 1000)
        kept: Kept | None = None
        after: Snapshot | None = None
        try:
            if running.begun is not None:
                async with self._alone(session.cwd):
                    kept, after = await asyncio.to_thread(self._finish, running, running.begun)
        except (Interrupted, TooLarge, GitFailed, OSError) as error:
            running.why, running.detail = _reason(error)
        finally:
            self._running.pop(running.turn, None)
        seen = Evidence(
            folder=session.cwd,
            doings=running.doings,
            kept=kept,
            why=running.why,
            detail=running.detail,
            ignored=tuple(after.ignored if after else ()),
            left_out=tuple(after.left_out if after else ()),
            usage=session.facts.usage,
            has_repository=(session.cwd / ".git").exists(),
        )
        self._write_receipt(running, {"took": took, **compose(seen)})

    def _finish(self, running: _Running, begun: Begun) -> tuple[Kept, Snapshot]:
        after = self._store.take(running.session.cwd, FIRST_SECONDS)
        return self._store.finish(begun, after, shared=running.shared), after

    def _write_receipt(self, running: _Running, fields: Payload) -> None:
        fields = {"turn": running.turn, **fields}
        draft = Draft(method=entry.RECEIPT, fields=fields, origin=running.origin)
        self._log.append(running.session.id, draft)
        self._ending.discard(running.turn)
        if not self._ending:
            self._settled.set()

    def _take_up(self, begun: Begun, sessions: Callable[[str], Session]) -> None:
        try:
            session = sessions(begun.session)
        except NotFound:
            self._spawn(self._drop(begun))
            return
        running = _Running(session, begun.turn, None, begun=begun)
        self._running[begun.turn] = running
        self.after(begun.turn)

    async def _drop(self, begun: Begun) -> None:
        await asyncio.to_thread(self._store.drop, begun)

    async def _warm(self, folder: Path) -> None:
        await self._opened.wait()
        if self.why:
            return
        try:
            async with self._alone(folder):
                await asyncio.to_thread(self._store.take, folder, FIRST_SECONDS)
        except (Interrupted, TooLarge, GitFailed, OSError) as error:
            logger.debug("%s is not kept yet: %s", folder, error)

    async def _tidy(self) -> None:
        try:
            await asyncio.to_thread(self._store.tidy, self._most_bytes)
        except (GitFailed, OSError) as error:
            logger.debug("the snapshots were not tidied: %s", error)

    # Inside: undoing.

    def _find(self, session_id: str, turn: str) -> Kept:
        kept = self._store.find(turn)
        if kept is None or kept.session != session_id:
            raise NotFound(f"nothing is kept of turn {turn[:80]!r}: it cannot be undone")
        return kept

    def _obstacle(self, kept: Kept) -> UndoImpossible | None:
        folder = Path(kept.folder)
        if self.why:
            return impossible(self.why)
        if kept.undone_by:
            return impossible("undone", undo=kept.undone_by)
        if any(_overlap(one.session.cwd, folder) for one in self._running.values()):
            return impossible("turn_runs")
        return None

    def _plan(self, kept: Kept) -> undoing.Plan:
        return undoing.plan(self._store.git, Path(kept.folder), kept.changes, kept.protected)

    def _undo(self, kept: Kept, *, force: bool) -> tuple[Kept, dict[str, str]]:
        planned = self._plan(kept)
        if planned.conflicts and not force:
            raise edited_later(planned.conflicts)
        steps, failed = undoing.carry_out(self._store.git, Path(kept.folder), planned)
        undo = f"undo-{secrets.token_hex(8)}"
        done = Kept(undo, kept.session, kept.folder, time.time_ns() // 1_000_000, steps)
        self._store.keep(done)
        kept.undone_by = undo
        self._store.write(kept)
        return done, {**planned.left, **failed}

    def _undone(
        self, kept: Kept, done: Kept, stays: dict[str, str], by: Origin, *, forced: bool
    ) -> Payload:
        counted = undoing.counts(done.changes)
        paths = [shown(change.path) for change in files_of(done.changes)]
        fields: Payload = {
            "turn": kept.turn,
            "undo": done.turn,
            "forced": forced,
            **counted,
            "paths": paths[:LISTED],
            "more": max(0, len(paths) - LISTED),
            "origin": by,
        }
        self._log.append(kept.session, Draft(method=entry.UNDONE, fields=fields, origin=by))
        return {"undo": done.turn, **counted, "left": left(stays)}

    # Inside: one at a time.

    @asynccontextmanager
    async def _alone(self, folder: Path) -> AsyncIterator[None]:
        """Have a folder and all that lies in or around it to oneself."""
        self._locks.setdefault(folder, asyncio.Lock())
        overlapping = sorted(one for one in self._locks if _overlap(one, folder))
        async with AsyncExitStack() as stack:
            for one in overlapping:
                await stack.enter_async_context(self._locks[one])
            yield


def _overlap(one: Path, other: Path) -> bool:
    return one.is_relative_to(other) or other.is_relative_to(one)


def _reason(error: Exception) -> tuple[str, str]:
    if isinstance(error, Interrupted):
        return "too_slow", ""
    if isinstance(error, TooLarge):
        return "too_large", str(error)
    return "failed", str(error).splitlines()[0][:200] if str(error) else type(error).__name__
