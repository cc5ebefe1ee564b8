/** What a push message shows: made from the subject that is hashed here, never from other words of the relay. */

import {
  hashOf,
  headline,
  hiddenIn,
  type Option,
  onlyRejectable,
  parseSubject,
  type Subject,
} from "./subject";
import type { Answer } from "./wire";
import { notifications as words } from "./words/notifications";

export interface Asked {
  kind: "question";
  id: string;
  sessionId: string;
  risk: string;
  open: number;
  agent: string;
  host: string;
  title?: string;
  // What it takes to show and to sign an answer; absent: only the page can.
  agentId?: string;
  epoch?: number;
  hash?: string;
  subject?: string;
}

export interface Answered {
  kind: "answered";
  id: string;
  state: string;
  result?: string | null;
  reason?: string | null;
  by?: string | null;
  answer?: Answer | null;
}

export interface TurnOver {
  kind: "turn" | "failure";
  sessionId: string;
  agent: string;
  host: string;
  title?: string;
  took?: number | null;
}

export interface Tested {
  kind: "test";
  by: string;
}

export type Pushed = Asked | Answered | TurnOver | Tested;

/** A button on a notification, and the answer it stands for. */
export interface Button {
  option: Option;
  action: string;
}

export interface Shown {
  title: string;
  body: string;
  tag: string;
  /** The place of the page that a tap opens. */
  place: string;
  buttons: Button[];
  quietly: boolean;
}

// What does not fit on a notification whole is nothing to allow there.
const READABLE = 240;
const MANY = 4;

/** The tag of a question's notification: what follows replaces it. */
export function tagOf(id: string): string {
  return `q-${id}`;
}

export async function shownFor(pushed: Pushed): Promise<Shown> {
  if (pushed.kind === "question") return question(pushed);
  if (pushed.kind === "answered") return answered(pushed);
  if (pushed.kind === "test") {
    return notice(words.test, words.testBody(pushed.by), "test", "#/settings");
  }
  const { agent, host, took } = pushed;
  const title = pushed.kind === "turn" ? words.turnEnded(agent, host) : words.failed(agent, host);
  const length = took ? words.turnTook(Math.max(1, Math.round(took / 60))) : "";
  const body = [pushed.title, length].filter(Boolean).join(" · ");
  return notice(title, body, `t-${pushed.sessionId}`, `#/s/${pushed.sessionId}`);
}

/** When many wait, one notification stands for all of them. */
export function summary(open: number): Shown {
  return notice(words.many(open), words.manyBody, "many", "#/");
}

export function areMany(shown: number): boolean {
  return shown >= MANY;
}

async function question(asked: Asked): Promise<Shown> {
  const title = words.asks(asked.agent, asked.host);
  const base = notice(title, words.openToSee, tagOf(asked.id), `#/q/${asked.id}`);
  if (asked.risk === "high") return { ...base, body: words.high };
  if (asked.subject === undefined) return { ...base, body: asked.title || base.body };
  const subject = parseSubject(asked.subject);
  if (!subject || (await hashOf(asked.subject)) !== asked.hash) return base;
  const body = bodyOf(subject);
  if (body.length > READABLE || hiddenIn(subject) > 0) return base;
  const simple = asked.risk === "low" && !subject.form && subject.diffs.length === 0;
  const barred = subject.secrets.length > 0 || onlyRejectable({ subject: asked.subject }, subject);
  return { ...base, body, buttons: simple && !barred ? buttonsOf(subject.options) : [] };
}

// All that would run, not only its headline: who allows here sees nothing else.
function bodyOf(subject: Subject): string {
  const what = headline(subject);
  const said = subject.arguments?.split("\n").filter((line) => !line.endsWith(`: ${what}`)) ?? [];
  const paths = subject.paths.filter((path) => !what.includes(path));
  return [what, ...said, ...paths, subject.cwd].filter(Boolean).join("\n");
}

// "Always" is chosen where its scope can be read.
function buttonsOf(options: Option[]): Button[] {
  const allow = options.filter((one) => one.kind === "allow_once");
  const reject = options.filter((one) => one.kind === "reject_once");
  if (allow.length !== 1 || reject.length !== 1) return [];
  return [...allow, ...reject].map((option) => ({ option, action: `choose ${option.id}` }));
}

function answered(end: Answered): Shown {
  const tag = tagOf(end.id);
  const place = `#/q/${end.id}`;
  if (end.result === "void" && end.answer) {
    const body = words.because(end.reason ?? "");
    return { ...notice(words.notApplied, body, tag, place), quietly: false };
  }
  const chosen = end.answer && (end.answer.action ?? end.answer.optionId);
  const title = chosen
    ? words.answered(end.by ?? null, words.choices[chosen] ?? chosen)
    : words.withdrawn;
  return { ...notice(title, words.answeredBody, tag, place), quietly: true };
}

function notice(title: string, body: string, tag: string, place: string): Shown {
  return { title, body, tag, place, buttons: [], quietly: false };
}
