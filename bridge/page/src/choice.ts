/** What one tap or key may answer: a low-risk question, whole on the screen and checked. */

import { signal } from "@preact/signals";
import type { Page } from "./page";
import { longParts } from "./reading";
import {
  allows,
  type Check,
  checkHash,
  hiddenIn,
  isStanding,
  type Option,
  onlyRejectable,
  type Subject,
  subjectOf,
} from "./subject";
import type { RoundTrip } from "./wire";

export type Choice = "allow" | "reject";

const checks = signal<ReadonlyMap<string, Check>>(new Map());

/** Tells whether what is shown is what would be decided; hashes it on first sight. */
export function checkOf(roundTrip: RoundTrip): Check {
  const key = `${roundTrip.id} ${roundTrip.hash}`;
  const known = checks.value.get(key);
  if (known) return known;
  void checkHash(roundTrip).then((check) => {
    checks.value = new Map(checks.value).set(key, check);
  });
  return "checking";
}

/** Whether a list may offer the answers itself: low risk, short, nothing hidden, checked, a few options. */
export function isSimple(roundTrip: RoundTrip, subject: Subject | null): boolean {
  if (!subject || roundTrip.kind !== "permission" || roundTrip.risk !== "low") return false;
  if (checkOf(roundTrip) !== "same" || hiddenIn(subject) > 0) return false;
  return longParts(subject).length === 0 && !onlyRejectable(roundTrip, subject);
}

/** The option that a key stands for: the only one of its kind; null when a key may not answer. */
export function answerable(page: Page, roundTrip: RoundTrip, choice: Choice): Option | null {
  const subject = subjectOf(roundTrip);
  if (!page.store.may("approver") || roundTrip.state !== "open") return null;
  if (page.store.isLocked(roundTrip.agent)) return null;
  if (!subject || !isSimple(roundTrip, subject)) return null;
  const fitting = subject.options.filter(
    (option) => !isStanding(option) && allows(option) === (choice === "allow"),
  );
  return fitting.length === 1 ? (fitting[0] ?? null) : null;
}
