/**
 * The one socket to the relay: connect, say who we are, keep alive, back off, come back.
 *
 * Others see the link's state, `ready` after each connect, and the messages. Nobody else knows sockets.
 */

import type { ErrorObject, Payload } from "./wire";

export type Link =
  | { state: "connecting"; since: number }
  | { state: "live"; since: number }
  | { state: "reconnecting"; reason: string; since: number; next: number | null }
  | { state: "signed-out" }
  | { state: "stopped"; reason: string; code: number };

export interface Message {
  id?: string | number;
  method?: string;
  params?: Payload;
  result?: unknown;
  error?: ErrorObject;
}

export interface Listener {
  /** The link changed. */
  link(link: Link): void;
  /** The relay greeted us; the link is live when this is through. */
  ready(hello: Payload): Promise<void>;
  message(message: Message): void;
  /** Asked when a socket was refused: "in", "out" (signed out) or "away" (nobody answers). */
  isSignedIn(): Promise<"in" | "out" | "away">;
  /** Asked then too: the ms that a relay which is full wants us to wait; 0 when it is not. */
  retryAfter(): Promise<number>;
}

export class RequestError extends Error {
  constructor(readonly error: ErrorObject) {
    super(error.data?.message ?? error.message);
  }

  get reason(): string {
    return this.error.data?.reason ?? String(this.error.code);
  }
}

/** The link went away before an answer came; what was asked may have happened or not. */
export class Disconnected extends Error {}

interface Waiter {
  resolve: (value: unknown) => void;
  reject: (error: Error) => void;
  timer: ReturnType<typeof setTimeout> | null;
}

const FIRST_WAIT = 500;
const LONGEST_WAIT = 30_000;
// A link that was greeted and lived so long was a good one: the next wait is a short one again.
const GOOD_LIFE = 1_000;
const ANSWER_WITHIN = 15_000;
export const PROBE_WITHIN = 5_000;
export const LOOK_EVERY = 5_000;
// Routers drop idle TCP after about a minute, and a browser tells nothing of it. Together with the
// 20 s in which a relay notices a dead connector, what a visible page shows is at most 45 s old.
export const PROBE_AFTER = 15_000;
const OPEN_WITHIN = 8_000;
// Who is looked at again does not wait that long for a socket that was opened before.
const PATIENCE_WHEN_SEEN = 3_000;
// A page that runs hears the answer to a probe more often: this one slept.
const SLEPT_AFTER = 60_000;

// Codes after which coming back by itself would not help.
const FINAL: Record<number, string> = {
  1002: "protocol_error",
  4400: "bad_request",
  4403: "not_allowed",
  4404: "unknown",
  4426: "upgrade_required",
};
const REASONS: Record<number, string> = {
  1001: "relay_restarting",
  1012: "relay_restarting",
  1013: "overloaded",
  4408: "too_slow",
  4429: "rate_limited",
};

export class Connection {
  private socket: WebSocket | null = null;
  private waiters = new Map<number, Waiter>();
  private nextId = 1;
  private attempts = 0;
  private brokenSince: number | null = null;
  private liveSince: number | null = null;
  private retry: ReturnType<typeof setTimeout> | null = null;
  private heard = 0;
  private probing = false;
  private stopped = true;
  private watchdog: ReturnType<typeof setInterval> | null = null;

  constructor(
    private readonly url: () => string,
    private readonly listener: Listener,
    private readonly initialize: () => Payload,
    private readonly open: (url: string, protocols: string[]) => WebSocket = (url, protocols) =>
      new WebSocket(url, protocols),
  ) {}

  start(): void {
    if (!this.stopped) return;
    this.stopped = false;
    this.attempts = 0;
    this.brokenSince = null;
    this.watchdog = setInterval(() => this.probeIfSilent(), LOOK_EVERY);
    this.listener.link({ state: "connecting", since: Date.now() });
    this.connect();
  }

  stop(): void {
    this.stopped = true;
    if (this.retry) clearTimeout(this.retry);
    if (this.watchdog) clearInterval(this.watchdog);
    this.retry = null;
    this.drop();
  }

  /** Sends a request; `within` null waits for as long as the link lives. */
  request<T>(method: string, params: Payload, within: number | null = ANSWER_WITHIN): Promise<T> {
    const id = this.nextId++;
    return new Promise<T>((resolve, reject) => {
      const timer = within === null ? null : setTimeout(() => this.giveUp(id, method), within);
      this.waiters.set(id, { resolve: resolve as (value: unknown) => void, reject, timer });
      if (!this.send({ id, method, params })) this.fail(id, new Disconnected("not connected"));
    });
  }

  notify(method: string, params: Payload): boolean {
    return this.send({ method, params });
  }

  /** Looks now whether the link is there: after waking, coming online, coming back to the tab. */
  check(): void {
    if (this.stopped) return;
    const { socket } = this;
    const silent = Date.now() - this.heard;
    this.attempts = 0;
    if (!socket) this.connect();
    else if (silent > (this.liveSince === null ? PATIENCE_WHEN_SEEN : SLEPT_AFTER)) {
      this.leave(socket);
    } else if (this.liveSince !== null) void this.probe();
  }

  private send(message: Payload): boolean {
    if (this.socket?.readyState !== 1) return false;
    this.socket.send(JSON.stringify({ jsonrpc: "2.0", ...message }));
    return true;
  }

