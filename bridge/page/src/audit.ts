/** A record of the audit, in a person's words; and the spans of time that people ask for. */

import type { AuditRecord } from "./admin";
import { instant, took } from "./age";
import { words } from "./words/audit";

export type Span = "today" | "yesterday" | "week" | "month" | "all";
export const SPANS: Span[] = ["today", "yesterday", "week", "month", "all"];
const DAY = 86_400_000;
/** What somebody tried who should not. */
const BAD = new Set(["sandbox_violation", "token_reused"]);

/** Gives the edges of a span as ISO 8601; a day is the reader's own. */
export function edges(span: Span, now: number): { since?: string; until?: string } {
  const midnight = new Date(now).setHours(0, 0, 0, 0);
  const iso = (at: number) => new Date(at).toISOString();
  if (span === "today") return { since: iso(midnight) };
  if (span === "yesterday") {
    // Noon of the day before: no change of the clock moves it to another day.
    const before = new Date(midnight - DAY / 2).setHours(0, 0, 0, 0);
    return { since: iso(before), until: iso(midnight - 1) };
  }
  if (span === "all") return {};
  return { since: iso(now - (span === "week" ? 7 : 30) * DAY) };
}

export interface Told {
  chip: string;
  tone: "ok" | "warn" | "bad" | "quiet";
  /** What it was about. */
  what: string;
  /** Who, where, how long, why. */
  rest: string;
}

/** Says what a record records. */
export function told(record: AuditRecord): Told {
  const { event } = record;
  const isAnswer = event === "closed" || event === "decided" || event === "first_approval";
  const rest = [who(record), waited(record), why(record)].filter(Boolean).join(" · ");
  const what = isAnswer || event === "escalated" ? (record.title ?? "") : (record.words ?? "");
  if (!isAnswer) {
    const isBad = BAD.has(event);
    const chip = words.chips[event] ?? event.replaceAll("_", " ");
    return { chip, tone: isBad ? "bad" : "quiet", what: what || subjectOf(record), rest };
  }
  return { ...outcome(record), what, rest };
}

function outcome(record: AuditRecord): Pick<Told, "chip" | "tone"> {
  if (record.event !== "closed") {
    return { chip: words.chips[record.event] ?? record.event, tone: "quiet" };
  }
  if (record.result === "void" && record.answer) return { chip: words.notApplied, tone: "bad" };
  if (record.meaning === "allow") return { chip: words.allowed, tone: "ok" };
  if (record.meaning === "reject") return { chip: words.rejected, tone: "warn" };
  const chip = record.answer ? words.answered : (words.chips.closed ?? "");
  return { chip, tone: "quiet" };
}

function subjectOf(record: AuditRecord): string {
  return String(record.detail ?? record.device ?? record.subject ?? record.method ?? "");
}

function who({ by, event }: AuditRecord): string {
  if (!by) return event === "closed" ? words.nobody : "";
  return [by.subject, words.doors[by.door ?? ""] ?? by.door].filter(Boolean).join(" ");
}

function waited({ askedAt, decidedAt }: AuditRecord): string {
  const asked = instant(askedAt);
  const decided = instant(decidedAt);
  return asked === null || decided === null ? "" : words.waited(took(decided - asked));
}

function why({ reason, words: rule }: AuditRecord): string {
  if (rule && reason === "rule") return `${words.reasons.rule}: ${rule}`;
  return reason ? (words.reasons[reason] ?? reason.replaceAll("_", " ")) : "";
}
