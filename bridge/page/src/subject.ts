/** The text of exactly what will run. The page draws a question from this and from nothing else. */

import { fieldsOf } from "./fields";
import { countHidden } from "./hidden";
import type { Payload, RoundTrip } from "./wire";

export interface Option {
  id: string;
  name: string;
  kind: string;
}

export interface Diff {
  path: string;
  oldText: string | null;
  newText: string;
}

export interface Form {
  message: string;
  mode: string;
  url?: string;
  schema: Payload;
}

export interface Subject {
  kind: string;
  title: string;
  cwd: string;
  command: string | null;
  arguments: string | null;
  /** What the agent wrote beside it; its own words, nothing that runs. */
  said: string | null;
  diffs: Diff[];
  paths: string[];
  options: Option[];
  form: Form | null;
  truncated: boolean;
  /** The kinds of secret that the machine found in it. */
  secrets: string[];
}

const DECIDABLE_BYTES = 1 << 20;

export type Check = "checking" | "same" | "differs" | "unchecked";

const read = new Map<string, Subject | null>();

/** Gives the subject of a round-trip; null when it is no JSON that we know. */
export function subjectOf(roundTrip: Pick<RoundTrip, "subject">): Subject | null {
  const known = read.get(roundTrip.subject);
  if (known !== undefined) return known;
  const subject = parseSubject(roundTrip.subject);
  if (read.size > 500) read.clear();
  read.set(roundTrip.subject, subject);
  return subject;
}

export function parseSubject(text: string): Subject | null {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return null;
  }
  if (typeof value !== "object" || value === null || (value as Payload).v !== 1) return null;
  return fromJson(value as Payload);
}

/** Gives the SHA-256 of the text's UTF-8 bytes in hex; null where the browser offers none. */
export async function hashOf(text: string): Promise<string | null> {
  if (!globalThis.crypto?.subtle) return null;
  const digest = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(text));
  return Array.from(new Uint8Array(digest), (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** Compares what we hash ourselves with the hash that an answer will be about. */
export async function checkHash(roundTrip: Pick<RoundTrip, "subject" | "hash">): Promise<Check> {
  const own = await hashOf(roundTrip.subject);
  if (own === null) return "unchecked";
  return own === roundTrip.hash ? "same" : "differs";
}

/** Whether choosing the option lets something happen; an unknown kind counts as one. */
export function allows(option: Option): boolean {
  return !option.kind.startsWith("reject");
}

export function isStanding(option: Option): boolean {
  return option.kind.endsWith("_always");
}

/** One line that says what will run, for lists and for screen readers. */
export function headline(subject: Subject | null): string {
  if (!subject) return "";
  if (subject.form) return subject.form.message;
  if (subject.command) return subject.command;
  const [diff] = subject.diffs;
  if (diff) {
    const path = below(subject.cwd, diff.path);
    return subject.diffs.length > 1 ? `${path} +${subject.diffs.length - 1}` : path;
  }
  return subject.title || subject.paths[0] || subject.arguments || subject.kind;
}

/** A path as seen from a folder it lies in. */
export function below(folder: string, path: string): string {
  const start = folder.endsWith("/") ? folder : `${folder}/`;
  return folder && path.startsWith(start) ? path.slice(start.length) : path;
}

/** All texts that a person has to see before allowing, in the order they are drawn. */
export function texts(subject: Subject): string[] {
  const parts = [
    subject.command,
    subject.arguments,
    subject.said,
    ...subject.paths,
    subject.cwd,
    subject.title,
  ];
  for (const diff of subject.diffs) parts.push(diff.path, diff.oldText, diff.newText);
  parts.push(...subject.options.map((option) => option.name));
  if (subject.form)
    parts.push(subject.form.message, subject.form.url ?? null, ...labels(subject.form));
  return parts.filter((part): part is string => Boolean(part));
}

// What an agent's form says to people, wherever its schema says it.
function labels(form: Form): string[] {
  return fieldsOf(form.schema).flatMap((field) => [
    field.label,
    field.description,
    ...field.choices.flatMap((choice) => [choice.name, choice.description]),
  ]);
}

/** Whether it is so long, or was cut, that nobody may allow it from afar. */
export function onlyRejectable(roundTrip: Pick<RoundTrip, "subject">, subject: Subject): boolean {
  return subject.truncated || new Blob([roundTrip.subject]).size > DECIDABLE_BYTES;
}

export function hiddenIn(subject: Subject): number {
  return texts(subject).reduce((sum, text) => sum + countHidden(text), 0);
}

function fromJson(value: Payload): Subject {
  const diffs = listOf(value.diffs).map(diffOf);
  const cwd = stringOf(value.cwd);
  const kind = stringOf(value.kind) || "other";
  return {
    kind,
    title: stringOf(value.title),
    cwd,
    command: commandOf(value.command),
    arguments: argumentsOf(value.arguments, cwd, diffs),
    said: listOf(value.texts).map(stringOf).filter(Boolean).join("\n\n") || null,
    diffs,
    paths: listOf(value.paths).map(stringOf).filter(Boolean),
    options: listOf(value.options).map(optionOf),
    form: value.form && typeof value.form === "object" ? formOf(value.form as Payload) : null,
    truncated: Boolean(value.truncated),
    secrets: listOf(value.secrets).map(stringOf),
  };
}

function commandOf(value: unknown): string | null {
  if (Array.isArray(value)) return value.map((word) => quoted(stringOf(word))).join(" ");
  return stringOf(value) || null;
}

// A list of words is shown so that the borders of the words are seen.
function quoted(word: string): string {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;
}

// One line an argument, so that no value can look like another argument. What stands elsewhere on
// the sheet as it is, the folder, a changed file and its text, is not repeated.
function argumentsOf(value: unknown, cwd: string, diffs: Diff[]): string | null {
  if (value === undefined || value === null || value === "") return null;
  if (typeof value !== "object" || Array.isArray(value)) return oneLine(value);
  const shown = new Set<unknown>(diffs.flatMap((diff) => [diff.path, diff.newText, diff.oldText]));
  const lines = Object.entries(value)
    .filter(([name, one]) => !(name === "cwd" && one === cwd) && !(one && shown.has(one)))
    .map(([name, one]) => `${oneLine(name)}: ${oneLine(one)}`);
  return lines.join("\n") || null;
}

function oneLine(value: unknown): string {
  return typeof value === "string" && !/[\n\r]/.test(value) ? value : JSON.stringify(value);
}

function diffOf(value: unknown): Diff {
  const diff = (value ?? {}) as Payload;
  const old = diff.oldText;
  return {
    path: stringOf(diff.path),
    oldText: typeof old === "string" ? old : null,
    newText: stringOf(diff.newText),
  };
}

function optionOf(value: unknown): Option {
  if (Array.isArray(value)) {
    return { id: stringOf(value[0]), name: stringOf(value[1]), kind: stringOf(value[2]) };
  }
  const option = (value ?? {}) as Payload;
  return {
    id: stringOf(option.optionId),
    name: stringOf(option.name),
    kind: stringOf(option.kind),
  };
}

function formOf(value: Payload): Form {
  const schema = value.requestedSchema;
  return {
    message: stringOf(value.message),
    mode: stringOf(value.mode) || "form",
    url: stringOf(value.url) || undefined,
    schema: schema && typeof schema === "object" ? (schema as Payload) : {},
  };
}

function stringOf(value: unknown): string {
  if (typeof value === "string") return value;
  return value === undefined || value === null ? "" : JSON.stringify(value);
}

function listOf(value: unknown): unknown[] {
  return Array.isArray(value) ? value : [];
}
