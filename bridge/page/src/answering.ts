/** Answers a question from its notification: signed here, and what became of it. */

import { newId } from "./ids";
import type { Asked } from "./notices";
import { readOwnKey, sign } from "./own_key";
import type { Option } from "./subject";
import type { Agent, Decided } from "./wire";
import { notifications as words } from "./words/notifications";

export interface Said {
  title: string;
  body: string;
  /** Whether the question still waits for an answer on the page. */
  isOpen: boolean;
}

const ANSWER_WITHIN = 20_000;
const LIFE = 600_000;

/** Sends an option as the answer; only what was shown whole has an option to choose. */
export async function answer(asked: Asked, option: Option): Promise<Said> {
  try {
    return outcome(await decide(asked, option), option);
  } catch (error) {
    const { message } = error as Error;
    return { title: words.notRecorded, body: `${message}. ${words.openToAnswer}`, isOpen: true };
  }
}

async function decide(asked: Asked, option: Option): Promise<Decided> {
  const decisionId = newId("d");
  const chosen = { optionId: option.id };
  const { id, hash } = asked;
  const jws = await signed(asked, chosen, decisionId);
  const body = { hash, answer: chosen, decisionId, ...(jws && { jws }) };
  return call<Decided>("POST", `/api/round-trips/${encodeURIComponent(id)}/decision`, body);
}

/** Signs as the page does; null: the machine knows no key of this device. */
async function signed(asked: Asked, chosen: object, decisionId: string): Promise<string | null> {
  const key = await readOwnKey();
  const { agents } = await call<{ agents: Agent[] }>("GET", "/api/agents");
  const agent = agents.find((one) => one.id === asked.agentId);
  if (!key || !agent?.devices.includes(key.id)) return null;
  const { id, sessionId, epoch, hash } = asked;
  const iat = Date.now();
  return sign(key, "decision+jwt", {
    ...{ id, sessionId, epoch, hash, answer: chosen, decisionId },
    ...{ device: key.id, iat, exp: iat + LIFE },
  });
}

function outcome(decided: Decided, option: Option): Said {
  if (decided.state === "recorded") {
    return { title: words.recorded(option.name), body: words.recordedBody, isOpen: false };
  }
  if (decided.state === "late") {
    const by = decided.by?.subject ?? null;
    return { title: words.late, body: words.lateBody(by), isOpen: false };
  }
  if (decided.state === "closed") return { title: words.late, body: words.closed, isOpen: false };
  const why = decided.reason ? `${decided.reason}. ` : "";
  return { title: words.notRecorded, body: `${why}${words.openToAnswer}`, isOpen: true };
}

async function call<T>(method: string, path: string, body?: object): Promise<T> {
  const response = await fetch(path, {
    method,
    headers: body ? { "content-type": "application/json" } : {},
    body: body && JSON.stringify(body),
    credentials: "same-origin",
    cache: "no-store",
    signal: AbortSignal.timeout(ANSWER_WITHIN),
  });
  const answer = (await response.json()) as T & { error?: { message: string } };
  if (!response.ok)
    throw new Error(answer.error?.message ?? `the relay answered ${response.status}`);
  return answer;
}
