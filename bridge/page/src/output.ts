/** Finds what a tool call printed, wherever its agent puts it. */

import type { Diff } from "./subject";
import type { Payload } from "./wire";

/** The text of a tool call's `content` blocks, fences and all. */
export function contentText(content: unknown): string {
  if (!Array.isArray(content)) return "";
  return content.map(blockText).filter(Boolean).join("\n");
}

/** The diffs among a tool call's `content` blocks. */
export function contentDiffs(content: unknown): Diff[] {
  if (!Array.isArray(content)) return [];
  return content.filter((block) => block?.type === "diff").map(diffOf);
}

/** What an update says was printed: the whole of it, or null when it says nothing. */
export function outputOf(update: Payload): string | null {
  const raw = rawOutputText(update.rawOutput);
  if (raw !== null) return raw;
  const text = contentText(update.content);
  if (text) return withoutFence(text);
  return responseText(update._meta);
}

/** What an update adds to what was printed (a terminal that streams). */
export function outputDelta(update: Payload): string {
  const delta = (update._meta as Payload | undefined)?.terminal_output_delta;
  if (typeof delta === "string") return delta;
  const data = (delta as Payload | undefined)?.data ?? (delta as Payload | undefined)?.delta;
  return typeof data === "string" ? data : "";
}

/** The exit code that an update tells; null when it tells none. */
export function exitCodeOf(update: Payload): number | null {
  const raw = update.rawOutput as Payload | undefined;
  const meta = (update._meta as Payload | undefined)?.terminal_exit as Payload | undefined;
  const code = raw?.exit_code ?? raw?.exitCode ?? meta?.exit_code;
  return typeof code === "number" ? code : null;
}

function rawOutputText(raw: unknown): string | null {
  if (typeof raw === "string") return raw;
  if (typeof raw !== "object" || raw === null) return null;
  const output = raw as Payload;
  for (const key of ["aggregated_output", "formatted_output", "output"]) {
    if (typeof output[key] === "string") return output[key];
  }
  const both = [output.stdout, output.stderr].filter((part) => typeof part === "string" && part);
  if (both.length) return both.join("\n");
  return typeof output.error === "string" ? output.error : null;
}

function responseText(meta: unknown): string | null {
  const claude = (meta as Payload | undefined)?.claudeCode as Payload | undefined;
  const response = claude?.toolResponse;
  return response === undefined ? null : rawOutputText(response) || null;
}

function blockText(block: Payload): string {
  const inner = (block?.type === "content" ? block.content : block) as Payload | undefined;
  if (inner?.type === "text") return String(inner.text ?? "");
  if (inner?.type === "resource_link") return String(inner.uri ?? "");
  return "";
}

// Some agents wrap the output in a fence of their own.
function withoutFence(text: string): string {
  const match = /^(`{3,})[\w-]*\n([\s\S]*?)\n?\1\s*$/.exec(text);
  return match ? (match[2] ?? "") : text;
}

function diffOf(block: Payload): Diff {
  return {
    path: String(block.path ?? ""),
    oldText: typeof block.oldText === "string" ? block.oldText : null,
    newText: String(block.newText ?? ""),
  };
}
