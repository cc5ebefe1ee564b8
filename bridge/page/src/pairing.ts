/** This device's side of a pairing: see what is joined, answer, and learn that it was done. */

import { effect, signal } from "@preact/signals";
import * as api from "./api";
import { bytes64, hex, sha256, sha256Hex, utf8 } from "./bytes";
import { type Device, fingerprint } from "./device";
import { canHaveKey, type OwnKey } from "./own_key";
import { spoken } from "./spoken";
import type { Store } from "./store";
import { words } from "./words";

export interface Invitation {
  code: string;
  /** What only the QR code carries; null: the code was typed. */
  secret: Uint8Array<ArrayBuffer> | null;
}

/** What this device would join, as the machine says. */
export interface Offer {
  host: string;
  user: string;
  agent: string;
  folder: string;
  relay: string;
  commit: string;
}

export type Pairing =
  | { at: "typing"; problem: string | null }
  | { at: "looking" }
  | { at: "offered"; offer: Offer }
  | { at: "joining"; offer: Offer }
  | { at: "comparing"; offer: Offer; words: string }
  | { at: "paired"; offer: Offer; fingerprint: string }
  | { at: "failed"; why: string };

const BETWEEN_LOOKS = 400;
/** A machine tells its devices by another way than how the pairing ended; it may be a moment later. */
const TOLD_WITHIN = 10_000;
const CODE = /^[2-9A-HJKMNP-TV-Z]{6}$/;

/** Reads `CODE.SECRET` as it stands in a QR code's address; null: it is none. */
export function readInvitation(text: string): Invitation | null {
  const [code = "", secret = ""] = text.split(".");
  const bytes = bytes64(secret);
  return CODE.test(code) && bytes?.length === 16 ? { code, secret: bytes } : null;
}

/** Reads a code as people type it; null: it is none. */
export function readCode(typed: string): Invitation | null {
  const code = typed.toUpperCase().replace(/[\s-]/g, "");
  return CODE.test(code) ? { code, secret: null } : null;
}

export class PairingWith {
  readonly state = signal<Pairing>({ at: "typing", problem: null });
  private invitation: Invitation | null = null;
  private offerText = "";

  constructor(
    private readonly device: Device,
    private readonly store: Store,
  ) {}

  /** Whether the scanned secret proved where the offer comes from. */
  get isProven(): boolean {
    return Boolean(this.invitation?.secret);
  }

  /** Reads what a code stands for. */
  async look(invitation: Invitation): Promise<void> {
    this.invitation = invitation;
    this.state.value = { at: "looking" };
    try {
      if (!canHaveKey()) throw new Error(words.pairing.insecure(location.origin));
      const { offer, mac } = await api.lookAtPairing(invitation.code);
      const { secret } = invitation;
      if (secret && mac !== (await proof(secret, "offer", offer))) {
        throw new Error(words.pairing.forged);
      }
      this.offerText = offer;
      this.state.value = { at: "offered", offer: JSON.parse(offer) as Offer };
    } catch (error) {
      this.fail(error);
    }
  }

  /** Makes this device's key and has the machine take it. */
  async join(): Promise<void> {
    const { value } = this.state;
    if (value.at !== "offered" || !this.invitation) return;
    const { offer } = value;
    this.state.value = { at: "joining", offer };
    try {
      const key = await this.device.keyOrNew();
      const answer = this.answer(key);
      const { code, secret } = this.invitation;
      const mac = secret && (await proof(secret, "answer", this.offerText, answer));
      await api.answerPairing(code, answer, mac);
      await this.outcome(this.invitation, offer, answer);
      await this.device.keep(key);
      await told(this.store, offer.host, key.id);
      this.state.value = { at: "paired", offer, fingerprint: fingerprint(key.id) };
    } catch (error) {
      this.fail(error);
    }
  }

  again(): void {
    this.state.value = { at: "typing", problem: null };
  }

  private answer(key: OwnKey): string {
    const me = this.store.me.value;
    const nonce = hex(crypto.getRandomValues(new Uint8Array(16)));
    const name = me?.device || "browser";
    return JSON.stringify({ v: 1, key: key.key, name, subject: me?.subject, nonce });
  }

  private async outcome(invitation: Invitation, offer: Offer, answer: string): Promise<void> {
    const { code, secret } = invitation;
    for (;;) {
      const found = await api.outcomeOfPairing(code);
      if (found.step === "comparing") await this.compare(offer, answer, found.number ?? "");
      if (found.step === "refused") throw new Error(words.pairing.refused);
      if (found.step === "expired") throw new Error(words.pairing.expired);
      if (found.step === "paired") {
        const expected = secret && (await proof(secret, "paired", this.offerText, answer));
        if (secret && found.mac !== expected) throw new Error(words.pairing.forged);
        return;
      }
      await new Promise((resolve) => setTimeout(resolve, BETWEEN_LOOKS));
    }
  }

  // The number must be the one to which the machine committed itself before we answered.
  private async compare(offer: Offer, answer: string, number: string): Promise<void> {
    if ((await sha256Hex(number)) !== offer.commit) throw new Error(words.pairing.forged);
    const shown = await comparison(this.offerText, answer, number);
    this.state.value = { at: "comparing", offer, words: shown };
  }

  private fail(error: unknown): void {
    const why = (error as Error).message;
    const typed = this.state.value.at === "looking" && !this.invitation?.secret;
    this.state.value = typed ? { at: "typing", problem: why } : { at: "failed", why };
  }
}

/** Waits until the machine is known to take what this key signs: before, nothing would be signed. */
export async function told(store: Store, host: string, key: string): Promise<void> {
  let over = () => {};
  await new Promise<void>((resolve) => {
    const timer = setTimeout(resolve, TOLD_WITHIN);
    const stop = effect(() => {
      const agents = [...store.agents.value.values()];
      if (agents.some((one) => one.host === host && one.devices.includes(key))) resolve();
    });
    over = () => {
      clearTimeout(timer);
      stop();
    };
  });
  over();
}

/** The HMAC of a step and of all that was said up to it. */
export async function proof(
  secret: Uint8Array<ArrayBuffer>,
  what: string,
  ...texts: string[]
): Promise<string> {
  const usage = { name: "HMAC", hash: "SHA-256" };
  const key = await crypto.subtle.importKey("raw", secret, usage, false, ["sign"]);
  const said = (await Promise.all(texts.map(sha256Hex))).join("");
  const text = utf8(`chimera pairing 1 ${what} ${said}`);
  return hex(new Uint8Array(await crypto.subtle.sign("HMAC", key, text)));
}

/** The words that people compare when no secret was scanned. */
export async function comparison(offer: string, answer: string, number: string): Promise<string> {
  const said = (await Promise.all([offer, answer, number].map(sha256Hex))).join("");
  return spoken((await sha256(utf8(`chimera pairing 1 words ${said}`))).slice(0, 6));
}
