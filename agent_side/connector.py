"""The connector: one agent, its sessions, the doors on this machine and the way to the relay."""

from __future__ import annotations

import asyncio
import logging

from agent_side.agents.process import AgentCommand, AgentStartError
from agent_side.audience import Audience
from agent_side.desk import Desk, local_origin
from agent_side.devices import Devices, DevicesUnreadable
from agent_side.door import Door
from agent_side.envoy import Affairs, Envoy
from agent_side.faults import FAULT, REPLACED, ExitReason
from agent_side.folder import AlreadyRunning, StateFolder
from agent_side.host import Ears, Host
from agent_side.inviting import serve_side_door
from agent_side.journal import Journal
from agent_side.log import Log, Written
from agent_side.mailbox import Mailbox
from agent_side.opening import Opened
from agent_side.orders import Orders
from agent_side.outbox import Outbox
from agent_side.pairing import Pairings, Place
from agent_side.policy import Policy
from agent_side.proof_key import ProofKey
from agent_side.recovery import Recovery
from agent_side.round_trips import Question
from agent_side.rules import Rules
from agent_side.sessions import Session
from agent_side.settings import ConnectorSettings, RelayTarget
from agent_side.side_door import SideDoor
from agent_side.signatures import Signatures
from agent_side.snapshots.store import Store
from agent_side.status import Status
from agent_side.tasks import Tasks
from agent_side.terms import terms_of
from agent_side.trust import Trust
from agent_side.turn import TurnEnd
from agent_side.uplink import Uplink
from agent_side.visitors import Visitors
from agent_side.way_back import WayBack
from bridge.protocol.attachment import Reason, State
from bridge.protocol.errors import PairingRefused

AGENT_DOES_NOT_START = 5
DEVICES_SECONDS = 1.0  # between looks at who may sign

logger = logging.getLogger(__name__)

__all__ = [
    "Connector",
    "Door",
    "ExitReason",
    "Opened",
    "Question",
    "Session",
    "TurnEnd",
    "local_origin",
]


