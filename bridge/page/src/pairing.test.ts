import { describe, expect, test, vi } from "vitest";
import { sha256Hex } from "./bytes";
import { canonical } from "./canonical";
import { comparison, proof, readCode, readInvitation, told } from "./pairing";
import { spoken } from "./spoken";
import { Store } from "./store";
import type { Agent } from "./wire";

// The same values stand in tests/bridge/protocol/test_golden.py: both sides must agree on each.
describe("what both sides compute", () => {
  test("a message has one hash", async () => {
    const text = 'a"\\/\b\f\n\r\t\u0001\u007f\u2028é😀';
    const message = {
      method: "session/prompt",
      params: {
        sessionId: "s",
        prompt: [{ type: "text", text }],
        "😀": 1,
        "\ufb33": [null, true, 0, 2 ** 53 - 1],
        é: {},
        z: "",
      },
    };
    expect(await sha256Hex(canonical(message))).toBe(
      "7ed12d429b52a101c7312a5f5a9770d772b0c0f7c6bd5948ee8c1026fc3a8e33",
    );
  });

  test("a proof, the words to compare, and words of bytes", async () => {
    const secret = Uint8Array.from({ length: 16 }, (_, n) => n);
    expect(await proof(secret, "answer", "offer é", "answer")).toBe(
      "9abb3f7b895b3c0f3851b8d9c7d98babd6400c46907755fb1d59b8f75f3a263b",
    );
    expect(await comparison("offer é", "answer", "00ff")).toBe("nopoh-luzuz-gohof");
    expect(spoken(Uint8Array.of(127, 0, 0, 1, 255, 255))).toBe("lusab-babad-zuzuz");
  });
});

describe("what is scanned or typed", () => {
  test.each([
    ["K7M2XQ.AAECAwQFBgcICQoLDA0ODw", true],
    ["K7M2XQ.AAEC", false],
    ["K7M2XQ", false],
    ["K7M2X0.AAECAwQFBgcICQoLDA0ODw", false],
    ["", false],
  ])("%s", (text, good) => {
    expect(readInvitation(text) !== null).toBe(good);
  });

  test.each([
    ["k7m-2xq", "K7M2XQ"],
    [" K7M 2XQ ", "K7M2XQ"],
    ["K7M2X", null],
    ["OOOOOO", null],
  ])("%s is read as %s", (typed, code) => {
    expect(readCode(typed)?.code ?? null).toBe(code);
  });
});

test("a number that two languages write differently is not signed", () => {
  expect(() => canonical({ params: [0.5] })).toThrow("whole numbers");
});

describe("a pairing is over when the machine is known to take what this device signs", () => {
  const machine = (host: string, ...devices: string[]) =>
    new Map([[host, { id: host, host, devices } as Partial<Agent> as Agent]]);

  async function isOver(waiting: Promise<void>): Promise<boolean> {
    return Promise.race([
      waiting.then(() => true),
      new Promise<boolean>((resolve) => setTimeout(() => resolve(false))),
    ]);
  }

  test("not before it says so, and not when another one does", async () => {
    const store = new Store();
    store.agents.value = machine("laptop");
    const waiting = told(store, "laptop", "key-1");
    expect(await isOver(waiting)).toBe(false);
    store.agents.value = machine("other", "key-1");
    expect(await isOver(waiting)).toBe(false);
    store.agents.value = machine("laptop", "key-0", "key-1");
    expect(await isOver(waiting)).toBe(true);
  });

  test("at once when it said so before", async () => {
    const store = new Store();
    store.agents.value = machine("laptop", "key-1");
    expect(await isOver(told(store, "laptop", "key-1"))).toBe(true);
  });

  test("and it does not wait for ever for a machine that went away", async () => {
    vi.useFakeTimers();
    const waiting = told(new Store(), "laptop", "key-1");
    await vi.advanceTimersByTimeAsync(10_000);
    await waiting;
    vi.useRealTimers();
  });
});
