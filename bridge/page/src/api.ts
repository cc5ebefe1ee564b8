/** The few things that go over plain HTTP: who I am, signing in and out, older pages of a log. */

import type { CursorText } from "./cursor";
import type { Wish } from "./notifications";
import type { Entry, Me, Payload } from "./wire";

// On a dead line a browser waits for minutes and tells nothing.
const ANSWER_WITHIN = 60_000;
const KNOWN_WITHIN = 10_000;

export class ApiError extends Error {
  constructor(
    readonly status: number,
    message: string,
    readonly reason: string,
  ) {
    super(message);
  }
}

export interface LogPage {
  entries: Entry[];
  first?: CursorText | null;
  more: boolean;
}

/** Tells who is signed in; null: nobody. */
export async function whoAmI(): Promise<Me | null> {
  try {
    return await call<Me>("GET", "/api/me", undefined, KNOWN_WITHIN);
  } catch (error) {
    if (error instanceof ApiError && (error.status === 401 || error.status === 403)) return null;
    throw error;
  }
}

export async function signIn(secret: string): Promise<void> {
  await call("POST", "/api/sign-in", { secret });
}

export async function signOut(): Promise<void> {
  await call("POST", "/api/sign-out", {});
}

/** Gives the ms that a relay which lets nobody in asks one to wait; 0 when it lets one in. */
export async function retryAfter(): Promise<number> {
  const signal = AbortSignal.timeout(KNOWN_WITHIN);
  const response = await fetch("/acp", { cache: "no-store", signal });
  const seconds = response.status === 503 ? Number(response.headers.get("retry-after")) : 0;
  return Number.isFinite(seconds) ? Math.min(60, seconds) * 1000 : 0;
}

export interface PairedDevice {
  id: string;
  name: string;
  subject: string;
  fingerprint: string;
  machines: { agent: string; name: string; host: string }[];
  pairedAt?: string | null;
  lastSeen?: string | null;
  revokedAt?: string | null;
}

export interface PairingOutcome {
  step: "open" | "answered" | "comparing" | "paired" | "refused" | "expired";
  number?: string | null;
  mac?: string | null;
}

export async function lookAtPairing(code: string): Promise<{ offer: string; mac: string }> {
  return call("POST", "/api/pairings/look", { code });
}

export async function answerPairing(
  code: string,
  answer: string,
  proof: string | null,
): Promise<void> {
  await call("POST", "/api/pairings/answer", { code, answer, proof });
}

export async function outcomeOfPairing(code: string): Promise<PairingOutcome> {
  return call("POST", "/api/pairings/outcome", { code });
}

export async function devices(): Promise<PairedDevice[]> {
  return (await call<{ devices: PairedDevice[] }>("GET", "/api/devices")).devices;
}

export async function revokeDevice(id: string): Promise<void> {
  await call("DELETE", `/api/devices/${encodeURIComponent(id)}`);
}

export interface PushAttempt {
  id: string;
  device: string;
  status: number;
  reason: string;
  tookMs: number;
}

export interface PushState {
  key: string;
  subscriptions: { id: string; device: string; here: boolean; wish: Wish }[];
}

export async function push(): Promise<PushState> {
  return call("GET", "/api/push");
}

export async function subscribeTo(subscription: Payload, wish: Wish): Promise<void> {
  const { endpoint, keys } = subscription;
  await call("PUT", "/api/push/subscription", { endpoint, keys, wish });
}

export async function unsubscribeFrom(id: string): Promise<void> {
  await call("DELETE", `/api/push/subscriptions/${encodeURIComponent(id)}`);
}

export async function pushTest(): Promise<PushAttempt[]> {
  return (await call<{ attempts: PushAttempt[] }>("POST", "/api/push/test", {})).attempts;
}

/** Reads the entries before a cursor, oldest first. */
export async function logBefore(
  session: string,
  before: CursorText,
  limit = 1000,
): Promise<LogPage> {
  const query = new URLSearchParams({ before, limit: String(limit), compact: "true" });
  return call<LogPage>("GET", `/api/sessions/${encodeURIComponent(session)}/log?${query}`);
}

export interface Piece {
  size: number;
  text: string;
  next?: number | null;
}

/** Reads a piece of one entry in full, as the machine that wrote it keeps it. */
export async function entryPiece(
  session: string,
  cursor: CursorText,
  offset: number,
): Promise<Piece> {
  const path = `/api/sessions/${encodeURIComponent(session)}/log/${cursor}`;
  return call<Piece>("GET", `${path}?offset=${offset}`);
}

/** Asks the relay; raises ApiError with the sentence that it gives. */
export async function call<T>(
  method: string,
  path: string,
  body?: unknown,
  within = ANSWER_WITHIN,
): Promise<T> {
  const response = await fetch(path, {
    signal: AbortSignal.timeout(within),
    method,
    headers: body === undefined ? {} : { "content-type": "application/json" },
    body: body === undefined ? undefined : JSON.stringify(body),
    credentials: "same-origin",
    cache: "no-store",
  });
  const text = await response.text();
  if (response.ok) return (text ? JSON.parse(text) : null) as T;
  throw errorOf(response.status, text);
}

function errorOf(status: number, text: string): ApiError {
  try {
    const { error } = JSON.parse(text) as { error: { message: string; reason: string } };
    return new ApiError(status, error.message, error.reason);
  } catch {
    return new ApiError(status, `the relay answered ${status}`, String(status));
  }
}
