/** What is written and not sent yet, by session, until the window is closed. */

export function readDraft(session: string): string {
  return sessionStorage.getItem(keyOf(session)) ?? "";
}

export function keepDraft(session: string, text: string): void {
  sessionStorage.setItem(keyOf(session), text);
}

function keyOf(session: string): string {
  return `draft ${session}`;
}
