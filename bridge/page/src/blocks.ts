/** Cuts growing markdown into blocks: a finished one never changes again, only the tail does. */

import { lexer } from "marked";

export class Blocks {
  readonly finished: string[] = [];
  tail = "";
  private text = "";

  /** Takes the whole text as it is now; a text that does not continue the last one begins anew. */
  update(raw: string): void {
    const text = raw.includes("\r") ? raw.replace(/\r\n?/g, "\n") : raw;
    if (!text.startsWith(this.text)) this.clear();
    this.tail += text.slice(this.text.length);
    this.text = text;
    this.finish();
  }

  /** Whether the tail is a code block that is not closed yet. */
  get openFence(): boolean {
    return isOpenFence(this.tail);
  }

  /** Whether the tail is too long to be drawn anew with each word. */
  get endless(): boolean {
    return this.tail.length > LONGEST_TAIL;
  }

  // In a long tail a block can end only at an empty line; to look for that is cheap.
  private noNewBlock(): boolean {
    return this.endless && !/\n[ \t]*\n/.test(this.tail);
  }

  private clear(): void {
    this.finished.length = 0;
    this.tail = "";
    this.text = "";
  }

  private finish(): void {
    // Only an empty line or a heading ends a block; without one, nothing can be finished.
    if (!this.tail.includes("\n") || this.openFence || this.noNewBlock()) return;
    const tokens = lexer(this.tail);
    const last = tokens.findLastIndex((token) => token.type !== "space");
    const done = tokens.slice(0, Math.max(0, last));
    for (const token of done) {
      if (token.type !== "space") this.finished.push(token.raw);
      this.tail = this.tail.slice(token.raw.length);
    }
  }
}

// Drawing 20 kB of markdown takes a few milliseconds, of which a frame has sixteen.
const LONGEST_TAIL = 20_000;

function isOpenFence(text: string): boolean {
  const match = /^ {0,3}(`{3,}|~{3,})[^\n]*(\n|$)/.exec(text);
  if (!match) return false;
  const close = new RegExp(`\\n {0,3}${match[1]}[\`~]*[ \\t]*(\\n|$)`);
  return !close.test(text.slice(match[0].length - 1));
}
