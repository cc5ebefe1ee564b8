import { expect, test } from "vitest";
import type { Subject } from "./subject";
import { newTool, toolHeading, updated, withSubject } from "./tool";

const change = { path: "/w/a.txt", oldText: null, newText: "one\n" };
const asked: Subject = {
  kind: "edit",
  title: "",
  cwd: "/w",
  command: "tee a.txt",
  arguments: null,
  said: null,
  diffs: [change],
  paths: [],
  options: [],
  form: null,
  truncated: false,
  secrets: [],
};

test("a card shows what its question told when the agent's updates do not", () => {
  const tool = withSubject(newTool("k", "call", 0), asked);
  expect(tool.diffs).toEqual([change]);
  expect(toolHeading(tool)).toEqual({ text: "tee a.txt", mono: true });
});

test("what the agent's updates tell stands over its question", () => {
  const diff = { type: "diff", path: "/w/a.txt", oldText: null, newText: "two\n" };
  const update = { rawInput: { command: "tee b.txt" }, content: [diff] };
  const tool = withSubject(updated(newTool("k", "call", 0), update, 0), asked);
  expect(tool.diffs[0]?.newText).toBe("two\n");
  expect(tool.command).toBe("tee b.txt");
});

test("a card without a question stays as it is", () => {
  const tool = newTool("k", "call", 0);
  expect(withSubject(tool, null)).toBe(tool);
});
