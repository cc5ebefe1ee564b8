/**
 * Reduces the entries of a session's log to what a person reads.
 *
 * Entries come in order and each once: one at or before `last` is a repeat and is dropped. An item
 * that changes is replaced, never written to, so that an unchanged one need not be drawn again.
 */

import { instant } from "./age";
import { type Cursor, compareCursors, cursorText, parseCursor, START } from "./cursor";
import { newTool, type Resolved, type ToolItem, updated } from "./tool";
import { firstOf, type Stub, stubOf } from "./whole";
import {
  type ConfigOption,
  type Entry,
  type ErrorObject,
  metaOf,
  type Origin,
  type Payload,
  type Usage,
} from "./wire";

interface Base {
  key: string;
  at: number | null;
}

export interface UserItem extends Base {
  type: "user";
  text: string;
  origin: Origin | null;
  mailId: string | null;
  stub: Stub | null;
}

export interface TextItem extends Base {
  type: "agent" | "thought";
  text: string;
  messageId: string | null;
  stub: Stub | null;
}

export interface PlanItem extends Base {
  type: "plan";
  entries: { content: string; status: string; priority: string }[];
}

export interface TurnItem extends Base {
  type: "turn";
  state: "ended" | "unknown";
  stopReason: string | null;
  error: ErrorObject | null;
  origin: Origin | null;
  took: number | null;
}

export interface GapItem extends Base {
  type: "gap";
  reason: string;
  count: number | null;
}

export interface NoteItem extends Base {
  type: "mode" | "unknown";
  text: string;
  count: number;
}

export interface ResolvedItem extends Base {
  type: "resolved";
  resolved: Resolved;
}

export type Item =
  | UserItem
  | TextItem
  | PlanItem
  | TurnItem
  | GapItem
  | NoteItem
  | ResolvedItem
  | ToolItem;

export interface RunningTurn {
  turn: string;
  mailId: string | null;
  since: number | null;
}

// They change what is shown beside the transcript, or nothing that a person reads.
const QUIET = new Set([
  "available_commands_update",
  "session_info_update",
  "turn_start",
  "turn_end",
]);

export class Transcript {
  readonly items: Item[] = [];
  last: Cursor = START;
  first: Cursor | null = null;
  running: RunningTurn | null = null;
  readonly queued = new Set<string>();
  /** The mails that items stand for, so that their sender need not show them any more. */
  readonly seenMail = new Set<string>();
  /** The mails that ended before they began. */
  readonly dropped = new Set<string>();
  usage: Usage | null = null;
  mode: string | null = null;
  configOptions: ConfigOption[] | null = null;

  private readonly tools = new Map<string, number>();
  private readonly questions = new Map<string, number>();
  private plan = -1;
  // A prompt's blocks come as one chunk each; what a turn began does not join the prompt before it.
  private promptOpen = false;

  /** Takes the next entry; says whether it was new. */
  push(entry: Entry): boolean {
    const meta = metaOf(entry);
    const cursor: Cursor = { epoch: meta.epoch, seq: meta.seq };
    if (compareCursors(cursor, this.last) <= 0) return false;
    this.last = cursor;
    this.first ??= firstOf(entry);
    this.apply(entry, cursorText(cursor), instant(meta.at));
    return true;
  }

  /** Says at this place that entries are missing. */
  gap(reason: string, from: Cursor | null, count: number | null = null): void {
    const key = `gap-${from ? cursorText(from) : cursorText(this.last)}`;
    this.items.push({ type: "gap", key, at: null, reason, count });
  }

