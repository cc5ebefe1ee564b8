/** My own prompts that the log does not show yet. */

import { signal } from "@preact/signals";
import { type Connection, Disconnected, RequestError } from "./connection";
import { newId } from "./ids";
import { NotPaired, type Signer } from "./signer";
import { META } from "./wire";

export interface OwnPrompt {
  mailId: string;
  text: string;
  at: number;
  /**
   * `unknown`: sent long ago and never seen; only the person may send it again.
   * `dropped`: it was stopped before it began.
   */
  state: "sent" | "queued" | "unsent" | "unknown" | "dropped" | "failed";
  message?: string;
}

// What is older is not run by surprise when a laptop wakes up.
const RESEND_WITHIN = 5 * 60_000;

export class Prompts {
  readonly waiting = signal<readonly OwnPrompt[]>([]);

  constructor(
    private readonly connection: Connection,
    private readonly sessionId: string,
    private readonly signer: Signer,
  ) {
    this.waiting.value = this.remembered();
  }

  send(text: string): void {
    const prompt: OwnPrompt = { mailId: newId("p"), text, at: Date.now(), state: "sent" };
    this.set([...this.waiting.value, prompt]);
    void this.post(prompt);
  }

  /** Sends one again under its own id: if it did arrive, nothing happens twice. */
  again(mailId: string): void {
    const prompt = this.waiting.value.find((one) => one.mailId === mailId);
    if (!prompt) return;
    if (prompt.state === "dropped") {
      this.discard(mailId);
      this.send(prompt.text);
      return;
    }
    this.put({ ...prompt, state: "sent", message: undefined });
    void this.post(prompt);
  }

  discard(mailId: string): void {
    this.set(this.waiting.value.filter((one) => one.mailId !== mailId));
  }

  /** The log is whole up to now: what it does not show is sent again, or left to the person. */
  reconcile(): void {
    for (const prompt of this.waiting.value) {
      if (prompt.state !== "sent" && prompt.state !== "unsent") continue;
      if (Date.now() - prompt.at < RESEND_WITHIN) this.again(prompt.mailId);
      else this.put({ ...prompt, state: "unknown" });
    }
  }

  /** The log shows these. */
  seen(inLog: ReadonlySet<string>): void {
    const left = this.waiting.value.filter((one) => !inLog.has(one.mailId));
    if (left.length !== this.waiting.value.length) this.set(left);
  }

  queued(mailId: string): void {
    this.mark(mailId, "queued");
  }

  dropped(mailId: string): void {
    this.mark(mailId, "dropped");
  }

  private mark(mailId: string, state: OwnPrompt["state"]): void {
    const prompt = this.waiting.value.find((one) => one.mailId === mailId);
    if (prompt && prompt.state !== state) this.put({ ...prompt, state });
  }

  private async post(prompt: OwnPrompt): Promise<void> {
    const { sessionId } = this;
    const { mailId } = prompt;
    const blocks = [{ type: "text", text: prompt.text }];
    try {
      const method = "session/prompt";
      const signature = await this.signer.toSession(sessionId, mailId, method, { prompt: blocks });
      const meta = { [META]: { mailId, echo: true, ...(signature && { signature }) } };
      const params = { sessionId, prompt: blocks, _meta: meta };
      await this.connection.request("session/prompt", params, null);
    } catch (error) {
      const known = this.waiting.value.find((one) => one.mailId === mailId);
      if (!known) return;
      if (error instanceof Disconnected) {
        // What was decided about it meanwhile stays.
        if (known.state === "sent") this.put({ ...known, state: "unsent" });
      } else if (error instanceof RequestError || error instanceof NotPaired) {
        this.put({ ...known, state: "failed", message: error.message });
      } else throw error;
    }
  }

  private put(prompt: OwnPrompt): void {
    this.set(this.waiting.value.map((one) => (one.mailId === prompt.mailId ? prompt : one)));
  }

  private set(prompts: readonly OwnPrompt[]): void {
    this.waiting.value = prompts;
    if (prompts.length) sessionStorage.setItem(this.key, JSON.stringify(prompts));
    else sessionStorage.removeItem(this.key);
  }

  private remembered(): OwnPrompt[] {
    return JSON.parse(sessionStorage.getItem(this.key) ?? "[]") as OwnPrompt[];
  }

  private get key(): string {
    return `prompts ${this.sessionId}`;
  }
}
