import { describe, expect, test } from "vitest";
import { longParts } from "./reading";
import {
  allows,
  checkHash,
  headline,
  hiddenIn,
  isStanding,
  onlyRejectable,
  parseSubject,
  type Subject,
} from "./subject";

const PUSH = {
  v: 1,
  kind: "execute",
  command: "git push",
  cwd: "/home/anna/app",
  title: "Push",
  options: [
    ["allow", "Allow once", "allow_once"],
    ["always", "Always", "allow_always"],
    ["no", "Reject", "reject_once"],
  ],
};
const HASH_OF_ABC = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

const subject = (change: object = {}) =>
  parseSubject(JSON.stringify({ ...PUSH, ...change })) as Subject;

describe("a subject", () => {
  test("keeps the options in the agent's order, under its own names", () => {
    const { options } = subject();
    expect(options.map((option) => option.name)).toEqual(["Allow once", "Always", "Reject"]);
    expect(options.map(allows)).toEqual([true, true, false]);
    expect(options.map(isStanding)).toEqual([false, true, false]);
  });

  test("counts an option of an unknown kind as one that allows", () => {
    expect(allows({ id: "x", name: "Go", kind: "" })).toBe(true);
  });

  test("shows a command that is a list with the borders of its words", () => {
    const { command } = subject({ command: ["/bin/bash", "-lc", "echo 'a b' > c"] });
    expect(command).toBe("/bin/bash -lc 'echo '\\''a b'\\'' > c'");
  });

  test("lets no argument look like another one", () => {
    const text = subject({ arguments: { a: "1\nb: 2", c: "plain" } }).arguments;
    expect(text).toBe('a: "1\\nb: 2"\nc: plain');
  });

  test("does not repeat in its arguments what stands beside them", () => {
    const diffs = [{ path: "a.txt", oldText: null, newText: "hello\n" }];
    const args = { path: "a.txt", content: "hello\n", cwd: PUSH.cwd, mode: 493 };
    expect(subject({ diffs, arguments: args }).arguments).toBe("mode: 493");
    expect(subject({ arguments: { cwd: "/elsewhere" } }).arguments).toBe("cwd: /elsewhere");
  });

  test("is not read when it is of another version or no JSON", () => {
    expect(parseSubject('{"v":2}')).toBeNull();
    expect(parseSubject("git push")).toBeNull();
  });

  test("counts what hides anywhere in it, option names too", () => {
    const options = [["a", "Allow\u202e", "allow_once"]];
    expect(hiddenIn(subject({ command: "a\u200bb", options }))).toBe(2);
  });

  test("counts what hides in a form, in its labels and choices too", () => {
    const city = { title: "Ci\u200bty", oneOf: [{ const: "x", title: "A\u202eB" }] };
    const form = { message: "Wh\u00adere", requestedSchema: { properties: { city } } };
    expect(hiddenIn(subject({ command: undefined, form }))).toBe(3);
  });

  test("names the kinds of secret that the machine found in it", () => {
    expect(subject().secrets).toEqual([]);
    expect(subject({ secrets: ["GitHub token"] }).secrets).toEqual(["GitHub token"]);
  });

  test.each([
    [{}, "git push"],
    [{ command: undefined }, "Push"],
    [{ command: undefined, diffs: [{ path: "/home/anna/app/a.ts", newText: "" }] }, "a.ts"],
    [{ command: undefined, diffs: [{ path: "/etc/a", newText: "" }] }, "/etc/a"],
  ])("has a headline: %j", (change, expected) => {
    expect(headline(subject(change))).toBe(expected);
  });

  test("may only be rejected when it was cut or is over a mebibyte", () => {
    const long = JSON.stringify({ ...PUSH, command: "ä".repeat(600_000) });
    expect(onlyRejectable({ subject: "{}" }, subject({ truncated: true }))).toBe(true);
    expect(onlyRejectable({ subject: long }, parseSubject(long) as Subject)).toBe(true);
    expect(onlyRejectable({ subject: JSON.stringify(PUSH) }, subject())).toBe(false);
  });

  test("names its long parts, each of which must be opened before allowing", () => {
    const newText = "line\n".repeat(500);
    const long = subject({ command: "x".repeat(5000), diffs: [{ path: "a", newText }] });
    expect(longParts(long)).toEqual(["command", "diff 0"]);
    expect(longParts(subject())).toEqual([]);
    expect(longParts(subject({ paths: Array(200).fill("/etc/a") }))).toEqual(["paths"]);
    expect(longParts(subject({ command: "x".repeat(5000), title: "x".repeat(5000) }))).toEqual([
      "command",
    ]);
  });
});

describe("the check of what is shown", () => {
  test("is the same for the very bytes that were hashed", async () => {
    expect(await checkHash({ subject: "abc", hash: HASH_OF_ABC })).toBe("same");
  });

  test("differs for anything else", async () => {
    expect(await checkHash({ subject: "abd", hash: HASH_OF_ABC })).toBe("differs");
  });
});
