import { describe, expect, test } from "vitest";
import { type Asked, shownFor } from "./notices";
import { hashOf } from "./subject";

const OPTIONS = [
  ["always", "Always", "allow_always"],
  ["yes", "Allow once", "allow_once"],
  ["no", "Reject", "reject_once"],
];
const PLAIN = {
  v: 1,
  kind: "execute",
  title: "Run tests",
  command: "npm test",
  arguments: { command: "npm test" },
  cwd: "/app",
  options: OPTIONS,
};

async function asked(subject: object = PLAIN, more: Partial<Asked> = {}): Promise<Asked> {
  const text = JSON.stringify(subject);
  return {
    kind: "question",
    id: "rt-1",
    sessionId: "s1",
    risk: "low",
    open: 1,
    agent: "Claude",
    host: "mbp",
    agentId: "a1",
    epoch: 1,
    subject: text,
    hash: (await hashOf(text)) ?? "",
    ...more,
  };
}

describe("a question", () => {
  test("of low risk is shown whole, with the options that count once", async () => {
    const shown = await shownFor(await asked());
    expect(shown).toMatchObject({
      title: "Claude on mbp asks",
      body: "npm test\n/app",
      tag: "q-rt-1",
    });
    expect(shown.buttons.map((one) => [one.action, one.option.name])).toEqual([
      ["choose yes", "Allow once"],
      ["choose no", "Reject"],
    ]);
  });

  test("whose arguments say more than its command shows them", async () => {
    const shown = await shownFor(
      await asked({ ...PLAIN, arguments: { command: "npm test", env: "CI=1" } }),
    );
    expect(shown.body).toContain("env: CI=1");
  });

  test.each([
    ["is of higher risk", PLAIN, { risk: "medium" }],
    ["is of high risk", PLAIN, { risk: "high" }],
    ["changes a file", { ...PLAIN, diffs: [{ path: "a", oldText: null, newText: "b" }] }, {}],
    ["is long", { ...PLAIN, command: "x".repeat(300) }, {}],
    ["hides a character", { ...PLAIN, command: "rm \u202e x" }, {}],
    ["was cut by the agent", { ...PLAIN, truncated: true }, {}],
    ["holds a secret", { ...PLAIN, secrets: ["a key"] }, {}],
    ["is a form", { ...PLAIN, form: { message: "which?" } }, {}],
    [
      "has two ways to allow once",
      { ...PLAIN, options: [...OPTIONS, ["b", "B", "allow_once"]] },
      {},
    ],
    ["is not what was hashed", PLAIN, { hash: "0".repeat(64) }],
    ["comes without its subject", PLAIN, { subject: undefined }],
    ["is no question that we know", { v: 2 }, {}],
  ])("that %s has no buttons", async (_, subject, more) => {
    const shown = await shownFor(await asked(subject, more));
    expect(shown.buttons).toEqual([]);
    expect(shown.place).toBe("#/q/rt-1");
  });

  test("that is not what was hashed is not shown at all", async () => {
    const shown = await shownFor(await asked(PLAIN, { hash: "0".repeat(64) }));
    expect(shown.body).toBe("Open to see what it wants to do.");
  });
});

test("who answered takes the place of the question, quietly", async () => {
  const answer = { optionId: "allow" };
  const shown = await shownFor({
    kind: "answered",
    id: "rt-1",
    state: "decided",
    by: "ben",
    answer,
  });
  expect(shown).toMatchObject({ tag: "q-rt-1", title: "ben: allowed", quietly: true });
});

test("an answer that was not applied is said aloud", async () => {
  const shown = await shownFor({
    kind: "answered",
    id: "rt-1",
    state: "closed",
    result: "void",
    reason: "turn_ended",
    answer: { optionId: "allow" },
  });
  expect(shown).toMatchObject({ title: "Your answer was not applied", quietly: false });
});

test("a long turn's end and a failure open their session", async () => {
  const over = { sessionId: "s1", agent: "Claude", host: "mbp", title: "fix it", took: 130 };
  expect(await shownFor({ kind: "turn", ...over })).toMatchObject({
    title: "Claude on mbp is done",
    body: "fix it · After 2 min.",
    place: "#/s/s1",
  });
  expect((await shownFor({ kind: "failure", ...over })).title).toContain("error");
});
