/** A tool call as a person sees it: one card that its updates fill. */

import { contentDiffs, exitCodeOf, outputDelta, outputOf } from "./output";
import { below, type Diff, type Subject } from "./subject";
import type { Stub } from "./whole";
import type { Answer, Origin, Payload } from "./wire";

/** A question that was asked about the call, as far as the log tells. */
export interface Asked {
  id: string;
  resolved: Resolved | null;
}

/** How a question closed; the fields of `_bridge/resolved`. */
export interface Resolved {
  id: string;
  result: "applied" | "void";
  reason: string;
  answer?: Answer | null;
  by?: Origin | null;
  at: number | null;
}

export interface ToolItem {
  type: "tool";
  key: string;
  at: number | null;
  toolCallId: string;
  title: string;
  kind: string;
  // The agent's word, or "unfinished" when the turn ended without one.
  status: string;
  command: string | null;
  path: string | null;
  input: Payload | null;
  output: string;
  exitCode: number | null;
  diffs: Diff[];
  endedAt: number | null;
  asked: Asked[];
  /** What came shortened of it, and can be fetched. */
  stub: Stub | null;
}

const OVER = new Set(["completed", "failed", "unfinished"]);

export function isOver(tool: ToolItem): boolean {
  return OVER.has(tool.status);
}

export function newTool(key: string, toolCallId: string, at: number | null): ToolItem {
  return {
    type: "tool",
    key,
    at,
    toolCallId,
    title: "",
    kind: "other",
    status: "pending",
    command: null,
    path: null,
    input: null,
    output: "",
    exitCode: null,
    diffs: [],
    endedAt: null,
    asked: [],
    stub: null,
  };
}

/** Gives the card after an update; fields that the update lacks stay. */
export function updated(
  tool: ToolItem,
  update: Payload,
  at: number | null,
  stub: Stub | null = null,
): ToolItem {
  const status = textOf(update.status) || tool.status;
  const input = filled(update.rawInput) ?? tool.input;
  const diffs = contentDiffs(update.content);
  const next: ToolItem = {
    ...tool,
    status,
    input,
    title: textOf(update.title) || tool.title,
    kind: textOf(update.kind) || tool.kind,
    command: commandOf(input) ?? tool.command,
    path: pathOf(update, input) ?? tool.path,
    output: (outputOf(update) ?? tool.output) + outputDelta(update),
    exitCode: exitCodeOf(update) ?? tool.exitCode,
    diffs: diffs.length ? diffs : tool.diffs,
    stub: stub ?? (update.content || update.rawOutput ? null : tool.stub),
  };
  if (isOver(next) && tool.endedAt === null) next.endedAt = at;
  return next;
}

/** Gives the card with what its question told and its own updates did not: the command, the change. */
export function withSubject(tool: ToolItem, subject: Subject | null): ToolItem {
  if (!subject) return tool;
  const diffs = tool.diffs.length ? tool.diffs : subject.diffs;
  return { ...tool, command: tool.command ?? subject.command, diffs };
}

/** What a card is headed with: the command, the file as seen from the folder, else the title. */
export function toolHeading(tool: ToolItem, folder = ""): { text: string; mono: boolean } {
  if (tool.command) return { text: tool.command, mono: true };
  const path = tool.diffs[0]?.path ?? (tool.kind === "edit" ? tool.path : null);
  if (path) return { text: below(folder, path), mono: true };
  return { text: tool.title || tool.path || tool.kind, mono: false };
}

function commandOf(input: Payload | null): string | null {
  const command = input?.command;
  if (typeof command === "string") return command;
  if (!Array.isArray(command)) return null;
  const words = command.map(String);
  // A shell's "-lc" carries the whole line as its last word.
  return words.length === 3 && /^-l?c$/.test(words[1] ?? "") ? (words[2] ?? "") : words.join(" ");
}

function pathOf(update: Payload, input: Payload | null): string | null {
  const location = (update.locations as Payload[] | undefined)?.[0]?.path;
  const path = location ?? input?.path ?? input?.file_path ?? input?.filePath ?? input?.filepath;
  return typeof path === "string" ? path : null;
}

function filled(value: unknown): Payload | null {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return null;
  return Object.keys(value).length ? (value as Payload) : null;
}

function textOf(value: unknown): string {
  return typeof value === "string" ? value : "";
}
