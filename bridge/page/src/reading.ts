/** How much of a long text is shown at first, and which texts of a question must be opened. */

import { type Change, changeOf, type Line } from "./lines";
import type { Subject } from "./subject";

const CHARACTERS = 2000;
const LINES = 40;
/** Characters that one tap opens: a browser needs seconds for a line of two million. */
export const OPENED_AT_ONCE = 200_000;
const CHANGE_LINES = 120;
const CHANGE_CHARACTERS = 12_000;

/** Gives the first part of a text; the whole when it is not long. */
export function headOf(text: string): string {
  let end = Math.min(text.length, CHARACTERS);
  let lines = 0;
  for (let at = text.indexOf("\n"); at !== -1 && at < end; at = text.indexOf("\n", at + 1)) {
    lines += 1;
    if (lines >= LINES) end = at;
  }
  // What is left must be worth a tap, and a character of two halves stays whole.
  if (text.length - end < 200 && lines < LINES) return text;
  if (/[\ud800-\udbff]/.test(text[end - 1] ?? "")) end -= 1;
  return text.slice(0, end);
}

/** Gives the last part of a text: what a running command printed just now. */
export function tailOf(text: string): string {
  if (text.length <= CHARACTERS) return text;
  const tail = text.slice(-CHARACTERS);
  return tail.slice(tail.indexOf("\n") + 1);
}

/** Gives the first lines of a change; all of them when it is not long. */
export function headOfChange(change: Change): Line[] {
  let characters = 0;
  for (const [index, line] of change.lines.entries()) {
    characters += line.text.length;
    if (index >= CHANGE_LINES || characters > CHANGE_CHARACTERS)
      return change.lines.slice(0, index);
  }
  return change.lines;
}

/** The parts of a subject that are not shown whole at first: each must be opened before allowing. */
export function longParts(subject: Subject): string[] {
  const long: string[] = (["command", "arguments", "said", "title"] as const).filter((part) => {
    const text = part === "title" ? shownTitle(subject) : subject[part];
    return text ? headOf(text).length < text.length : false;
  });
  const paths = otherPaths(subject);
  if (headOf(paths).length < paths.length) long.push("paths");
  const diffs = subject.diffs.flatMap((diff, index) => {
    const change = changeOf(diff.oldText, diff.newText);
    return headOfChange(change).length < change.lines.length ? [diffPart(index)] : [];
  });
  return [...long, ...diffs];
}

/** The agent's own title, where it says more than what stands above it. */
export function shownTitle(subject: Subject): string {
  const { title, command, form } = subject;
  return form || title === command ? "" : title;
}

/** The paths that no change shows already, a line each. */
export function otherPaths({ paths, diffs }: Subject): string {
  return paths.filter((path) => !diffs.some((diff) => diff.path === path)).join("\n");
}

export function diffPart(index: number): string {
  return `diff ${index}`;
}
