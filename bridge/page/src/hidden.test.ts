import { describe, expect, test } from "vitest";
import { countHidden, reveal } from "./hidden";

const marks = (text: string) =>
  reveal(text).flatMap((segment) => ("mark" in segment ? [segment.mark] : []));

describe("what a text hides", () => {
  test.each([
    ["a direction override", "main\u202e && rm", "U+202E"],
    ["a zero-width space", "git\u200bpush", "U+200B"],
    ["a byte order mark", "\ufeffls", "U+FEFF"],
    ["an escape", "\u001b[2K", "U+001B"],
    ["a carriage return", "safe\rrm -rf", "U+000D"],
    ["a no-break space", "rm\u00a0x", "U+00A0"],
    ["a tag character", "a\u{e0041}b", "U+E0041"],
    ["a Hangul filler", "a\u3164b", "U+3164"],
    ["a lone surrogate", "a\ud800b", "U+D800"],
    ["a soft hyphen", "re\u00admove", "U+00AD"],
  ])("%s is shown by its code", (_, text, mark) => {
    expect(marks(text)).toEqual([mark]);
  });

  test("a long run of spaces is one mark with its length", () => {
    expect(marks(`ls${" ".repeat(120)}; rm -rf ~`)).toEqual(["120 spaces"]);
    expect(marks(`ls${"\n".repeat(40)}rm`)).toEqual(["40 line breaks"]);
  });

  test("what can be seen stays as it is", () => {
    const text = "if true; then\n\techo 'ö 日本 مرحبا'\n        indented\nfi";
    expect(reveal(text)).toEqual([{ text }]);
  });

  test("the joiners of an emoji hide nothing", () => {
    expect(countHidden("✔️ 👩‍💻 done")).toBe(0);
    expect(countHidden("a\u200db")).toBe(1);
  });

  test("the segments hold the whole text, in order", () => {
    expect(reveal("a\u202eb\u200bc")).toEqual([
      { text: "a" },
      { mark: "U+202E", name: "right-to-left override" },
      { text: "b" },
      { mark: "U+200B", name: "zero-width space" },
      { text: "c" },
    ]);
  });
});
