// @vitest-environment jsdom
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { Connection, type Link } from "./connection";
import { Conversation } from "./conversation";
import { Decisions } from "./decisions";
import { Device } from "./device";
import { FakeSocket } from "./fake_socket";
import { Signer } from "./signer";
import { Store } from "./store";
import type { Entry, Meta, RoundTrip } from "./wire";

let sockets: FakeSocket[];
let connection: Connection;
let conversation: Conversation;
let decisions: Decisions;
let signer: Signer;

const socket = () => sockets.at(-1) as FakeSocket;
const settle = () => vi.advanceTimersByTimeAsync(20);
const texts = () =>
  conversation.view.value.items.map((item) => ("text" in item ? item.text : item.type));
const states = () => conversation.prompts.waiting.value.map((prompt) => prompt.state);

function entry(seq: number, method: string, params: object, meta: Partial<Meta> = {}): Entry {
  const stamp = { epoch: 1, seq, ...meta };
  return { method, params: { sessionId: "s1", ...params, _meta: { "chimera.bridge": stamp } } };
}

const says = (seq: number, text: string, meta: Partial<Meta> = {}) =>
  entry(
    seq,
    "session/update",
    { update: { sessionUpdate: "agent_message_chunk", content: { type: "text", text } } },
    meta,
  );
const prompt = (seq: number, text: string, mailId: string) =>
  entry(
    seq,
    "session/update",
    { update: { sessionUpdate: "user_message_chunk", content: { type: "text", text } } },
    { mailId },
  );
const turn = (seq: number, state: string, mailId: string) =>
  entry(seq, "_bridge/turn", { turn: "t1", mailId, state });

// As the page does: greet, then read every opened session.
async function goLive(): Promise<void> {
  socket().accept();
  socket().answer("initialize", {});
  await settle();
}

async function reconnect(): Promise<void> {
  socket().close(1012);
  await settle();
  connection.check();
  await goLive();
}

beforeEach(async () => {
  vi.useFakeTimers();
  sessionStorage.clear();
  sockets = [];
  const listener = {
    link: (link: Link) => {
      if (link.state !== "live") return;
      decisions.resend();
      void conversation.attach();
    },
    ready: async () => undefined,
    message: (message: object) => conversation.receive(message as Entry),
    isSignedIn: async () => "in" as const,
    retryAfter: async () => 0,
  };
  const open = () => {
    sockets.push(new FakeSocket());
    return socket() as unknown as WebSocket;
  };
  signer = new Signer(new Store(), new Device());
  connection = new Connection(
    () => "ws://relay/acp",
    listener,
    () => ({}),
    open,
  );
  conversation = new Conversation("s1", connection, () => undefined, signer);
  decisions = new Decisions(connection, signer);
  connection.start();
  await goLive();
});

afterEach(() => {
  connection.stop();
  vi.useRealTimers();
});

// Answers what is fetched over HTTP, one answer after the other; gives the paths asked for.
function serves(...answers: [number, object][]): string[] {
  const paths: string[] = [];
  vi.stubGlobal("fetch", async (path: string) => {
    paths.push(path);
    const [status, body] = answers[paths.length - 1] ?? [500, {}];
    return new Response(JSON.stringify(body), { status });
  });
  return paths;
}

describe("history and long entries", () => {
  const shortened = () => says(10, "head…", { full: { bytes: 12, host: "anna-mbp" } });

  beforeEach(async () => {
    await goLive();
    conversation.gap({ sessionId: "s1", from: "1:5", reason: "history_starts_here" });
    socket().tell(says(9, "end", { joined: 4 }));
    socket().answer("session/load", {});
    await settle();
  });
  afterEach(() => vi.unstubAllGlobals());

  test("earlier entries are asked for from the first of the joined ones", async () => {
    const paths = serves([200, { entries: [says(5, "start ", { joined: 5 })], more: false }]);
    expect(conversation.before.value).toBe("more");
    await conversation.loadEarlier();
    expect(paths[0]).toContain("before=1%3A6");
    expect(texts()).toEqual(["start end"]);
    expect(conversation.before.value).toBe("beginning");
  });

  test("what cannot be read now says why and may be tried again", async () => {
    const away = { error: { message: "it is on anna-mbp, which is disconnected", reason: "x" } };
    serves([409, away], [200, { entries: [says(5, "start ", { joined: 5 })], more: false }]);
    await conversation.loadEarlier();
    expect(conversation.beforeProblem.value).toContain("anna-mbp");
    expect(conversation.before.value).toBe("more");
    await conversation.loadEarlier();
    expect(conversation.beforeProblem.value).toBeNull();
    expect(conversation.before.value).toBe("beginning");
  });

  test("what came shortened is fetched in pieces and takes its place", async () => {
    socket().tell(shortened());
    await settle();
    const whole = JSON.stringify(says(10, " and all of it"));
    const paths = serves(
      [200, { size: whole.length, text: whole.slice(0, 20), next: 20 }],
      [200, { size: whole.length, text: whole.slice(20), next: null }],
    );
    const item = conversation.view.value.items.at(-1);
    const stub = item && "stub" in item ? item.stub : null;
    expect(stub).toEqual({ cursor: "1:10", bytes: 12, host: "anna-mbp" });
    if (stub) await conversation.showAll(stub);
    expect(paths[1]).toBe("/api/sessions/s1/log/1:10?offset=20");
    expect(texts()).toEqual(["end and all of it"]);
    expect(conversation.fetching.value.size).toBe(0);
  });

  test("a whole that cannot be fetched says why", async () => {
    serves([409, { error: { message: "it is on anna-mbp, which is detached", reason: "x" } }]);
    await conversation.showAll({ cursor: "1:10", bytes: 12, host: "anna-mbp" });
    const failed = conversation.fetching.value.get("1:10");
    expect(failed).toMatchObject({ state: "failed", message: expect.stringContaining("detached") });
  });
});

