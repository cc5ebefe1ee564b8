import { expect, test } from "vitest";
import { exitCodeOf, outputDelta, outputOf } from "./output";

const text = (value: string) => [{ type: "content", content: { type: "text", text: value } }];

test.each([
  ["a string", { rawOutput: "hi" }, "hi"],
  ["codex", { rawOutput: { stdout: "a", aggregated_output: "ab", exit_code: 1 } }, "ab"],
  ["stdout and stderr", { rawOutput: { stdout: "a", stderr: "b" } }, "a\nb"],
  ["opencode", { rawOutput: { output: "hi", metadata: {} }, content: text("longer") }, "hi"],
  ["content", { content: text("hi\n") }, "hi\n"],
  ["fenced content", { content: text("```console\nhi\n```") }, "hi"],
  ["claude's response", { _meta: { claudeCode: { toolResponse: { stdout: "hi" } } } }, "hi"],
  ["nothing", { status: "completed" }, null],
])("the output is found: %s", (_, update, expected) => {
  expect(outputOf(update)).toBe(expected);
});

test("a terminal that streams adds to what there is", () => {
  expect(outputDelta({ _meta: { terminal_output_delta: { data: "more" } } })).toBe("more");
  expect(outputDelta({ _meta: { terminal_output_delta: "more" } })).toBe("more");
});

test("the exit code is found", () => {
  expect(exitCodeOf({ rawOutput: { exit_code: 0 } })).toBe(0);
  expect(exitCodeOf({})).toBeNull();
});
