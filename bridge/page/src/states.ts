/** The true state of a session or an agent: one mark and the words beside it. */

import { duration, instant } from "./age";
import type { Attachment, Session } from "./wire";
import { words } from "./words";

/** A shape as well as a colour: full, ring. */
export type Mark = "ok" | "warn" | "bad" | "off";

export interface State {
  mark: Mark;
  text: string;
}

export function isReachable(attachment: Attachment): boolean {
  return attachment.state === "attached";
}

/** Says how an agent is, why and since when. */
export function attachmentState(attachment: Attachment, now: number): State {
  const { state, reason } = attachment;
  const name = words.attachment.states[state] ?? state;
  const mark = state === "attached" ? "ok" : state === "unresponsive" ? "warn" : "off";
  const since = instant(attachment.since);
  const why = words.attachment.reasons[reason] ?? reason;
  const age = since === null || state === "attached" ? "" : duration(now - since);
  const text = [name, age].filter(Boolean).join(" ") + (why ? `: ${why}` : "");
  return { mark, text };
}

/** Says how a session is; an agent that is away hides what its session does. */
export function sessionState(session: Session, now: number): State {
  if (session.state !== "ended" && !isReachable(session.attachment)) {
    return attachmentState(session.attachment, now);
  }
  const why = words.sessions.stalled[session.stateReason ?? ""];
  const text = why ?? words.sessions.states[session.state] ?? session.state;
  return { mark: markOf(session.state), text };
}

/** The sentence for an agent that is away: "build-03 is offline since 1 min (socket closed)." */
export function awaySentence(host: string, attachment: Attachment, now: number): string | null {
  if (isReachable(attachment)) return null;
  const since = instant(attachment.since);
  return words.attachment.is(
    host,
    words.attachment.states[attachment.state] ?? attachment.state,
    since === null ? "" : duration(now - since),
    words.attachment.reasons[attachment.reason] ?? attachment.reason,
  );
}

/** A folder as people say it: their home as ~. */
export function shortPath(path: string): string {
  return path.replace(/^(\/home\/[^/]+|\/Users\/[^/]+|\/root)(?=\/|$)/, "~");
}

export function sessionTitle(session: Session): string {
  const folder = session.cwd.split("/").filter(Boolean).at(-1) ?? "";
  return session.title || words.sessions.untitled(folder);
}

function markOf(state: string): Mark {
  if (state === "running" || state === "idle") return state === "running" ? "ok" : "off";
  return state === "waiting" ? "warn" : state === "stalled" ? "bad" : "off";
}
