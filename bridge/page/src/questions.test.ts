import { describe, expect, test } from "vitest";
import { answered, waiting, withQuestions } from "./questions";
import { newTool } from "./tool";
import type { Item } from "./transcript";
import type { RoundTrip } from "./wire";

const at = (second: number) => `2026-12-01T09:00:${String(second).padStart(2, "0")}.000Z`;
const asked = (id: string, second: number, fields: Partial<RoundTrip> = {}) =>
  ({ id, state: "open", risk: "low", askedAt: at(second), ...fields }) as RoundTrip;
const said = (key: string, second: number): Item => ({
  type: "agent",
  key,
  at: Date.parse(at(second)),
  text: "",
  messageId: null,
  stub: null,
});

describe("the questions that wait", () => {
  test("the riskiest comes first, then the one that waits longest", () => {
    const all = [asked("a", 5), asked("b", 1), asked("c", 9, { risk: "high" })];
    expect(waiting(all).map((one) => one.id)).toEqual(["c", "b", "a"]);
  });

  test("an answered one waits no more, and the last answered comes first", () => {
    const all = [
      asked("a", 1, { state: "closed", closedAt: at(10) }),
      asked("b", 1, { state: "closed", closedAt: at(20) }),
    ];
    expect(waiting(all)).toEqual([]);
    expect(answered(all).map((one) => one.id)).toEqual(["b", "a"]);
  });
});

describe("a question in a transcript", () => {
  const keys = (items: readonly { key: string }[]) => items.map((item) => item.key);

  test("stands where it was asked when no card stands for it", () => {
    const items = withQuestions([said("before", 1), said("after", 9)], [asked("q", 5)]);
    expect(keys(items)).toEqual(["before", "question-q", "after"]);
  });

  test("is its tool call's card when there is one", () => {
    const card = newTool("card", "c1", Date.parse(at(1)));
    expect(withQuestions([card], [asked("q", 5, { toolCallId: "c1" })])).toEqual([card]);
  });

  test("takes the place of the line that tells how it ended", () => {
    const resolved = { id: "q", result: "applied", reason: "decided", at: 0 } as const;
    const line: Item = { type: "resolved", key: "line", at: null, resolved };
    expect(keys(withQuestions([line], [asked("q", 5)]))).toEqual(["question-q"]);
    expect(keys(withQuestions([line], []))).toEqual(["line"]);
  });
});
