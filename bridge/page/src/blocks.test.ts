import { describe, expect, test } from "vitest";
import { Blocks } from "./blocks";

const TEXT =
  "First paragraph\nof two lines.\n\n- one\n- two\n\n```sh\nmake check\n\nmake all\n```\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\nLast *one*";

describe("growing markdown", () => {
  test("a finished block never changes again", () => {
    const blocks = new Blocks();
    let seen: string[] = [];
    for (let end = 1; end <= TEXT.length; end += 1) {
      blocks.update(TEXT.slice(0, end));
      expect(blocks.finished.slice(0, seen.length)).toEqual(seen);
      seen = [...blocks.finished];
    }
    expect(seen.length).toBeGreaterThan(3);
  });

  test("no character is lost, however it is cut", () => {
    for (const step of [1, 3, 7, 1000]) {
      const blocks = new Blocks();
      for (let end = step; end < TEXT.length + step; end += step) blocks.update(TEXT.slice(0, end));
      const all = [...blocks.finished, blocks.tail].join("");
      expect(all.replace(/\s/g, "")).toBe(TEXT.replace(/\s/g, ""));
    }
  });

  test("code with empty lines is one block, open until its fence closes", () => {
    const blocks = new Blocks();
    blocks.update("```js\na\n\nb\n");
    expect(blocks.openFence).toBe(true);
    blocks.update("```js\na\n\nb\n```\n\nafter");
    expect(blocks.finished).toEqual(["```js\na\n\nb\n```"]);
  });

  test("another text begins anew", () => {
    const blocks = new Blocks();
    blocks.update("a\n\nb");
    blocks.update("c");
    expect([blocks.finished, blocks.tail]).toEqual([[], "c"]);
  });
});
