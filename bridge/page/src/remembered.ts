/** The last known state, for when the page opens and the relay cannot be reached; shown as old. */

import { effect } from "@preact/signals";
import type { Store } from "./store";
import type { Agent, Me, RoundTrip, Session } from "./wire";

export interface Snapshot {
  at: number;
  me: Me;
  agents: Agent[];
  sessions: Session[];
  roundTrips: RoundTrip[];
}

const KEY = "last known";
const EVERY = 2_000;
const MOST_CHARACTERS = 500_000; // browsers keep about five million in all
const SESSIONS = 50;

/** Keeps what the store knows, a little after it changed. */
export function remember(store: Store): void {
  let timer: ReturnType<typeof setTimeout> | null = null;
  effect(() => {
    const known = store.known.value && store.me.value;
    store.agents.value;
    store.sessions.value;
    store.roundTrips.value;
    if (!known || timer) return;
    timer = setTimeout(() => {
      timer = null;
      keep(store);
    }, EVERY);
  });
}

export function remembered(): Snapshot | null {
  try {
    return JSON.parse(localStorage.getItem(KEY) ?? "null") as Snapshot | null;
  } catch {
    return null;
  }
}

/** Forgets it: who signed out leaves nothing behind. */
export function forgetRemembered(): void {
  localStorage.removeItem(KEY);
}

function keep(store: Store): void {
  const me = store.me.value;
  if (!me || store.link.value.state !== "live") return;
  const snapshot: Snapshot = {
    at: Date.now(),
    me,
    agents: [...store.agents.value.values()],
    sessions: store.sessionList.value.slice(0, SESSIONS),
    roundTrips: [...store.waiting.value],
  };
  const text = JSON.stringify(snapshot);
  try {
    if (text.length <= MOST_CHARACTERS) localStorage.setItem(KEY, text);
    else localStorage.setItem(KEY, JSON.stringify({ ...snapshot, roundTrips: [] }));
  } catch {
    localStorage.removeItem(KEY); // what is half known is not kept
  }
}
