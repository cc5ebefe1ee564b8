/** Words of a session, of what is written to it, and of a new one. */

export const session = {
  beginning: "The session begins here",
  earlier: "Load earlier entries",
  readingEarlier: "Reading earlier entries",
  earlierFailed: (why: string) => `Earlier entries cannot be read now: ${why}.`,
  dropped: "History starts here: what came before is no longer kept",
  showAll: (size: string, host: string) =>
    host ? `Show all (${size}, from ${host})` : `Show all (${size})`,
  readingAll: (percent: number, host: string) =>
    host ? `Reading from ${host}, ${percent} %` : `Reading, ${percent} %`,
  notShown: (why: string) => `The whole cannot be read now: ${why}.`,
  shown: (count: number) => `Show ${count.toLocaleString()} earlier`,
  reading: (received: number) =>
    received ? `Reading the session, ${received.toLocaleString()} entries` : "Reading the session",
  waitingForLink: "The session is read when the connection is back.",
  failed: (why: string) => `The session cannot be read: ${why}`,
  notFound: "There is no such session here, or it is no longer kept.",
  empty: "Nothing was said yet.",
  thought: "Thoughts",
  thinking: "Thinking",
  plan: "Plan",
  planDone: (done: number, all: number) => `${done} of ${all} done`,
  planStates: {
    pending: "to do",
    in_progress: "under way",
    completed: "done",
  } as Record<string, string>,
  toolStates: {
    pending: "not started",
    in_progress: "running",
    completed: "done",
    failed: "failed",
    unfinished: "not finished",
  } as Record<string, string>,
  asksYou: "asks you",
  jump: (count: number) => (count === 1 ? "A question waits" : `${count} questions wait`),
  exit: (code: number) => `exit ${code}`,
  output: "Output",
  newLines: (count: number) => (count === 1 ? "1 new line" : `${count} new lines`),
  toEnd: "To the end",
  mode: "Mode",
  modeChanged: (mode: string) => `mode: ${mode}`,
  options: "Options",
  queued: "queued",
  unknownUpdate: (kind: string, count: number) =>
    `${count === 1 ? "An update" : `${count} updates`} of a kind this page does not draw: ${kind}`,
  gap: (count: number | null) =>
    count === null
      ? "Some updates are no longer kept here."
      : `${count.toLocaleString()} updates are no longer kept here.`,
  turn: {
    ended: "turn ended",
    cancelled: "stopped",
    refusal: "the agent refused to go on",
    max_tokens: "ended: the answer reached its longest length",
    max_turn_requests: "ended: too many steps in one turn",
    unknown: "What became of this turn is not known: the connector restarted while it ran.",
    failed: (why: string) => `The turn failed: ${why}`,
    took: (time: string) => `after ${time}`,
  },
  tokens: (used: number, size: number | undefined) =>
    size
      ? `${used.toLocaleString()} of ${size.toLocaleString()} tokens`
      : `${used.toLocaleString()} tokens`,
  from: (who: string, where: string) => [who, where].filter(Boolean).join(" "),
  address: "Opens on a second tap:",
};

export const composer = {
  label: "Message to the agent",
  next: "Next message",
  nextQueued: "Next message, after this turn",
  send: "Send",
  queue: "Queue",
  stop: "Stop",
  stopping: (age: string) => `Stopping, asked ${age} ago`,
  deaf: "The agent does not stop.",
  end: "End the agent",
  ending: "Ending the agent",
  stopAway: (host: string) => `${host} is away: it stops when it is back.`,
  viewer: (role: string, tenant: string) =>
    `You may look, not write (${role}). Ask an admin of ${tenant}.`,
  detached: (host: string) => `${host} is away. A message cannot be delivered now.`,
  ended: "This session has ended.",
  away: "Your message will be delivered when it is back.",
  prompt: {
    sent: "sent, not taken up yet",
    queued: "queued: it waits for the turn that runs",
    unsent: "not sent: the connection went away. It is sent again when it is back, once",
    unknown: "It is not known whether this arrived.",
    dropped: "This was stopped before it began.",
    failed: (why: string) => `not sent: ${why}`,
  },
  again: "Send again",
  discard: "Discard",
};

export const newSession = {
  heading: "New session",
  agent: "Agent",
  folder: "Folder",
  below: "Folder below it",
  belowHint: "optional, for example packages/api",
  start: "Start the session",
  starting: (age: string) => `Starting, ${age}`,
  startingHint: "An agent may take half a minute to start.",
  operator: (role: string, tenant: string) =>
    `You may look, not start sessions (${role}). Ask an admin of ${tenant}.`,
  noAgent: "No agent is attached now, so none can start a session.",
  noRoots: "This agent's connector lets nobody open a session from afar.",
  failed: (why: string) => `The session did not start: ${why}`,
};
