import { describe, expect, test } from "vitest";
import claudeAllow from "./recorded/claude-allow.json";
import claudeReject from "./recorded/claude-reject.json";
import claudeWrite from "./recorded/claude-write.json";
import codexAllow from "./recorded/codex-allow.json";
import codexFail from "./recorded/codex-fail.json";
import codexReject from "./recorded/codex-reject.json";
import codexWrite from "./recorded/codex-write.json";
import ferretAllow from "./recorded/ferret_acp-allow.json";
import geminiReject from "./recorded/gemini-reject.json";
import geminiWrite from "./recorded/gemini-write.json";
import openCodeAllow from "./recorded/opencode-allow.json";
import openCodeWrite from "./recorded/opencode-write.json";
import { type ToolItem, toolHeading } from "./tool";
import { type Item, type Transcript, transcriptOf, withoutLostTail } from "./transcript";
import type { Entry, Meta } from "./wire";

const read = (recorded: unknown) => transcriptOf(recorded as Entry[]);
const tools = (transcript: Transcript) =>
  transcript.items.filter((item): item is ToolItem => item.type === "tool");
const kinds = (items: readonly Item[]) => items.map((item) => item.type);

function entry(seq: number, method: string, params: object, meta: Partial<Meta> = {}): Entry {
  const stamp = { epoch: 1, seq, ...meta };
  return { method, params: { sessionId: "s1", ...params, _meta: { "chimera.bridge": stamp } } };
}

const update = (seq: number, sessionUpdate: string, fields: object, meta: Partial<Meta> = {}) =>
  entry(seq, "session/update", { update: { sessionUpdate, ...fields } }, meta);
const says = (seq: number, text: string, meta: Partial<Meta> = {}) =>
  update(seq, "agent_message_chunk", { content: { type: "text", text } }, meta);

describe("a recorded turn in which a command was allowed", () => {
  test.each([
    ["claude", claudeAllow],
    ["codex", codexAllow],
    ["opencode", openCodeAllow],
    ["ferret", ferretAllow],
  ])("%s: one card with its command, its output, and who allowed it", (_, recorded) => {
    const [tool, ...others] = tools(read(recorded));
    expect(others).toEqual([]);
    expect(toolHeading(tool as ToolItem).text).toBe("echo rig-was-here > rig.out && cat rig.out");
    expect(tool?.status).toBe("completed");
    expect(tool?.output.trim()).toBe("rig-was-here");
    expect(tool?.asked[0]?.resolved?.by?.subject).toBe("alice");
  });

  test("claude: chunks of one message are one item, thoughts another", () => {
    const { items } = read(claudeAllow);
    expect(kinds(items)).toEqual(["user", "thought", "agent", "tool", "thought", "agent", "turn"]);
    expect(items[2]).toMatchObject({
      text: "Step 1 part 1. Step 1 part 2. Step 1 part 3. Step 1 part 4. ",
    });
  });
});

describe("a recorded turn in which a file was written", () => {
  test.each([
    ["claude", claudeWrite],
    ["codex", codexWrite],
    ["gemini", geminiWrite],
    ["opencode", openCodeWrite],
  ])("%s: one card headed by the file, with the change", (_, recorded) => {
    const [tool, ...others] = tools(read(recorded));
    expect(others).toEqual([]);
    expect(toolHeading(tool as ToolItem).text).toMatch(/rig\.txt$/);
    expect(tool?.diffs[0]?.newText).toBe("written by the rig\n");
    expect(tool?.status).toBe("completed");
  });
});

describe("a recorded turn in which the answer was no", () => {
  test.each([
    ["claude", claudeReject, "failed"],
    ["codex, which never closes its card", codexReject, "unfinished"],
    ["gemini, which has no card of its own", geminiReject, "unfinished"],
  ])("%s: the card is over", (_, recorded, status) => {
    expect(tools(read(recorded)).map((tool) => tool.status)).toEqual([status]);
  });
});

