import { describe, expect, test } from "vitest";
import { attemptOf, outcomeOf } from "./outcome";
import { parseSubject } from "./subject";
import type { Origin, RoundTrip } from "./wire";

const SUBJECT = JSON.stringify({
  v: 1,
  kind: "execute",
  command: "npm test",
  options: [
    ["yes", "Yes", "allow_once"],
    ["always", "Always npm", "allow_always"],
    ["no", "No", "reject_once"],
  ],
});
const subject = parseSubject(SUBJECT);
const names = {
  host: "anna-mbp",
  isMe: (who: Origin | null | undefined) => who?.subject === "alice",
};
const ben = { subject: "Ben", device: "anna-mbp", door: "editor" };
const alice = { subject: "alice", door: "page" };

const closed = (fields: Partial<RoundTrip>) =>
  outcomeOf({ state: "closed", ...fields } as RoundTrip, subject, names);

describe("what became of a question", () => {
  test("nothing is said while it is open", () => {
    expect(outcomeOf({ state: "open" } as RoundTrip, subject, names)).toBeNull();
  });

  test("an answer is recorded until its machine applied it", () => {
    const decision = { answer: { optionId: "yes" }, by: alice, at: "", decisionId: "d" };
    expect(outcomeOf({ state: "decided", decision } as RoundTrip, subject, names)).toMatchObject({
      state: "recorded",
      sentence: "You allowed this",
      rest: "anna-mbp has not applied it yet",
    });
  });

  test.each([
    [
      { result: "applied", reason: "decided", answer: { optionId: "yes" }, by: alice },
      "You allowed this",
    ],
    [
      { result: "applied", reason: "local", answer: { optionId: "no" }, by: ben },
      "Ben rejected this at the editor",
    ],
    [
      { result: "void", reason: "local", answer: { optionId: "yes" }, by: ben },
      "Ben allowed this at the editor",
    ],
    [
      { result: "applied", reason: "decided", answer: { optionId: "always" }, by: alice },
      "You allowed this for good “Always npm”",
    ],
    [
      { result: "applied", reason: "decided", answer: { action: "decline" }, by: ben },
      "Ben declined this at the editor",
    ],
  ] as [Partial<RoundTrip>, string][])("who did what: %j", (fields, sentence) => {
    expect(closed(fields)).toMatchObject({ sentence, tone: "ok" });
  });

  test.each(["expired", "turn_ended", "cancelled", "agent_exited", "restarted"])(
    "without an answer it says why it ended: %s",
    (reason) => {
      expect(closed({ result: "void", reason })).toMatchObject({ state: "ended", tone: "quiet" });
    },
  );

  test("an answer that was recorded but never applied is no success", () => {
    const decision = { answer: { optionId: "yes" }, by: alice, at: "", decisionId: "d" };
    const outcome = closed({ result: "void", reason: "turn_ended", decision });
    expect(outcome).toMatchObject({ state: "ended", tone: "quiet", rest: "You allowed this" });
  });
});

describe("my own attempt", () => {
  const mine = { decisionId: "d", hash: "h", answer: { optionId: "yes" } };

  test("that came second names who won", () => {
    expect(attemptOf({ ...mine, state: "late", by: ben }, subject, names)?.sentence).toBe(
      "too late: Ben at the editor answered first",
    );
  });

  test("that was not recorded says why", () => {
    const attempt = attemptOf(
      { ...mine, state: "failed", message: "redis is away" },
      subject,
      names,
    );
    expect(attempt).toEqual({ sentence: "not recorded: redis is away", tone: "bad" });
  });
});
