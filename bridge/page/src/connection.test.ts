import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import {
  Connection,
  Disconnected,
  type Link,
  type Message,
  RequestError,
  waitBefore,
} from "./connection";
import { FakeSocket } from "./fake_socket";

let sockets: FakeSocket[];
let links: Link[];
let messages: Message[];
let signedIn: "in" | "out" | "away";
let askedToWait: number;
let connection: Connection;

const socket = () => sockets.at(-1) as FakeSocket;
const states = () => links.map((link) => link.state);
const settle = () => vi.advanceTimersByTimeAsync(0);

async function goLive(): Promise<void> {
  socket().accept();
  socket().answer("initialize", {});
  await settle();
}

beforeEach(() => {
  vi.useFakeTimers();
  sockets = [];
  links = [];
  messages = [];
  signedIn = "in";
  askedToWait = 0;
  const listener = {
    link: (link: Link) => links.push(link),
    ready: async () => undefined,
    message: (message: Message) => messages.push(message),
    isSignedIn: async () => signedIn,
    retryAfter: async () => askedToWait,
  };
  const open = () => {
    const fake = new FakeSocket();
    sockets.push(fake);
    return fake as unknown as WebSocket;
  };
  connection = new Connection(
    () => "ws://relay/acp",
    listener,
    () => ({ protocolVersion: 1 }),
    open,
  );
  connection.start();
});

afterEach(() => {
  connection.stop();
  vi.useRealTimers();
});

describe("the link", () => {
  test("is live only after the relay greeted", async () => {
    socket().accept();
    expect(states()).toEqual(["connecting"]);
    socket().answer("initialize", {});
    await settle();
    expect(states()).toEqual(["connecting", "live"]);
  });

  test("comes back by itself and says why it was away", async () => {
    await goLive();
    socket().close(1012);
    await settle();
    expect(links.at(-1)).toMatchObject({ state: "reconnecting", reason: "relay_restarting" });
    await vi.advanceTimersByTimeAsync(1000);
    await goLive();
    expect(links.at(-1)).toMatchObject({ state: "live" });
  });

  test.each([
    ["out", { state: "signed-out" }],
    ["away", { state: "reconnecting", reason: "relay_unreachable" }],
    ["in", { state: "reconnecting", reason: "socket_refused" }],
  ] as const)("that is refused asks whether one is signed in: %s", async (answer, expected) => {
    signedIn = answer;
    socket().close(1006);
    await settle();
    expect(links.at(-1)).toMatchObject(expected);
  });

  test("waits as long as a full relay asks, and a little for the others", async () => {
    askedToWait = 3_000;
    socket().close(1006);
    await settle();
    await vi.advanceTimersByTimeAsync(2_999);
    expect(sockets).toHaveLength(1);
    await vi.advanceTimersByTimeAsync(1_001);
    expect(sockets).toHaveLength(2);
  });

  test("comes back within half a second each time the relay restarts", async () => {
    for (let n = 1; n <= 5; n++) {
      await goLive();
      await vi.advanceTimersByTimeAsync(1_500);
      socket().close(1012);
      await settle();
      await vi.advanceTimersByTimeAsync(500);
      expect(sockets).toHaveLength(n + 1);
    }
  });

  test("does not come back after a final code", async () => {
    await goLive();
    socket().close(4426);
    await settle();
    await vi.advanceTimersByTimeAsync(120_000);
    expect(links.at(-1)).toMatchObject({ state: "stopped", code: 4426 });
    expect(sockets).toHaveLength(1);
  });

  test("tries at once when the device says that something changed", async () => {
    await goLive();
    socket().close(1006);
    await settle();
    connection.check();
    expect(sockets).toHaveLength(2);
  });

  test("does not wait for a socket that never opens, nor for its close", async () => {
    socket().close = () => undefined;
    signedIn = "away";
    await vi.advanceTimersByTimeAsync(8_000);
    expect(links.at(-1)).toMatchObject({ state: "reconnecting", reason: "relay_unreachable" });
    await vi.advanceTimersByTimeAsync(500);
    expect(sockets).toHaveLength(2);
  });

  test("of a page that slept is made anew at once, and by one socket", async () => {
    await goLive();
    const dead = socket();
    dead.close = () => undefined;
    vi.setSystemTime(Date.now() + 120_000);
    for (let n = 0; n < 3; n++) connection.check();
    expect(links.at(-1)).toMatchObject({ state: "reconnecting" });
    await vi.advanceTimersByTimeAsync(500);
    expect(sockets).toHaveLength(2);
    dead.tell({ method: "_bridge/changed", params: {} });
    expect(messages).toEqual([]);
  });

  test("that is silently dead is noticed by asking", async () => {
    await goLive();
    connection.check();
    await vi.advanceTimersByTimeAsync(5_000);
    expect(links.at(-1)).toMatchObject({ state: "reconnecting", reason: "socket_closed" });
  });
});

describe("a request", () => {
  test("gets its own answer", async () => {
    await goLive();
    const first = connection.request("a", {});
    const second = connection.request("b", {});
    socket().answer("b", 2);
    socket().answer("a", 1);
    expect([await first, await second]).toEqual([1, 2]);
  });

  test("fails with the relay's own words", async () => {
    await goLive();
    const asked = connection.request("a", {});
    const { id } = socket().sent.at(-1) as Message;
    socket().tell({ id, error: { code: -32010, message: "viewers look" } });
    await expect(asked).rejects.toThrowError(RequestError);
    await expect(asked).rejects.toThrow("viewers look");
  });

  test("that waits when the link breaks is told so", async () => {
    await goLive();
    const asked = connection.request("a", {}, null);
    asked.catch(() => undefined);
    socket().close(1006);
    await settle();
    await expect(asked).rejects.toThrowError(Disconnected);
  });
});

test("what the relay says by itself is passed on", async () => {
  await goLive();
  socket().tell({ method: "_bridge/changed", params: {} });
  expect(messages).toMatchObject([{ method: "_bridge/changed" }]);
});

test("the wait grows, is never without jitter, and has a bound", () => {
  expect(waitBefore(0, () => 0)).toBe(0);
  expect(waitBefore(1, () => 0)).toBe(500);
  expect(waitBefore(3, () => 0.5)).toBe(2000);
  expect(waitBefore(50, () => 1)).toBe(30_000);
});
