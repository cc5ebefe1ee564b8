/** What is read aloud: questions and what became of my answers, not chatter. */

import { effect, signal } from "@preact/signals";
import type { Page } from "./page";
import { headline, subjectOf } from "./subject";
import { words } from "./words";
import { badge } from "./worker";

export const announcement = signal("");

export function announce(text: string): void {
  announcement.value = text;
}

/** Reads each new question once; those that were there at first are in the list. */
export function announceQuestions(page: Page): void {
  const told = new Set<string>();
  let begun = false;
  effect(() => {
    const waiting = page.store.waiting.value;
    const fresh = waiting.filter((one) => !told.has(one.id));
    for (const one of fresh) told.add(one.id);
    const first = fresh[0];
    if (begun && first) {
      const agent = page.store.agents.peek().get(first.agent);
      const what = headline(subjectOf(first)).slice(0, 200);
      announce(words.question.announce(agent?.title || agent?.name || "", agent?.host ?? "", what));
    }
    begun ||= page.store.known.value;
  });
}

/** Keeps the number of open questions in the title and on the app's icon. */
export function countInTitle(page: Page): void {
  effect(() => {
    const open = page.store.waiting.value.length;
    document.title = words.title(open);
    badge(open);
  });
}