  private connect(): void {
    if (this.retry) clearTimeout(this.retry);
    this.retry = null;
    this.heard = Date.now();
    const socket = this.open(this.url(), ["acp.v1"]);
    let opened = false;
    const late = setTimeout(() => this.leave(socket, false), OPEN_WITHIN);
    this.socket = socket;
    socket.onopen = () => {
      opened = true;
      clearTimeout(late);
      void this.greet(socket);
    };
    socket.onmessage = (event) => this.receive(event.data);
    socket.onclose = (event) => {
      clearTimeout(late);
      if (socket === this.socket) void this.closed(event.code, opened);
    };
  }

  private async greet(socket: WebSocket): Promise<void> {
    this.heard = Date.now();
    try {
      const hello = await this.request<Payload>("initialize", this.initialize());
      await this.listener.ready(hello);
      if (socket !== this.socket) return;
      this.liveSince = Date.now();
      this.brokenSince = null;
      this.listener.link({ state: "live", since: this.liveSince });
    } catch {
      this.leave(socket);
    }
  }

  // A dead socket may take minutes to say so, or never: what it says from here on is not heard.
  private leave(socket: WebSocket, opened = true): void {
    if (socket !== this.socket) return;
    socket.onopen = socket.onmessage = socket.onclose = null;
    this.brokenSince ??= Date.now();
    this.tell(opened ? "socket_closed" : "relay_unreachable", null);
    void this.closed(1006, opened);
  }

  private receive(data: unknown): void {
    this.heard = Date.now();
    if (typeof data !== "string") return;
    const message = JSON.parse(data) as Message;
    const isAnswer = message.method === undefined && message.id !== undefined;
    if (isAnswer) this.answered(message);
    else this.listener.message(message);
  }

  private answered(message: Message): void {
    const waiter = this.waiters.get(Number(message.id));
    if (!waiter) return;
    this.forget(Number(message.id));
    if (message.error) waiter.reject(new RequestError(message.error));
    else waiter.resolve(message.result);
  }

  private async closed(code: number, opened: boolean): Promise<void> {
    const lived = this.liveSince === null ? 0 : Date.now() - this.liveSince;
    this.drop();
    if (this.stopped) return;
    const final = opened ? FINAL[code] : undefined;
    if (final) return this.end({ state: "stopped", reason: final, code });
    if (lived >= GOOD_LIFE) this.attempts = 0;
    this.brokenSince ??= Date.now();
    const reason = await this.reasonOf(code, opened);
    if (this.stopped || this.socket || this.retry) return;
    if (reason === "signed_out") return this.end({ state: "signed-out" });
    const told = reason === "socket_refused" ? await this.listener.retryAfter() : 0;
    if (this.stopped || this.socket || this.retry) return;
    this.waitAndRetry(reason, told);
  }

  private end(link: Link): void {
    this.stop();
    this.listener.link(link);
  }

  private async reasonOf(code: number, opened: boolean): Promise<string> {
    if (opened && code !== 4401) return REASONS[code] ?? "socket_closed";
    if (globalThis.navigator?.onLine === false) return "offline";
    const answer = await this.listener.isSignedIn();
    if (answer === "out") return "signed_out";
    return answer === "away" ? "relay_unreachable" : "socket_refused";
  }

  private waitAndRetry(reason: string, told: number): void {
    const wait = told ? told + Math.random() * Math.max(1000, told / 4) : this.nextWait();
    this.retry = setTimeout(() => {
      this.tell(reason, null);
      this.connect();
    }, wait);
    this.tell(reason, Date.now() + wait);
  }

  private nextWait(): number {
    return waitBefore(this.attempts++);
  }

  private tell(reason: string, next: number | null): void {
    const since = this.brokenSince ?? Date.now();
    this.listener.link({ state: "reconnecting", reason, since, next });
  }

  private probeIfSilent(): void {
    const patience = globalThis.document?.hidden ? 2 * PROBE_AFTER : PROBE_AFTER;
    if (this.liveSince !== null && Date.now() - this.heard > patience) void this.probe();
  }

  private async probe(): Promise<void> {
    if (this.probing) return;
    this.probing = true;
    const socket = this.socket;
    const visible = !globalThis.document?.hidden;
    try {
      await this.request("_bridge/visible", { visible }, PROBE_WITHIN);
    } catch (error) {
      if (!(error instanceof RequestError) && socket) this.leave(socket);
    } finally {
      this.probing = false;
    }
  }

  private giveUp(id: number, method: string): void {
    this.fail(id, new Disconnected(`${method} was not answered`));
  }

  private fail(id: number, error: Error): void {
    const waiter = this.waiters.get(id);
    this.forget(id);
    waiter?.reject(error);
  }

  private forget(id: number): void {
    const timer = this.waiters.get(id)?.timer;
    if (timer) clearTimeout(timer);
    this.waiters.delete(id);
  }

  private drop(): void {
    const socket = this.socket;
    this.socket = null;
    this.liveSince = null;
    if (socket && socket.readyState < 2) socket.close();
    for (const id of [...this.waiters.keys()])
      this.fail(id, new Disconnected("the link went away"));
  }
}

/** How long to wait before a try, in ms: at once, then full jitter under a growing bound. */
export function waitBefore(attempt: number, random: () => number = Math.random): number {
  if (attempt === 0) return random() * FIRST_WAIT;
  const bound = Math.min(LONGEST_WAIT, FIRST_WAIT * 2 ** attempt);
  return Math.max(FIRST_WAIT, random() * bound);
}
