/** One opened session: its entries as they come, drawn once per frame, and what I send into it. */

import { batch, signal } from "@preact/signals";
import { logBefore } from "./api";
import { type Connection, Disconnected, RequestError } from "./connection";
import {
  type Cursor,
  type CursorText,
  compareCursors,
  cursorText,
  parseCursor,
  START,
} from "./cursor";
import { newId } from "./ids";
import { Prompts } from "./prompts";
import type { Signer } from "./signer";
import { type Item, type RunningTurn, Transcript, withoutLostTail } from "./transcript";
import { type Fetching, firstOf, type Stub, stubOf, wholeEntry } from "./whole";
import {
  type ConfigOption,
  type Entry,
  META,
  metaOf,
  type Payload,
  type Session,
  type Usage,
} from "./wire";

export interface View {
  items: readonly Item[];
  /** The first entry that the items hold. */
  first: CursorText;
  running: RunningTurn | null;
  queued: ReadonlySet<string>;
  usage: Usage | null;
  mode: string | null;
  configOptions: ConfigOption[] | null;
}

export type Loading =
  | { state: "waiting" }
  | { state: "reading"; received: number }
  | { state: "whole" }
  | { state: "failed"; message: string; reason: string };

// Of a long session the newest entries come first; what was before is read when one goes up to it.
const AT_FIRST = 1000;

/** What lies before the first entry that is shown. */
export type Before = "beginning" | "more" | "reading" | "dropped";

interface Mark {
  reason: string;
  from: Cursor | null;
  at: Cursor;
}

const NOTHING: View = {
  items: [],
  first: "",
  running: null,
  queued: new Set(),
  usage: null,
  mode: null,
  configOptions: null,
};

export class Conversation {
  readonly view = signal<View>(NOTHING);
  readonly loading = signal<Loading>({ state: "waiting" });
  readonly before = signal<Before>("beginning");
  /** Why earlier entries could not be read. */
  readonly beforeProblem = signal<string | null>(null);
  /** What came shortened and is being fetched in full, by its cursor. */
  readonly fetching = signal<ReadonlyMap<CursorText, Fetching>>(new Map());
  /** When I asked to stop the turn that runs; null: not asked. */
  readonly stopping = signal<number | null>(null);
  /** Whether a mode or an option that I chose is on its way. */
  readonly asking = signal(false);
  /** Why the last thing I asked for was not done. */
  readonly refusal = signal<string | null>(null);
  readonly prompts: Prompts;

  private entries: Entry[] = [];
  private marks: Mark[] = [];
  private transcript = new Transcript();
  private frame = 0;

  constructor(
    readonly sessionId: string,
    private readonly connection: Connection,
    private readonly putSession: (session: Session) => void,
    private readonly signer: Signer,
  ) {
    this.prompts = new Prompts(connection, sessionId, signer);
  }

  /** Reads the log from the last entry we have, on opening and after every reconnect. */
  async attach(): Promise<void> {
    const { last } = this.transcript;
    const fresh = compareCursors(last, START) === 0;
    this.loading.value = { state: "reading", received: 0 };
    try {
      const result = await this.connection.request<Payload>(
        fresh ? "session/load" : "session/resume",
        this.attachParams(fresh ? null : last),
        60_000,
      );
      const meta = (result._meta as Payload | undefined)?.[META] as Payload | undefined;
      if (meta?.session) this.putSession(meta.session as Session);
      this.loading.value = { state: "whole" };
      this.flush();
      this.prompts.reconcile();
    } catch (error) {
      this.attachFailed(error);
    }
  }

  /** Leaves the session; it goes on without us. */
  leave(): void {
    cancelAnimationFrame(this.frame);
    this.connection.notify("session/close", { sessionId: this.sessionId });
  }

  receive(entry: Entry): void {
    const meta = metaOf(entry);
    if (compareCursors(meta, this.transcript.last) <= 0) return;
    if (this.lostTail(entry)) this.rebuild(withoutLostTail(this.entries, entry));
    this.entries.push(entry);
    this.transcript.push(entry);
    this.schedule();
  }

  /** The relay says that what comes next follows `from`: what we hold beyond is of a lost tail. */
  gap(params: Payload): void {
    const from = params.from ? parseCursor(String(params.from)) : null;
    if (from && compareCursors(from, this.transcript.last) < 0) {
      this.rebuild(this.entries.filter((entry) => compareCursors(metaOf(entry), from) <= 0));
    }
    const mark = { reason: String(params.reason ?? ""), from, at: this.transcript.last };
    if (this.entries.length === 0) {
      this.before.value = "more";
      return;
    }
    this.marks.push(mark);
    this.transcript.gap(mark.reason, from);
    this.schedule();
  }

  async loadEarlier(): Promise<void> {
    const { first } = this.transcript;
    if (!first || this.before.value === "reading") return;
    this.before.value = "reading";
    this.beforeProblem.value = null;
    try {
      const page = await logBefore(this.sessionId, cursorText(first));
      this.rebuild([...page.entries, ...this.entries]);
      this.before.value = page.more ? "more" : this.endOf(page.entries.length > 0);
      this.draw();
    } catch (error) {
      this.before.value = "more";
      this.beforeProblem.value = (error as Error).message;
    }
  }

