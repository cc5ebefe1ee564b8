/** What became of a question, in one sentence: from the record and my own answer, never guessed. */

import { clockTime, instant } from "./age";
import type { Mine } from "./decisions";
import { answerOf } from "./questions";
import { isStanding, type Option, type Subject } from "./subject";
import type { Resolved } from "./tool";
import type { Answer, Origin, RoundTrip } from "./wire";
import { words } from "./words";

export type Tone = "ok" | "warn" | "bad" | "quiet";

export interface Outcome {
  /** One word: recorded, applied, answered, ended. */
  state: string;
  tone: Tone;
  /** Who did what: "Ben allowed this at the editor". */
  sentence: string;
  /** What is still open about it. */
  rest: string | null;
  at: number | null;
}

export interface Names {
  isMe: (who: Origin | null | undefined) => boolean;
  host: string;
}

/** Says what a record tells; null while it is open. */
export function outcomeOf(one: RoundTrip, subject: Subject | null, names: Names): Outcome | null {
  if (one.state === "open") return null;
  const answer = answerOf(one);
  const by = one.by ?? one.decision?.by ?? null;
  const sentence = answer ? deed(answer, by, subject, names) : null;
  if (one.state === "decided") {
    const rest = words.outcome.waitsFor(names.host);
    const at = instant(one.decision?.at);
    return {
      state: words.outcome.states.recorded,
      tone: "warn",
      sentence: sentence ?? "",
      rest,
      at,
    };
  }
  return closed(one.result ?? "void", one.reason ?? "", sentence, instant(one.closedAt));
}

/** The same from the log's own entry, for questions whose record is no longer kept. */
export function outcomeOfEntry(resolved: Resolved, names: Names): Outcome {
  const { answer, by, result, reason, at } = resolved;
  const sentence = answer ? deed(answer, by ?? null, null, names) : null;
  return closed(result, reason, sentence, at);
}

/** Says what became of my own attempt, as far as it differs from the record; null when it does not. */
export function attemptOf(
  mine: Mine | undefined,
  subject: Subject | null,
  names: Names,
): { sentence: string; tone: Tone } | null {
  if (!mine) return null;
  const what = answerName(mine.answer, subject);
  switch (mine.state) {
    case "sending":
      return { sentence: words.outcome.sending(what), tone: "quiet" };
    case "recorded":
      return { sentence: words.outcome.recorded(what), tone: "warn" };
    case "needs_another":
      return { sentence: words.outcome.needsAnother(what), tone: "warn" };
    case "failed":
      return { sentence: words.outcome.failed(mine.message ?? ""), tone: "bad" };
    case "refused":
      return { sentence: words.outcome.refused(refusal(mine.reason)), tone: "bad" };
    default:
      return { sentence: lateness(mine, names), tone: "warn" };
  }
}

/** Who, as a person says it: "you", "Ben". */
export function whoIs(by: Origin | null | undefined, names: Pick<Names, "isMe">): string {
  if (!by) return "";
  return names.isMe(by) ? words.you : by.subject;
}

/** Where, in words: "at the editor"; empty for a page. */
export function whereIs(by: Origin | null | undefined): string {
  const door = by?.door ?? "";
  return words.outcome.doors[door] ?? words.outcome.surfaces[door] ?? "";
}

export function capital(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1);
}

/** The name of an answer: the option's own, or what was done with the form. */
export function answerName(answer: Answer, subject: Subject | null): string {
  if (answer.action) {
    return answer.action === "accept" ? words.question.accept : words.question.decline;
  }
  return optionOf(answer, subject)?.name ?? answer.optionId ?? "";
}

function closed(
  result: string,
  reason: string,
  sentence: string | null,
  at: number | null,
): Outcome {
  const ending = words.outcome.endings[reason] ?? reason;
  if (sentence && (result === "applied" || reason === "local" || reason === "rule")) {
    const { applied, elsewhere } = words.outcome.states;
    const state = result === "applied" ? applied : elsewhere;
    return { state, tone: "ok", sentence, rest: reason === "rule" ? ending : null, at };
  }
  const time = at === null ? "" : clockTime(at);
  const ended = time ? words.outcome.endedAt(time, ending) : ending;
  const state = words.outcome.states.ended;
  return { state, tone: "quiet", sentence: ended, rest: sentence, at };
}

function deed(answer: Answer, by: Origin | null, subject: Subject | null, names: Names): string {
  const who = whoIs(by, names);
  const option = optionOf(answer, subject);
  const verb = verbOf(answer, option);
  const named = option && !plain(option) ? words.outcome.named(option.name) : "";
  return capital(words.outcome.did(who, [verb, named].filter(Boolean).join(" "), whereIs(by)));
}

function verbOf(answer: Answer, option: Option | null): string {
  if (answer.action === "accept") return words.outcome.sent;
  if (answer.action) return words.outcome.declined;
  if (!option) return `${words.outcome.sent} ${words.outcome.named(answer.optionId ?? "")}`;
  if (option.kind.startsWith("reject")) return words.outcome.rejected;
  return isStanding(option) ? words.outcome.always : words.outcome.allowed;
}

// "Allowed this" says all there is to say of an option that lets it happen once.
function plain(option: Option): boolean {
  return option.kind === "allow_once" || option.kind === "reject_once";
}

function optionOf(answer: Answer, subject: Subject | null): Option | null {
  return subject?.options.find((option) => option.id === answer.optionId) ?? null;
}

function lateness(mine: Mine, names: Names): string {
  const who = whoIs(mine.by, names);
  if (who) return words.outcome.late([who, whereIs(mine.by)].filter(Boolean).join(" "));
  const ending = mine.reason ? words.outcome.endings[mine.reason] : undefined;
  return ending ? `${words.outcome.states.ended}: ${ending}` : words.outcome.lateUnknown;
}

function refusal(reason: string | null | undefined): string {
  return words.outcome.refusals[reason ?? ""] ?? reason ?? "";
}
