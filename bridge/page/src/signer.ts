/** Signs what I answer and send, for machines that have paired this device. */

import { sha256Hex } from "./bytes";
import { canonical } from "./canonical";
import type { Device } from "./device";
import { type OwnKey, sign } from "./own_key";
import type { Store } from "./store";
import type { Agent, Answer, Payload, RoundTrip } from "./wire";
import { words } from "./words";

// What is kept back longer than this is not carried out any more.
const LIFE = 600_000;

/** The machine takes only what a paired device signed, and this one is not paired with it. */
export class NotPaired extends Error {
  constructor(agent: Agent) {
    super(words.pairing.needed(agent.host));
  }
}

export class Signer {
  constructor(
    private readonly store: Store,
    private readonly device: Device,
  ) {}

  /** Gives the signed answer; null: this machine knows no key of ours and needs none. */
  async decision(roundTrip: RoundTrip, answer: Answer, decisionId: string): Promise<string | null> {
    const agent = this.store.agentOf(roundTrip.agent);
    const key = this.keyFor(agent);
    if (!key) return null;
    const { id, sessionId, epoch, hash } = roundTrip;
    const claims = { id, sessionId, epoch, hash, answer, decisionId, ...about(key) };
    return sign(key, "decision+jwt", claims);
  }

  /** Gives the signature of a message to an agent, as the relay sends it down; null as above. */
  async mail(agentId: string, mailId: string, message: Payload): Promise<string | null> {
    const agent = this.store.agentOf(agentId);
    const key = this.keyFor(agent);
    if (!agent || !key) return null;
    const hash = await sha256Hex(canonical(message));
    return sign(key, "mail+jwt", {
      mailId,
      agent: agentId,
      epoch: agent.epoch,
      hash,
      ...about(key),
    });
  }

  /** The same for a message to the agent of a session. */
  async toSession(
    sessionId: string,
    mailId: string,
    method: string,
    params: Payload,
  ): Promise<string | null> {
    const agent = this.store.sessions.value.get(sessionId)?.agent ?? "";
    return this.mail(agent, mailId, { method, params: { sessionId, ...params } });
  }

  private keyFor(agent: Agent | undefined): OwnKey | null {
    const key = this.device.own.value;
    if (key && agent?.devices.includes(key.id)) return key;
    if (agent?.signed === "required") throw new NotPaired(agent);
    return null;
  }
}

function about(key: OwnKey): Payload {
  const iat = Date.now();
  return { device: key.id, iat, exp: iat + LIFE };
}
