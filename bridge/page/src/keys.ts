/** Keys: j k move among rows, a r answer a low-risk question, / filters, ? helps, esc goes back. */

import { signal } from "@preact/signals";
import { answerable, type Choice } from "./choice";
import type { Page } from "./page";
import { go, goBack, route } from "./route";

export const helpOpen = signal(false);

/** Listens on the document, but never while somebody types. */
export function listenToKeys(page: Page): void {
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
    if (document.querySelector("dialog[open]")) return;
    if (isTyping(event.target)) {
      if (event.key === "Escape") (event.target as HTMLElement).blur();
      return;
    }
    if (act(page, event.key)) event.preventDefault();
  });
}

function act(page: Page, key: string): boolean {
  switch (key) {
    case "j":
    case "k":
      return move(key === "j" ? 1 : -1);
    case "a":
    case "r":
      return answer(page, key === "a" ? "allow" : "reject");
    case "/":
      return filter();
    case "?":
      helpOpen.value = true;
      return true;
    case "Escape":
      if (route.value.at !== "inbox") goBack({ at: "inbox" });
      return true;
    default:
      return false;
  }
}

function move(by: 1 | -1): boolean {
  const rows = [...document.querySelectorAll<HTMLElement>("[data-row]")].filter(
    (row) => row.offsetParent !== null,
  );
  const at = rows.findIndex((row) => row.contains(document.activeElement));
  const start = Math.max(
    0,
    rows.findIndex((row) => row.dataset.question),
  );
  const next = at === -1 ? start : at + by;
  const row = rows[next];
  const target = row?.matches("a, button") ? row : row?.querySelector<HTMLElement>("a, button");
  target?.focus();
  row?.scrollIntoView({ block: "nearest" });
  return true;
}

// The question that has the focus, else the one that is opened.
function answer(page: Page, choice: Choice): boolean {
  const row = document.activeElement?.closest<HTMLElement>("[data-question]");
  const opened = route.value.at === "question" ? route.value.id : undefined;
  const id = row?.dataset.question ?? opened;
  const roundTrip = id === undefined ? undefined : page.store.roundTrips.value.get(id);
  if (!roundTrip) return false;
  const option = answerable(page, roundTrip, choice);
  if (option) page.decisions.decide(roundTrip, { optionId: option.id });
  return true;
}

function filter(): boolean {
  if (!document.querySelector("[data-filter]")) go({ at: "sessions" });
  requestAnimationFrame(() => document.querySelector<HTMLElement>("[data-filter]")?.focus());
  return true;
}

function isTyping(target: EventTarget | null): boolean {
  const element = target as HTMLElement | null;
  return element?.closest?.("input, textarea, select, [contenteditable]") != null;
}