class Connector(Desk):
    """Runs until it is stopped, replaced or refused; everything on it is called in its loop."""

    def __init__(
        self, settings: ConnectorSettings, command: AgentCommand, *, relay: RelayTarget | None
    ) -> None:
        """Take what to run and where to attach; nothing is opened before ``run``."""
        self._settings = settings
        self._audience = Audience()
        self._folder = StateFolder(settings.folder)
        self._journal = Journal(self._folder.sessions)
        self._mailbox = Mailbox(self._folder.mail, self._disk_failed)
        self._outbox = Outbox()
        self._log = Log(
            self._journal,
            0,
            self._deliver,
            self._disk_failed,
            is_behind=self._is_behind,
            on_piece=self._audience.piece,
            redaction=settings.redaction,
        )
        self._status = Status(relay.url if relay else None, self._audience.status_changed)
        self._tasks = Tasks()
        self._policy = Policy(settings, command.ask_mode)
        self._devices = Devices(settings.state_dir)
        self._signatures = Signatures(self._devices, settings.signed, settings.relay_rules)
        self.sandbox = command.sandbox.state
        self.rules = Rules(self._folder.path)
        self.visitors = Visitors()
        named = settings.trusted
        self._trust = Trust(
            settings.state_dir, (settings.cwd, *settings.roots) if named is None else named
        )
        self.pairings = Pairings(self._devices, self._tell_relay)
        self._relay = relay
        self.way_back = WayBack(
            Store(self._folder.snapshots, settings.state_dir),
            self._log,
            self._tasks.spawn,
            most_bytes=settings.snapshot_mb << 20,
        )
        self._host = Host(
            command,
            journal=self._journal,
            log=self._log,
            mailbox=self._mailbox,
            terms=terms_of(settings, self.rules, self.sandbox, self._signatures),
            ears=Ears(
                asked=self._audience.asked,
                closed=self._audience.closed,
                session_changed=self._session_changed,
                agent_changed=self._agent_changed,
                notification=self._audience.passed_on,
            ),
            way_back=self.way_back,
            spawn=self._tasks.spawn,
        )
        self._envoy = Envoy(self._affairs(settings))
        if relay is not None:
            self._envoy.uplink = Uplink(
                relay, self._envoy, self._outbox, self._status, ProofKey(settings.state_dir)
            )
        self._side_door = SideDoor(self._folder.path, lambda *heard: serve_side_door(self, *heard))
        self._ending: ExitReason | None = None
        self._ended = asyncio.Event()
        self._ready = asyncio.Event()

    # Life.

    async def run(self) -> ExitReason:
        """Run to the end; gives the exit code and a sentence."""
        try:
            self._tasks.spawn(self._start(self._open()))
            await self._ended.wait()
        except AlreadyRunning as error:
            self._end(ExitReason(REPLACED, str(error)))
        except OSError as error:
            self._end(ExitReason(FAULT, f"{self._folder.path} cannot be used: {error}"))
        finally:
            await self._close()
        return self._ending or ExitReason(0, "stopped")

    def stop(self, reason: str) -> None:
        """End in order, with exit code 0."""
        self._end(ExitReason(0, reason))

    def fail(self, reason: str) -> None:
        """End in order, as by a fault."""
        self._end(ExitReason(FAULT, reason))

    @property
    def has_ended(self) -> bool:
        """Whether it is over, or about to be."""
        return self._ended.is_set()

    async def ready(self) -> None:
        """Wait until the agent runs and sessions can be opened, or all is over."""
        await self._ready.wait()

    def open_door(self, door: Door) -> None:
        """Tell a door everything from now on; what is open already stands in ``questions``."""
        self._audience.open(door)

    def close_door(self, door: Door) -> None:
        """Tell a door nothing more."""
        self._audience.close(door)

    # Devices.

    @property
    def has_devices(self) -> bool:
        """Whether a device was ever paired with this machine."""
        return self._devices.required

    @property
    def place(self) -> Place:
        """What a paired device joins; raises PairingRefused when no relay could bring one."""
        if self._relay is None or self.status()["state"] != State.ATTACHED:
            raise PairingRefused("this connector is not attached to a relay now")
        card, who = self.agent, local_origin("terminal")
        folder = str(self._policy.roots[0])
        return Place(who.device, who.subject, card.title or card.name, folder, self._relay.page_url)

    # Starting and ending.

    def _affairs(self, settings: ConnectorSettings) -> Affairs:
        return Affairs(
            name=settings.name,
            folder=self._folder,
            journal=self._journal,
            log=self._log,
            mailbox=self._mailbox,
            host=self._host,
            policy=self._policy,
            signatures=self._signatures,
            redaction=settings.redaction,
            pairings=self.pairings,
            status=self._status,
            sandbox=self.sandbox,
        )

    def _open(self) -> Orders:
        self._folder.open()
        recovery = Recovery()
        self._journal.load(recovery.read)
        self._mailbox.open()
        self._log.epoch = self._signatures.epoch = self._folder.epoch
        self._signatures.agent_id = self.pairings.agent_id = self._folder.agent_id
        self._devices.look()
        waiting = set(self._mailbox.pending) - self._mailbox.handed
        for session_id, journal in self._journal.sessions.items():
            self._outbox.add(session_id, journal)
            if journal.facts is not None:
                self._host.restore(journal.facts, recovery.of(session_id), waiting)
        orders = self._envoy.orders = Orders(
            self._folder.agent_id,
            self._host,
            policy=self._policy,
            signatures=self._signatures,
            mailbox=self._mailbox,
            on_done=self._envoy.mail_done,
            spawn=self._tasks.spawn,
        )
        orders.queued = recovery.queued()
        return orders

    async def _start(self, orders: Orders) -> None:
        try:
            await self._host.start()
        except AgentStartError as error:
            self._end(ExitReason(AGENT_DOES_NOT_START, str(error)))
            return
        self._ready.set()
        self._tasks.spawn(self._follow_devices())
        self._tasks.spawn(self.way_back.open(self._host.roster.get))
        await self._open_side_door()
        orders.resume()
        if self._envoy.uplink is not None:
            self._end(await self._envoy.uplink.run())

    async def _open_side_door(self) -> None:
        try:
            await self._side_door.open()
        except OSError as error:
            logger.warning("chimera-bridge pair cannot reach this connector: %s", error)

    async def _follow_devices(self) -> None:
        """Tell the relay when a device comes or goes, whoever changed the file."""
        while True:
            await asyncio.sleep(DEVICES_SECONDS)
            try:
                if self._devices.look():
                    self._envoy.agent_changed()
            except DevicesUnreadable as error:
                logger.warning("no signature is taken: %s", error)

    async def _close(self) -> None:
        self._ready.set()
        self._side_door.close()
        self.pairings.cancel()
        await self._host.stop()
        await self.way_back.close()
        self._log.settle_all()
        self._envoy.flush()
        self._log.flush()
        if self._envoy.uplink is not None:
            await self._envoy.uplink.say_goodbye(Reason.SAID_GOODBYE)
        await self._tasks.stop()
        self._journal.close()
        self._mailbox.close()
        self._folder.close()

    def _end(self, reason: ExitReason) -> None:
        self._ending = self._ending or reason
        self._ended.set()

    def _disk_failed(self, error: OSError) -> None:
        self._end(ExitReason(FAULT, f"{self._folder.path} cannot be written: {error.strerror}"))

    # What happens inside.

    def _deliver(self, written: Written) -> None:
        self._outbox.add(written.session_id, self._journal.sessions[written.session_id])
        self._outbox.put(written.session_id)
        if self._envoy.uplink is not None:
            self._envoy.uplink.poke()
        self._audience.entry(written)

    def _is_behind(self) -> bool:
        """Whether the relay gets what the agent says later than it could be told."""
        if self._status.round_trip_ms is None:  # no relay yet
            return False
        return not self._outbox.connected or self._outbox.is_behind(self._status.round_trip_ms)

    def _tell_relay(self, method: str, params: object) -> None:
        self._envoy.tell(method, params)

    def _session_changed(self, session: Session) -> None:
        self._envoy.session_changed(session)
        self._log.then(self._audience.status_changed)

    def _agent_changed(self) -> None:
        self._envoy.agent_changed()
        self._audience.status_changed()