test("a failed turn keeps the agent's own error", () => {
  const last = read(codexFail).items.at(-1);
  expect(last).toMatchObject({ type: "turn", error: { code: expect.any(Number) } });
});

describe("the order of entries", () => {
  test("a repeat changes nothing", () => {
    const transcript = transcriptOf([says(1, "a"), says(2, "b")]);
    expect(transcript.push(says(2, "b"))).toBe(false);
    expect(transcript.items).toMatchObject([{ text: "ab" }]);
  });

  test("an item that changes is replaced, the others stay the very same", () => {
    const transcript = transcriptOf([update(1, "tool_call", { toolCallId: "c1" }), says(2, "a")]);
    const [tool, text] = transcript.items;
    transcript.push(says(3, "b"));
    expect(transcript.items[0]).toBe(tool);
    expect(transcript.items[1]).not.toBe(text);
  });

  test("a gap stands where it was told", () => {
    const transcript = transcriptOf([says(1, "a")]);
    transcript.gap("trimmed", { epoch: 1, seq: 9 });
    transcript.push(says(9, "b"));
    expect(kinds(transcript.items)).toEqual(["agent", "gap", "agent"]);
  });

  test("a new epoch drops what its writer lost", () => {
    const held = [says(1, "a"), says(2, "b"), says(3, "lost")];
    const next = says(1, "c", { epoch: 2, prev: "1:2" });
    expect(withoutLostTail(held, next)).toEqual(held.slice(0, 2));
  });
});

describe("prompts and turns", () => {
  const prompt = (seq: number, text: string, mailId?: string) =>
    update(seq, "user_message_chunk", { content: { type: "text", text } }, { mailId });
  const turn = (seq: number, state: string, fields: object = {}) =>
    entry(seq, "_bridge/turn", { turn: "t1", state, ...fields });

  test("the blocks of one prompt are one item", () => {
    const { items } = transcriptOf([turn(1, "started"), prompt(2, "a", "p"), prompt(3, "b", "p")]);
    expect(items).toMatchObject([{ type: "user", text: "a\nb", mailId: "p" }]);
  });

  test("two prompts after each other are two items", () => {
    const { items } = transcriptOf([
      turn(1, "started"),
      prompt(2, "a"),
      turn(3, "started", { turn: "t2" }),
      prompt(4, "b"),
    ]);
    expect(items).toHaveLength(2);
  });

  test("a queued prompt is known until it starts", () => {
    const transcript = transcriptOf([turn(1, "queued", { turn: "t2", mailId: "p2" })]);
    expect([...transcript.queued]).toEqual(["p2"]);
    transcript.push(turn(2, "started", { turn: "t2", mailId: "p2" }));
    expect(transcript.queued.size).toBe(0);
    expect(transcript.running).toMatchObject({ mailId: "p2" });
  });

  test("a prompt that ended before it began is told apart", () => {
    const mail = { turn: "t2", mailId: "p2" };
    const transcript = transcriptOf([turn(1, "queued", mail), turn(2, "ended", mail)]);
    expect([...transcript.dropped]).toEqual(["p2"]);
  });

  test("the end of another turn leaves the running one alone", () => {
    const transcript = transcriptOf([turn(1, "started"), turn(2, "ended", { turn: "t2" })]);
    expect(transcript.running).toMatchObject({ turn: "t1" });
  });

  test("a plan is drawn once a turn", () => {
    const plan = (seq: number, status: string) =>
      update(seq, "plan", { entries: [{ content: "a", status, priority: "low" }] });
    const { items } = transcriptOf([turn(1, "started"), plan(2, "pending"), plan(3, "completed")]);
    expect(items).toMatchObject([{ type: "plan", entries: [{ status: "completed" }] }]);
  });

  test("an update of a kind that we do not know is said, not swallowed", () => {
    const { items } = transcriptOf([
      update(1, "future_update", {}),
      update(2, "future_update", {}),
    ]);
    expect(items).toMatchObject([{ type: "unknown", text: "future_update", count: 2 }]);
  });
});
