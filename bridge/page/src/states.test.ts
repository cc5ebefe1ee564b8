import { expect, test } from "vitest";
import { sessionState } from "./states";
import type { Session } from "./wire";

const SESSION: Session = {
  sessionId: "s1",
  agent: "a1",
  title: "",
  cwd: "/app",
  state: "running",
  cursor: "1:1",
  createdAt: "2026-12-01T09:00:00.000Z",
  updatedAt: "2026-12-01T09:00:00.000Z",
  open: [],
  attachment: { state: "attached", reason: "ok", since: null, lastSeen: null },
};

test("a session that is stalled says why", () => {
  const deaf = { ...SESSION, state: "stalled", stateReason: "cancel_unacknowledged" };
  expect(sessionState(deaf, 0)).toEqual({ mark: "bad", text: "stalled: the agent does not stop" });
  expect(sessionState({ ...SESSION, state: "stalled" }, 0).text).toBe("stalled");
});
