import { describe, expect, test } from "vitest";
import { sha256Hex } from "./bytes";
import { canonical } from "./canonical";
import { comparison, proof, readCode, readInvitation } from "./pairing";
import { spoken } from "./spoken";

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
