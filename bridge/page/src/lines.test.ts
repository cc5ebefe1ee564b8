import { expect, test } from "vitest";
import { changeOf } from "./lines";

test("a change has both line numbers and counts", () => {
  const { lines, added, removed } = changeOf("a\nb\nc\n", "a\nB\nc\n");
  expect(lines.map((line) => [line.kind, line.before, line.after, line.text])).toEqual([
    ["same", 1, 1, "a"],
    ["del", 2, null, "b"],
    ["add", null, 2, "B"],
    ["same", 3, 3, "c"],
  ]);
  expect([added, removed]).toEqual([1, 1]);
});

test("a new file is all additions", () => {
  expect(changeOf(null, "a\nb\n")).toMatchObject({ added: 2, removed: 0 });
});

test("what lies between two changes is cut, and said", () => {
  const before = Array.from({ length: 60 }, (_, at) => `line ${at}`).join("\n");
  const after = before.replace("line 3\n", "three\n").replace("line 50\n", "fifty\n");
  expect(changeOf(before, after).lines.filter((line) => line.kind === "cut")).toHaveLength(1);
});

test("a missing line break at the end is said", () => {
  const kinds = changeOf("a\n", "a").lines.map((line) => line.kind);
  expect(kinds).toContain("note");
});

test("two texts with nothing in common are compared in a moment", () => {
  const text = (word: string) =>
    Array.from({ length: 20_000 }, (_, at) => `${word} ${at}`).join("\n");
  expect(changeOf(text("a"), text("b"))).toMatchObject({ added: 20_000, removed: 20_000 });
});