  private apply(entry: Entry, key: string, at: number | null): void {
    const params = entry.params;
    if (entry.method === "session/update") {
      this.update(params.update as Payload, entry, key, at);
    } else if (entry.method === "session/request_permission") {
      this.ask(params.toolCall as Payload, entry, key, at);
    } else if (entry.method === "elicitation/create") {
      this.ask({ toolCallId: params.toolCallId, title: params.message }, entry, key, at);
    } else if (entry.method === "_bridge/resolved") {
      this.resolve({ ...(params as unknown as Resolved), at }, key);
    } else if (entry.method === "_bridge/turn") {
      this.turn(params, key, at);
    } else if (entry.method === "_bridge/gap") {
      const count = typeof params.count === "number" ? params.count : null;
      this.items.push({ type: "gap", key, at, reason: String(params.reason ?? ""), count });
    }
  }

  private update(update: Payload, entry: Entry, key: string, at: number | null): void {
    const kind = String(update?.sessionUpdate ?? "");
    switch (kind) {
      case "user_message_chunk":
        this.userChunk(update, entry, key, at);
        break;
      case "agent_message_chunk":
        this.textChunk("agent", update, key, at, stubOf(entry));
        break;
      case "agent_thought_chunk":
        this.textChunk("thought", update, key, at, stubOf(entry));
        break;
      case "tool_call":
      case "tool_call_update":
        this.toolCall(update, key, at, stubOf(entry));
        break;
      case "plan":
        this.planned(update, key, at);
        break;
      case "current_mode_update":
        this.modeChanged(String(update.currentModeId ?? ""), key, at);
        break;
      case "config_option_update":
        this.configOptions = (update.configOptions as ConfigOption[]) ?? this.configOptions;
        break;
      case "usage_update":
        this.usage = { ...this.usage, ...(update as Usage) };
        break;
      default:
        if (!QUIET.has(kind)) this.unknown(kind, key, at);
    }
  }

  private userChunk(update: Payload, entry: Entry, key: string, at: number | null): void {
    const { origin = null, mailId = null } = metaOf(entry);
    const text = blockText(update.content);
    const stub = stubOf(entry);
    if (mailId) this.seenMail.add(mailId);
    const last = this.items.at(-1);
    if (last?.type === "user" && this.promptOpen && last.mailId === mailId) {
      this.items[this.items.length - 1] = {
        ...last,
        text: joined(last.text, text),
        stub: stub ?? last.stub,
      };
    } else {
      this.items.push({ type: "user", key, at, text, origin, mailId, stub });
    }
    this.promptOpen = true;
  }

  private textChunk(
    type: "agent" | "thought",
    update: Payload,
    key: string,
    at: number | null,
    stub: Stub | null,
  ) {
    const text = blockText(update.content);
    const messageId = typeof update.messageId === "string" ? update.messageId : null;
    const last = this.items.at(-1);
    if (last?.type === type && last.messageId === messageId) {
      const whole = { ...last, text: last.text + text, stub: stub ?? last.stub };
      this.items[this.items.length - 1] = whole;
    } else if (text) {
      this.items.push({ type, key, at, text, messageId, stub });
    }
  }

  private toolCall(
    update: Payload,
    key: string,
    at: number | null,
    stub: Stub | null = null,
  ): number {
    const id = String(update.toolCallId ?? key);
    const known = this.tools.get(id);
    const index = known ?? this.items.length;
    const tool = known === undefined ? newTool(key, id, at) : (this.items[known] as ToolItem);
    this.items[index] = updated(tool, update, at, stub);
    this.tools.set(id, index);
    return index;
  }

  // A question may come before its card, without one, or be about no tool call at all.
  private ask(toolCall: Payload, entry: Entry, key: string, at: number | null): void {
    const id = metaOf(entry).roundTrip?.id ?? key;
    const { status: _, ...fields } = toolCall ?? {};
    const index = this.toolCall({ ...fields, toolCallId: fields.toolCallId ?? id }, key, at);
    const tool = this.items[index] as ToolItem;
    this.items[index] = { ...tool, asked: [...tool.asked, { id, resolved: null }] };
    this.questions.set(id, index);
  }

  private resolve(resolved: Resolved, key: string): void {
    const index = this.questions.get(resolved.id);
    if (index === undefined) {
      this.items.push({ type: "resolved", key, at: resolved.at, resolved });
      return;
    }
    const tool = this.items[index] as ToolItem;
    const asked = tool.asked.map((one) => (one.id === resolved.id ? { ...one, resolved } : one));
    this.items[index] = { ...tool, asked };
  }

