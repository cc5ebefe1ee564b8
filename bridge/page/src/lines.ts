/** A change of a text as lines with their numbers. */

import { structuredPatch } from "diff";

export interface Line {
  kind: "add" | "del" | "same" | "cut" | "note";
  text: string;
  before: number | null;
  after: number | null;
}

export interface Change {
  lines: Line[];
  added: number;
  removed: number;
}

// Beyond so many edits an exact comparison takes seconds; then the whole text is shown as replaced.
const MOST_EDITS = 1000;
const CONTEXT = 3;
const KEPT = 40;

const known = new Map<string, Change>();

/** Compares two texts; null before means a new file. The last comparisons are kept. */
export function changeOf(before: string | null, after: string): Change {
  const key = `${before === null} ${before?.length ?? 0} ${before ?? ""}${after}`;
  const change = known.get(key) ?? compared(before, after);
  known.delete(key);
  known.set(key, change);
  const [oldest] = known.keys();
  if (known.size > KEPT && oldest !== undefined) known.delete(oldest);
  return change;
}

function compared(before: string | null, after: string): Change {
  if (before === null) return replaced("", after);
  const patch = structuredPatch("", "", before, after, "", "", {
    context: CONTEXT,
    maxEditLength: MOST_EDITS,
  });
  if (!patch) return replaced(before, after);
  return counted(patch.hunks.flatMap((hunk, index) => linesOf(hunk, index)));
}

interface Hunk {
  oldStart: number;
  newStart: number;
  lines: string[];
}

function linesOf(hunk: Hunk, index: number): Line[] {
  let before = hunk.oldStart;
  let after = hunk.newStart;
  const lines: Line[] = [];
  if (index > 0 || before > 1) lines.push({ kind: "cut", text: "", before: null, after: null });
  for (const raw of hunk.lines) {
    const text = raw.slice(1);
    if (raw[0] === "+") lines.push({ kind: "add", text, before: null, after: after++ });
    else if (raw[0] === "-") lines.push({ kind: "del", text, before: before++, after: null });
    else if (raw[0] === "\\") lines.push({ kind: "note", text, before: null, after: null });
    else lines.push({ kind: "same", text, before: before++, after: after++ });
  }
  return lines;
}

function replaced(before: string, after: string): Change {
  const removed = rows(before).map((text, at): Line => {
    return { kind: "del", text, before: at + 1, after: null };
  });
  const added = rows(after).map((text, at): Line => {
    return { kind: "add", text, before: null, after: at + 1 };
  });
  return counted([...removed, ...added]);
}

function rows(text: string): string[] {
  if (text === "") return [];
  return (text.endsWith("\n") ? text.slice(0, -1) : text).split("\n");
}

function counted(lines: Line[]): Change {
  let added = 0;
  let removed = 0;
  for (const line of lines) {
    if (line.kind === "add") added += 1;
    if (line.kind === "del") removed += 1;
  }
  return { lines, added, removed };
}