describe("an opened session", () => {
  test("is drawn when its history is whole, and then as entries come", async () => {
    socket().tell(says(1, "a"));
    socket().tell(says(2, "b"));
    await settle();
    expect(texts()).toEqual([]);
    expect(conversation.loading.value).toEqual({ state: "reading", received: 2 });
    socket().answer("session/load", {});
    await settle();
    expect(texts()).toEqual(["ab"]);
    socket().tell(says(3, "c"));
    await settle();
    expect(texts()).toEqual(["abc"]);
  });

  test("resumes after the last entry it has, and drops what it has already", async () => {
    socket().tell(says(1, "a"));
    socket().answer("session/load", {});
    await settle();
    await reconnect();
    const [params] = socket().received("session/resume");
    expect(params?._meta).toEqual({ "chimera.bridge": { cursor: "1:1", compact: true } });
    socket().answer("session/resume", {});
    socket().tell(says(1, "a"));
    socket().tell(says(2, "b"));
    await settle();
    expect(texts()).toEqual(["ab"]);
  });

  test("drops what its writer lost in a crash", async () => {
    socket().tell(says(1, "a"));
    socket().tell(says(2, "lost"));
    socket().answer("session/load", {});
    await settle();
    socket().tell(says(1, "b", { epoch: 2, prev: "1:1" }));
    await settle();
    expect(texts()).toEqual(["ab"]);
  });

  test("says why it cannot be read", async () => {
    socket().refuse("session/load", "unknown session", "not_found");
    await settle();
    expect(conversation.loading.value).toMatchObject({ state: "failed", reason: "not_found" });
  });
});

describe("my prompt", () => {
  const mailOf = (at = -1) => conversation.prompts.waiting.value.at(at)?.mailId as string;

  beforeEach(async () => {
    socket().answer("session/load", {});
    await settle();
  });

  test("is shown as sent until the log shows it", async () => {
    conversation.prompts.send("go");
    expect(states()).toEqual(["sent"]);
    socket().tell(turn(1, "started", mailOf()));
    socket().tell(prompt(2, "go", mailOf()));
    await settle();
    expect(states()).toEqual([]);
    expect(texts()).toEqual(["go"]);
  });

  test("is queued while another turn runs, and told when it was dropped", async () => {
    conversation.prompts.send("go");
    socket().tell(turn(1, "queued", mailOf()));
    await settle();
    expect(states()).toEqual(["queued"]);
    socket().tell(turn(2, "ended", mailOf()));
    await settle();
    expect(states()).toEqual(["dropped"]);
  });

  test("is sent again under the same id after the link broke", async () => {
    conversation.prompts.send("go");
    const mailId = mailOf();
    await reconnect();
    socket().answer("session/load", {});
    await settle();
    const [params] = socket().received("session/prompt");
    expect(params?._meta).toMatchObject({ "chimera.bridge": { mailId } });
  });

  test("is not sent again when the log has it", async () => {
    conversation.prompts.send("go");
    const mailId = mailOf();
    await reconnect();
    socket().tell(turn(1, "started", mailId));
    socket().tell(prompt(2, "go", mailId));
    socket().answer("session/load", {});
    await settle();
    expect(socket().received("session/prompt")).toEqual([]);
  });

  test("that is old is left to the person", async () => {
    conversation.prompts.send("go");
    socket().close(1012);
    await vi.advanceTimersByTimeAsync(6 * 60_000);
    connection.check();
    // One that was being opened for too long is left, and the next comes after its jitter.
    await vi.advanceTimersByTimeAsync(500);
    await goLive();
    socket().answer("session/load", {});
    await settle();
    expect(states()).toEqual(["unknown"]);
    expect(socket().received("session/prompt")).toEqual([]);
  });

  test("that is refused says why and can be sent again", async () => {
    conversation.prompts.send("go");
    await settle();
    socket().refuse("session/prompt", "build-03 is away");
    await settle();
    expect(conversation.prompts.waiting.value).toMatchObject([
      { state: "failed", message: "build-03 is away" },
    ]);
    conversation.prompts.again(mailOf());
    await settle();
    expect(socket().received("session/prompt")).toHaveLength(2);
  });

  test("outlives a reload of the page", () => {
    conversation.prompts.send("go");
    const again = new Conversation("s1", connection, () => undefined, signer);
    expect(again.prompts.waiting.value).toMatchObject([{ text: "go" }]);
  });
});

describe("my decision", () => {
  const asked = { id: "rt-1", hash: "h" } as RoundTrip;
  const decide = async () => {
    decisions.decide(asked, { optionId: "yes" });
    await settle();
  };
  const mine = () => decisions.mine.value.get("rt-1");

  test("is given once, however often one taps", async () => {
    await decide();
    await decide();
    expect(socket().received("_bridge/decide")).toHaveLength(1);
  });

  test("is what the relay says it is", async () => {
    await decide();
    socket().answer("_bridge/decide", { state: "late", by: { subject: "ben" } });
    await settle();
    expect(mine()).toMatchObject({ state: "late", by: { subject: "ben" } });
  });

  test("is sent again under the same id after the link broke", async () => {
    await decide();
    const [first] = socket().received("_bridge/decide");
    await reconnect();
    expect(socket().received("_bridge/decide")).toEqual([first]);
  });

  test("that was not recorded leaves the question free", async () => {
    await decide();
    socket().refuse("_bridge/decide", "redis is away", "store_unavailable");
    await settle();
    expect(mine()).toMatchObject({ state: "failed", message: "redis is away" });
    await decide();
    expect(socket().received("_bridge/decide")).toHaveLength(2);
  });
});
