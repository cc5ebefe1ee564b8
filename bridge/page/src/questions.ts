/** Which questions wait, in what order, and where in a transcript they belong. */

import { instant } from "./age";
import type { Item } from "./transcript";
import type { RoundTrip } from "./wire";

export interface QuestionItem {
  type: "question";
  key: string;
  at: number | null;
  roundTrip: RoundTrip;
}

const RISKS = { high: 0, medium: 1, low: 2 } as const;

/** The open ones, riskiest first, then the one that waits longest. */
export function waiting(roundTrips: Iterable<RoundTrip>): RoundTrip[] {
  return [...roundTrips]
    .filter((one) => one.state === "open")
    .sort((a, b) => RISKS[a.risk] - RISKS[b.risk] || compare(a.askedAt, b.askedAt));
}

/** The answered ones, last first. */
export function answered(roundTrips: Iterable<RoundTrip>): RoundTrip[] {
  return [...roundTrips]
    .filter((one) => one.state !== "open")
    .sort((a, b) => compare(answeredAt(b), answeredAt(a)));
}

/** The answer that counts: the applied one, else the recorded one. */
export function answerOf(one: RoundTrip) {
  return one.answer ?? one.decision?.answer ?? null;
}

export function answeredAt(one: RoundTrip): string {
  return one.closedAt ?? one.decision?.at ?? one.askedAt;
}

/**
 * Puts questions that no card of the transcript stands for where they were asked.
 *
 * A line of the log that only tells how such a question ended gives way to the question.
 */
export function withQuestions(
  items: readonly Item[],
  roundTrips: readonly RoundTrip[],
): (Item | QuestionItem)[] {
  const cards = new Set<string>();
  for (const item of items) {
    if (item.type !== "tool") continue;
    cards.add(item.toolCallId);
    for (const one of item.asked) cards.add(one.id);
  }
  const known = new Set(roundTrips.map((one) => one.id));
  const kept = items.filter((item) => item.type !== "resolved" || !known.has(item.resolved.id));
  const loose = roundTrips.filter(
    (one) => !cards.has(one.id) && !(one.toolCallId && cards.has(one.toolCallId)),
  );
  return merged(kept, loose.map(itemOf));
}

function itemOf(roundTrip: RoundTrip): QuestionItem {
  const at = instant(roundTrip.askedAt);
  return { type: "question", key: `question-${roundTrip.id}`, at, roundTrip };
}

function merged(items: readonly Item[], questions: QuestionItem[]): (Item | QuestionItem)[] {
  const left = [...questions].sort((a, b) => (a.at ?? 0) - (b.at ?? 0));
  const all: (Item | QuestionItem)[] = [];
  for (const item of items) {
    while (left[0] && item.at !== null && (left[0].at ?? 0) < item.at) {
      all.push(left.shift() as QuestionItem);
    }
    all.push(item);
  }
  return [...all, ...left];
}

function compare(a: string, b: string): number {
  return (instant(a) ?? 0) - (instant(b) ?? 0);
}
