import { expect, test } from "vitest";
import { ago, duration, exactDuration, instant, took } from "./age";

const MINUTE = 60_000;

test.each([
  [0, "0 s"],
  [59_999, "59 s"],
  [MINUTE, "1 min"],
  [59 * MINUTE, "59 min"],
  [60 * MINUTE, "1 h"],
  [49 * 60 * MINUTE, "2 d"],
  [-5, "0 s"],
])("%d ms last %s", (ms, expected) => {
  expect(duration(ms)).toBe(expected);
});

test("what one watches has its smaller unit", () => {
  expect(exactDuration(4 * MINUTE + 12_000)).toBe("4 min 12 s");
  expect(exactDuration(125 * MINUTE)).toBe("2 h 5 min");
});

test("what took a moment has a tenth", () => {
  expect(took(234)).toBe("0.2 s");
  expect(took(31_000)).toBe("31 s");
});

test("a time is relative within a day and a date after it", () => {
  const now = Date.parse("2026-12-01T12:00:00Z");
  expect(ago(now - 500, now)).toBe("just now");
  expect(ago(now - 4 * MINUTE, now)).toBe("4 min ago");
  expect(ago(now - 48 * 60 * MINUTE, now)).toMatch(/2026/);
});

test("no time is no time", () => {
  expect(instant("")).toBeNull();
  expect(instant(null)).toBeNull();
  expect(instant("2026-12-01T00:00:00.000Z")).toBe(Date.parse("2026-12-01T00:00:00Z"));
});
