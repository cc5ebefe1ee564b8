/** Makes visible what a text hides: characters that nobody sees, and runs of space that push text away. */

export type Segment = { text: string } | { mark: string; name: string };

const NAMES: Record<number, string> = {
  8: "backspace",
  9: "tab",
  13: "carriage return",
  27: "escape",
  127: "delete",
  160: "no-break space",
  173: "soft hyphen",
  1564: "Arabic letter mark",
  8203: "zero-width space",
  8204: "zero-width non-joiner",
  8205: "zero-width joiner",
  8206: "left-to-right mark",
  8207: "right-to-left mark",
  8232: "line separator",
  8233: "paragraph separator",
  8234: "left-to-right embedding",
  8235: "right-to-left embedding",
  8236: "end of direction",
  8237: "left-to-right override",
  8238: "right-to-left override",
  8288: "word joiner",
  8294: "left-to-right isolate",
  8295: "right-to-left isolate",
  8296: "first strong isolate",
  8297: "end of isolate",
  65279: "zero-width no-break space",
};

// Controls but tab and line feed; fillers, format characters and spaces that are not U+0020; lone
// surrogates. Longest runs first: a run is one mark.
const RUNS = " {16,}|\\t{8,}|\\n{8,}";
const UNSEEN =
  "[\\p{Cc}\\p{Cf}\\p{Cs}\\p{Zl}\\p{Zp}\\p{Co}]|[\\u034f\\u115f\\u1160\\u17b4\\u17b5\\u180b-\\u180f]" +
  "|[\\u3164\\uffa0\\ufe00-\\ufe0f]|[\\u{e0100}-\\u{e01ef}]|(?! )\\p{Zs}";
const HIDDEN = new RegExp(`${RUNS}|${UNSEEN}`, "gu");
const EMOJI_BEFORE = /(\p{Extended_Pictographic}|\p{Emoji_Modifier}|\ufe0f)$/u;

/** Splits a text into what can be shown as it is and marks for what cannot be seen. */
export function reveal(text: string): Segment[] {
  const segments: Segment[] = [];
  let end = 0;
  for (const match of text.matchAll(HIDDEN)) {
    const found = match[0];
    if (found === "\n" || found === "\t" || isPartOfEmoji(text, match.index, found)) continue;
    if (match.index > end) segments.push({ text: text.slice(end, match.index) });
    segments.push(markOf(found));
    end = match.index + found.length;
  }
  if (end < text.length) segments.push({ text: text.slice(end) });
  return segments;
}

/** Counts the marks a text needs; 0: nothing hides. */
export function countHidden(text: string): number {
  return reveal(text).filter((segment) => "mark" in segment).length;
}

function markOf(found: string): Segment {
  if (found.length > 2) {
    const what = found[0] === " " ? "spaces" : found[0] === "\t" ? "tabs" : "line breaks";
    return { mark: `${found.length} ${what}`, name: `a run of ${found.length} ${what}` };
  }
  const code = found.codePointAt(0) ?? 0;
  const mark = `U+${code.toString(16).toUpperCase().padStart(4, "0")}`;
  return { mark, name: NAMES[code] ?? "a character that is not seen" };
}

// A joiner or a variation selector inside an emoji changes only the picture.
function isPartOfEmoji(text: string, at: number, found: string): boolean {
  if (found !== "\ufe0f" && found !== "\u200d") return false;
  return EMOJI_BEFORE.test(text.slice(Math.max(0, at - 2), at));
}
