/** Whether this browser is notified while the page is closed, and of what. */

import { signal } from "@preact/signals";
import {
  type PushAttempt,
  type PushState,
  push,
  pushTest,
  subscribeTo,
  unsubscribeFrom,
} from "./api";
import type { Payload } from "./wire";
import { hasKey, subscribe, subscription } from "./worker";

export type Kind = "question" | "turn" | "failure";

export interface Quiet {
  begins: number;
  ends: number;
  utcOffset: number;
}

export interface Wish {
  kinds: Kind[];
  shows: "little" | "all";
  quiet: Quiet | null;
}

export const EVERYTHING: Wish = {
  kinds: ["question", "turn", "failure"],
  shows: "little",
  quiet: null,
};

export type Ability = "ready" | "insecure" | "unsupported" | "blocked";

export class Notifications {
  readonly state = signal<PushState | null>(null);
  readonly here = signal(false);
  readonly wish = signal<Wish>(EVERYTHING);
  readonly attempts = signal<PushAttempt[] | null>(null);
  readonly busy = signal(false);
  readonly problem = signal<string | null>(null);

  /** Reads how it is; a browser whose subscription is of another key subscribes anew. */
  async load(): Promise<void> {
    await this.trying(async () => {
      if (ability() === "unsupported" || ability() === "insecure") return;
      const state = await push();
      const own = await subscription();
      const listed = own && (await this.listed(state, own));
      this.state.value = state;
      this.here.value = Boolean(listed);
      if (listed) this.wish.value = { ...EVERYTHING, ...listed.wish };
      if (own && listed && !hasKey(own, state.key)) await this.put();
    });
  }

  async turnOn(): Promise<void> {
    await this.trying(async () => {
      if ((await Notification.requestPermission()) !== "granted") return;
      await this.put();
    });
  }

  async turnOff(): Promise<void> {
    await this.trying(async () => {
      const own = await subscription();
      const listed = own && this.state.value && (await this.listed(this.state.value, own));
      await own?.unsubscribe();
      if (listed) await unsubscribeFrom(listed.id);
      this.here.value = false;
      this.state.value = await push();
    });
  }

  async choose(wish: Wish): Promise<void> {
    this.wish.value = wish;
    if (this.here.value) await this.trying(() => this.put());
  }

  async test(): Promise<void> {
    this.attempts.value = null;
    await this.trying(async () => {
      this.attempts.value = await pushTest();
      this.state.value = await push();
    });
  }

  private async put(): Promise<void> {
    const { key } = this.state.value ?? (await push());
    const own = await subscribe(key);
    const quiet = this.wish.value.quiet;
    const here = { utcOffset: -new Date().getTimezoneOffset() };
    const wish = { ...this.wish.value, quiet: quiet && { ...quiet, ...here } };
    await subscribeTo(own.toJSON() as Payload, wish);
    this.here.value = true;
    this.state.value = await push();
  }

  // The relay names a subscription by the beginning of its address's hash.
  private async listed(state: PushState, own: PushSubscription) {
    const bytes = new TextEncoder().encode(own.endpoint);
    const digest = new Uint8Array(await crypto.subtle.digest("SHA-256", bytes));
    const id = Array.from(digest.slice(0, 16), (b) => b.toString(16).padStart(2, "0")).join("");
    return state.subscriptions.find((one) => one.id === id) ?? null;
  }

  private async trying(what: () => Promise<void>): Promise<void> {
    this.busy.value = true;
    this.problem.value = null;
    try {
      await what();
    } catch (error) {
      this.problem.value = (error as Error).message;
    } finally {
      this.busy.value = false;
    }
  }
}

/** Whether this browser could be notified, or what stands against it. */
export function ability(): Ability {
  if (!globalThis.isSecureContext) return "insecure";
  if (!("serviceWorker" in navigator) || !("PushManager" in globalThis)) return "unsupported";
  return Notification.permission === "denied" ? "blocked" : "ready";
}

/** Reads "22:30" as minutes of the day. */
export function minutesOf(time: string): number {
  const [hours = 0, minutes = 0] = time.split(":").map(Number);
  return hours * 60 + minutes;
}

export function timeOf(minutes: number): string {
  const two = (n: number) => String(n).padStart(2, "0");
  return `${two(Math.floor(minutes / 60))}:${two(minutes % 60)}`;
}
