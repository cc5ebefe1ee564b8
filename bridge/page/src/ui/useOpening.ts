import { useState } from "preact/hooks";
import { OPENED_AT_ONCE } from "../reading";

/** How much of a long text is opened: its first part, then more with each tap. */
export function useOpening(text: string, first: number) {
  const [more, setMore] = useState(0);
  const length = Math.min(text.length, first + more);
  const left = text.length - length;
  const next = Math.min(left, OPENED_AT_ONCE);
  return { length, left, next, open: () => setMore(more + OPENED_AT_ONCE) };
}
