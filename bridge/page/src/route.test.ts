import { expect, test } from "vitest";
import { href, parseRoute, type Route } from "./route";

test.each<[string, Route]>([
  ["#/", { at: "inbox" }],
  ["", { at: "inbox" }],
  ["#/nonsense", { at: "inbox" }],
  ["#/sessions", { at: "sessions" }],
  ["#/s/0199-a.b_c", { at: "session", id: "0199-a.b_c" }],
  ["#/q/rt-6", { at: "question", id: "rt-6" }],
])("%j is a place", (hash, route) => {
  expect(parseRoute(hash)).toEqual(route);
});

test("a place and its address are one to one", () => {
  const route: Route = { at: "session", id: "a/b %" };
  expect(parseRoute(href(route))).toEqual(route);
});
