/** My own answers on their way: what I chose, and what the relay said to it. */

import { signal } from "@preact/signals";
import { type Connection, Disconnected, RequestError } from "./connection";
import { newId } from "./ids";
import { NotPaired, type Signer } from "./signer";
import type { Answer, Decided, Origin, RoundTrip } from "./wire";

export interface Mine {
  decisionId: string;
  hash: string;
  answer: Answer;
  /** `failed`: nothing was recorded, for the reason in `message`; another try is free. */
  state: "sending" | "failed" | Decided["state"];
  by?: Origin | null;
  reason?: string | null;
  message?: string;
}

/** After these another answer may be given: nothing is decided by mine. */
const FREE = new Set<Mine["state"]>(["failed", "needs_another"]);

export class Decisions {
  readonly mine = signal<ReadonlyMap<string, Mine>>(new Map());

  private readonly asked = new Map<string, RoundTrip>();

  constructor(
    private readonly connection: Connection,
    private readonly signer: Signer,
  ) {}

  /** Sends an answer once; while one is under way or recorded, another is not taken. */
  decide(roundTrip: RoundTrip, answer: Answer): void {
    const before = this.mine.value.get(roundTrip.id);
    if (before && !FREE.has(before.state)) return;
    const { hash } = roundTrip;
    const decisionId = newId("d");
    this.put(roundTrip.id, { decisionId, hash, answer, state: "sending" });
    this.asked.set(roundTrip.id, roundTrip);
    void this.send(roundTrip.id);
  }

  /** Sends again what got no answer, under the same id: it counts once. */
  resend(): void {
    for (const [id, mine] of this.mine.value) {
      if (mine.state === "sending") void this.send(id);
    }
  }

  private async send(id: string): Promise<void> {
    const mine = this.mine.value.get(id);
    const roundTrip = this.asked.get(id);
    if (!mine || !roundTrip) return;
    const { decisionId, hash, answer } = mine;
    try {
      const jws = await this.signer.decision(roundTrip, answer, decisionId);
      const params = jws ? { jws } : { id, hash, answer, decisionId };
      const decided = await this.connection.request<Decided>("_bridge/decide", params);
      this.put(id, { ...mine, state: decided.state, by: decided.by, reason: decided.reason });
    } catch (error) {
      if (error instanceof NotPaired) {
        this.put(id, { ...mine, state: "failed", message: error.message, reason: "signature" });
      } else if (error instanceof RequestError) {
        this.put(id, { ...mine, state: "failed", message: error.message, reason: error.reason });
      } else if (!(error instanceof Disconnected)) throw error;
    }
  }

  private put(id: string, mine: Mine): void {
    this.mine.value = new Map(this.mine.value).set(id, mine);
  }
}