  /** Fetches the whole of an entry that came shortened, and shows it in its place. */
  async showAll(stub: Stub): Promise<void> {
    this.fetched(stub, { state: "reading", share: 0 });
    try {
      const whole = await wholeEntry(this.sessionId, stub, (share) => {
        this.fetched(stub, { state: "reading", share });
      });
      this.rebuild(this.entries.map((one) => (stubOf(one)?.cursor === stub.cursor ? whole : one)));
      this.fetched(stub, null);
      this.draw();
    } catch (error) {
      this.fetched(stub, { state: "failed", message: (error as Error).message });
    }
  }

  /** Asks the agent to stop; that it did is said by the turn's end alone. */
  async stop(): Promise<void> {
    this.refusal.value = null;
    this.stopping.value = Date.now();
    try {
      await this.mail("session/cancel", newId("c"), {});
    } catch (error) {
      this.stopping.value = null;
      this.refusal.value = (error as Error).message;
    }
  }

  async setMode(modeId: string): Promise<void> {
    await this.ask("session/set_mode", { modeId });
  }

  async setConfigOption(configId: string, value: string | boolean): Promise<void> {
    await this.ask("session/set_config_option", { configId, value });
  }

  private async ask(method: string, params: Payload): Promise<void> {
    this.refusal.value = null;
    this.asking.value = true;
    try {
      await this.mail(method, newId("m"), params);
    } catch (error) {
      this.refusal.value = (error as Error).message;
    } finally {
      this.asking.value = false;
    }
  }

  private async mail(method: string, mailId: string, params: Payload): Promise<void> {
    const { sessionId } = this;
    const signature = await this.signer.toSession(sessionId, mailId, method, params);
    const meta = { [META]: { mailId, ...(signature && { signature }) } };
    await this.connection.request(method, { sessionId, ...params, _meta: meta });
  }

  private attachParams(cursor: Cursor | null): Payload {
    const wanted = cursor ? { cursor: cursorText(cursor) } : { limit: AT_FIRST };
    const meta = { [META]: { ...wanted, compact: true } };
    return { sessionId: this.sessionId, cwd: "/", mcpServers: [], _meta: meta };
  }

  private fetched(stub: Stub, fetching: Fetching | null): void {
    const all = new Map(this.fetching.value);
    if (fetching) all.set(stub.cursor, fetching);
    else all.delete(stub.cursor);
    this.fetching.value = all;
  }

  private attachFailed(error: unknown): void {
    if (error instanceof Disconnected) this.loading.value = { state: "waiting" };
    else if (error instanceof RequestError) {
      this.loading.value = { state: "failed", message: error.message, reason: error.reason };
    } else throw error;
  }

  // A new epoch says where it begins; what we hold beyond that was lost by its writer.
  private lostTail(entry: Entry): boolean {
    const { prev, epoch } = metaOf(entry);
    const { last } = this.transcript;
    return prev !== undefined && epoch > last.epoch && compareCursors(parseCursor(prev), last) < 0;
  }

  private rebuild(entries: Entry[]): void {
    this.entries = entries;
    this.transcript = new Transcript();
    const marks = [...this.marks];
    for (const entry of entries) {
      while (marks[0] && compareCursors(marks[0].at, metaOf(entry)) < 0) {
        const mark = marks.shift() as Mark;
        this.transcript.gap(mark.reason, mark.from);
      }
      this.transcript.push(entry);
    }
  }

  private endOf(readSome: boolean): Before {
    const first = this.entries[0];
    const meta = first && { ...metaOf(first), ...firstOf(first) };
    if (!meta || (meta.seq === 1 && parseCursor(meta.prev).epoch === 0)) return "beginning";
    return readSome && this.before.value !== "dropped" ? "more" : "dropped";
  }

  private schedule(): void {
    if (this.loading.value.state === "reading" && this.view.value === NOTHING) {
      this.loading.value = { state: "reading", received: this.entries.length };
    } else if (!this.frame) {
      this.frame = requestAnimationFrame(() => this.flush());
    }
  }

  private flush(): void {
    cancelAnimationFrame(this.frame);
    this.frame = 0;
    if (this.before.value !== "dropped") this.before.value = this.endOf(true);
    this.draw();
  }

  private draw(): void {
    const { items, first, running, queued, usage, mode, configOptions, seenMail, dropped } =
      this.transcript;
    batch(() => {
      this.view.value = {
        items: items.slice(),
        first: first ? cursorText(first) : "",
        running,
        queued: new Set(queued),
        usage,
        mode,
        configOptions,
      };
      if (!running) this.stopping.value = null;
      for (const mailId of queued) this.prompts.queued(mailId);
      for (const mailId of dropped) this.prompts.dropped(mailId);
      this.prompts.seen(seenMail);
    });
  }
}
