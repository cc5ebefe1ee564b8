/** What the page knows, as signals: fed by the connection, read by what is drawn. */

import { computed, signal } from "@preact/signals";
import { instant } from "./age";
import type { Link } from "./connection";
import { answered, waiting } from "./questions";
import type { Snapshot } from "./remembered";
import type {
  Agent,
  Changed,
  Me,
  Origin,
  Role,
  RoundTrip,
  Session,
  StoreHealth,
  Watched,
} from "./wire";

const ROLES: Role[] = ["viewer", "approver", "operator", "admin"];

export class Store {
  readonly me = signal<Me | null>(null);
  readonly link = signal<Link>({ state: "connecting", since: Date.now() });
  /** When the relay was last known to be there, by this machine's clock. */
  readonly lastLive = signal<number | null>(null);
  /** Whether lists were read at all; an empty list before that means nothing. */
  readonly known = signal(false);
  readonly agents = signal<ReadonlyMap<string, Agent>>(new Map());
  readonly sessions = signal<ReadonlyMap<string, Session>>(new Map());
  readonly roundTrips = signal<ReadonlyMap<string, RoundTrip>>(new Map());
  /** Why the relay's store takes nothing at present, and since when. */
  readonly storeTrouble = signal<StoreHealth | null>(null);
  /** The id of this device's key; null: it has none. */
  readonly device = signal<string | null>(null);
  /** The relay's clock less ours, in ms. */
  readonly skew = signal(0);

  readonly waiting = computed(() => waiting(this.roundTrips.value.values()));
  readonly answered = computed(() => answered(this.roundTrips.value.values()));
  readonly sessionList = computed(() =>
    [...this.sessions.value.values()].sort((a, b) => lastTouched(b) - lastTouched(a)),
  );

  /** Replaces everything by what the relay says it is now. */
  replace(watched: Watched): void {
    this.agents.value = new Map(watched.agents.map((one) => [one.id, one]));
    this.sessions.value = new Map(watched.sessions.map((one) => [one.sessionId, one]));
    this.roundTrips.value = new Map(watched.roundTrips.map((one) => [one.id, one]));
    this.takeHealth(watched.store);
    this.skew.value = (instant(watched.time) ?? Date.now()) - Date.now();
    this.known.value = true;
  }

  /** Shows what was known when the relay was there last; the link says that it is old. */
  restore(snapshot: Snapshot): void {
    this.me.value = snapshot.me;
    this.agents.value = new Map(snapshot.agents.map((one) => [one.id, one]));
    this.sessions.value = new Map(snapshot.sessions.map((one) => [one.sessionId, one]));
    this.roundTrips.value = new Map(snapshot.roundTrips.map((one) => [one.id, one]));
    this.lastLive.value = snapshot.at;
    this.known.value = true;
  }

  /** Takes one record that changed, whole. */
  change(changed: Changed): void {
    const { agent, session, roundTrip, store } = changed;
    if (store) this.takeHealth(store);
    if (agent) this.putAgent(agent);
    if (session) this.putSession(session);
    if (roundTrip) this.roundTrips.value = with_(this.roundTrips.value, roundTrip.id, roundTrip);
  }

  putSession(session: Session): void {
    this.sessions.value = with_(this.sessions.value, session.sessionId, session);
  }

  /** Whether my role reaches at least this one. */
  may(role: Role): boolean {
    const mine = this.me.value?.role;
    return mine !== undefined && ROLES.indexOf(mine) >= ROLES.indexOf(role);
  }

  /** Whether an agent's machine takes things only from paired devices, of which this is none. */
  isLocked(agentId: string): boolean {
    const agent = this.agents.value.get(agentId);
    return agent?.signed === "required" && !agent.devices.includes(this.device.value ?? "");
  }

  /** Whether somebody is me: the same subject, on a surface of the relay. */
  isMe(who: Origin | null | undefined): boolean {
    const local = who?.door === "editor" || who?.door === "terminal" || who?.door === "http";
    return !local && who?.subject !== undefined && who.subject === this.me.value?.subject;
  }

  agentOf(id: string): Agent | undefined {
    return this.agents.value.get(id);
  }

  private takeHealth(health: StoreHealth | undefined): void {
    this.storeTrouble.value = health?.state === "degraded" ? health : null;
  }

  // The sessions of an agent carry its attachment too; one truth for both.
  private putAgent(agent: Agent): void {
    this.agents.value = with_(this.agents.value, agent.id, agent);
    const sessions = new Map(this.sessions.value);
    for (const [id, session] of sessions) {
      if (session.agent === agent.id)
        sessions.set(id, { ...session, attachment: agent.attachment });
    }
    this.sessions.value = sessions;
  }
}

function with_<T>(map: ReadonlyMap<string, T>, id: string, value: T): ReadonlyMap<string, T> {
  return new Map(map).set(id, value);
}

function lastTouched(session: Session): number {
  return instant(session.updatedAt) ?? instant(session.createdAt) ?? 0;
}