  private planned(update: Payload, key: string, at: number | null): void {
    const entries = (Array.isArray(update.entries) ? update.entries : []) as PlanItem["entries"];
    const known = this.items[this.plan];
    if (known?.type === "plan") this.items[this.plan] = { ...known, entries };
    else this.plan = this.items.push({ type: "plan", key, at, entries }) - 1;
  }

  private modeChanged(mode: string, key: string, at: number | null): void {
    const changed = this.mode !== null && this.mode !== mode;
    this.mode = mode;
    if (changed) this.items.push({ type: "mode", key, at, text: mode, count: 1 });
  }

  private unknown(kind: string, key: string, at: number | null): void {
    const last = this.items.at(-1);
    if (last?.type === "unknown" && last.text === kind) {
      this.items[this.items.length - 1] = { ...last, count: last.count + 1 };
    } else {
      this.items.push({ type: "unknown", key, at, text: kind, count: 1 });
    }
  }

  private turn(params: Payload, key: string, at: number | null): void {
    const mailId = typeof params.mailId === "string" ? params.mailId : null;
    const turn = String(params.turn ?? mailId ?? key);
    this.promptOpen = false;
    if (params.state === "queued") {
      if (mailId) this.queued.add(mailId);
      return;
    }
    if (mailId) this.queued.delete(mailId);
    if (params.state === "started") {
      this.running = { turn, mailId, since: at };
      this.plan = -1;
      return;
    }
    if (mailId && !this.seenMail.has(mailId)) this.dropped.add(mailId);
    this.turnEnded(params, turn, key, at);
  }

  private turnEnded(params: Payload, turn: string, key: string, at: number | null): void {
    const since = this.running?.turn === turn ? this.running.since : null;
    this.items.push({
      type: "turn",
      key,
      at,
      state: params.state === "unknown" ? "unknown" : "ended",
      stopReason: typeof params.stopReason === "string" ? params.stopReason : null,
      error: (params.error as ErrorObject | undefined) ?? null,
      origin: (params.origin as Origin | undefined) ?? null,
      took: since !== null && at !== null ? at - since : null,
    });
    if (this.running?.turn !== turn && this.running !== null) return;
    this.running = null;
    this.closeTools(at);
  }

  // Some agents never close the card of what was rejected or cancelled.
  private closeTools(at: number | null): void {
    for (let index = this.items.length - 1; index >= 0; index -= 1) {
      const item = this.items[index];
      if (item?.type === "user") break;
      if (item?.type !== "tool" || item.endedAt !== null) continue;
      this.items[index] = { ...item, status: "unfinished", endedAt: at };
    }
  }
}

/** Reduces a whole log. */
export function transcriptOf(entries: readonly Entry[]): Transcript {
  const transcript = new Transcript();
  for (const entry of entries) transcript.push(entry);
  return transcript;
}

/** Drops what the writer lost in a crash: entries of an older epoch beyond where the new one begins. */
export function withoutLostTail(entries: Entry[], next: Entry): Entry[] {
  const { prev, epoch } = metaOf(next);
  if (!prev) return entries;
  const end = parseCursor(prev);
  return entries.filter((entry) => {
    const meta = metaOf(entry);
    return meta.epoch >= epoch || compareCursors(meta, end) <= 0;
  });
}

function blockText(content: unknown): string {
  const block = (content ?? {}) as Payload;
  if (block.type === "text") return String(block.text ?? "");
  if (block.type === "resource_link") return String(block.uri ?? block.name ?? "");
  const resource = block.resource as Payload | undefined;
  if (resource) return String(resource.text ?? resource.uri ?? "");
  return block.type ? `[${block.type}]` : "";
}

function joined(before: string, after: string): string {
  return before && after ? `${before}\n${after}` : before + after;
}
