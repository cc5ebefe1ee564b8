import { expect, test } from "vitest";
import { compareCursors, cursorText, parseCursor, START } from "./cursor";

test("a cursor reads what it wrote", () => {
  const cursor = { epoch: 1796078096123, seq: 44 };
  expect(parseCursor(cursorText(cursor))).toEqual(cursor);
});

test("cursors order by epoch, then by number", () => {
  const order = ["1:9", "2:1", "2:2", "10:1"].map(parseCursor);
  expect([...order].reverse().sort(compareCursors)).toEqual(order);
});

test("what is no cursor is the start", () => {
  expect(parseCursor("1-2")).toEqual(START);
  expect(parseCursor(null)).toEqual(START);
});
