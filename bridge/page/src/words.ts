/** Every word the page says, in one place. */

import { notifications } from "./words/notifications";
import { devices, pairing } from "./words/pairing";
import { form, outcome, question } from "./words/question";
import { composer, newSession, session } from "./words/session";

export const words = {
  notifications,
  product: "Chimera Bridge",
  title: (open: number) => (open ? `(${open}) Chimera Bridge` : "Chimera Bridge"),
  you: "you",
  back: "Back",
  close: "Close",
  skip: "Skip to the content",
  more: (left: number, next = left) =>
    next < left
      ? `Show ${next.toLocaleString()} of ${left.toLocaleString()} more characters`
      : `Show the rest (${left.toLocaleString()} more characters)`,
  andMore: (left: number) => `… and ${left.toLocaleString()} more characters`,
  moreLines: (count: number) => `Show the rest (${count.toLocaleString()} more lines)`,
  linesNotShown: "unchanged lines",

  later: {
    opening: "Opening",
    missing: "This part of the page could not be fetched.",
    missingThen: "Either the page was updated since you opened it, or the relay cannot be reached.",
  },

  places: { inbox: "Inbox", sessions: "Sessions", fleet: "Fleet", settings: "Settings" },
  navigation: "Places",
  workspace: { list: "Questions and sessions", place: "Content", question: "Question" },

  link: {
    live: "live",
    connecting: "connecting",
    trying: "trying now",
    reconnecting: "reconnecting",
    lastUpdate: (age: string) => `last update ${age} ago`,
    nextTry: (wait: string) => `next try in ${wait}`,
    stopped: "not connected",
    reload: "Reload the page",
    tryNow: "Try now",
    storeTrouble: (age: string) =>
      `The relay's store has taken nothing${age ? ` for ${age}` : " for a while"}. What is shown is live, but nothing can be answered or sent until it is back.`,
    reasons: {
      relay_restarting: "the relay restarts",
      relay_unreachable: "the relay cannot be reached",
      socket_closed: "the connection was lost",
      socket_refused: "the relay refused the connection",
      overloaded: "the relay is overloaded",
      too_slow: "this device was too slow to follow",
      rate_limited: "too many requests from here",
      offline: "this device is offline",
      not_allowed: "you are not allowed here any more",
      upgrade_required: "this page is older than the relay",
      protocol_error: "the relay did not understand this page",
      bad_request: "the relay did not understand this page",
      unknown: "the relay does not know this page's session",
    } as Record<string, string>,
    old: "What you see is from before the connection was lost.",
  },

  signIn: {
    heading: "Sign in",
    how: "This page opens with a link that signs in one browser, once.",
    where: "On the machine where the relay runs, start ./dev up once more, or print a link:",
    command: "chimera-relay link",
    open: "Open the link here within ten minutes. It looks like this:",
    example: (origin: string) => `${origin}/#signin=…`,
    failed: (why: string) => `The link did not sign you in: ${why}.`,
    failedThen: "A link works once and for ten minutes. Print another one.",
    away: "The relay does not answer.",
    awayThen: "Is it running? This page tries again when you ask it to.",
    retry: "Try again",
    asking: "Asking the relay who you are",
  },

  inbox: {
    waits: (count: number) =>
      count === 1 ? "1 question waits for you" : `${count} questions wait for you`,
    waitsShort: (count: number) => (count === 1 ? "1 question waits" : `${count} questions wait`),
    empty: "No question waits.",
    emptyThen: "You will see one here when it comes.",
    noAgent: "No agent has connected yet.",
    noAgentThen: "Start one beside your code:",
    connect: (relay: string) => `chimera-bridge connect --relay ${relay} --agent claude`,
    moreAnswered: (count: number) => `Show ${count.toLocaleString()} more`,
    answered: "Answered",
    running: "Sessions",
    review: "Review",
    loading: "Reading what waits",
  },

  question,

  form,

  outcome,

  sessions: {
    search: "Filter by text",
    none: "No session yet.",
    noneThen: "Start one, or open your editor at an agent: it shows here.",
    noMatch: (text: string) => `No session has “${text}” in it.`,
    create: "New session",
    untitled: (folder: string) => (folder ? `Session in ${folder}` : "Session"),
    states: {
      idle: "idle",
      running: "running",
      waiting: "waiting for you",
      stalled: "stalled",
      ended: "ended",
    } as Record<string, string>,
    stalled: {
      cancel_unacknowledged: "stalled: the agent does not stop",
      silent: "stalled: the agent says nothing",
    } as Record<string, string>,
  },

  newSession,

  session,

  composer,

  fleet: {
    none: "No agent has connected yet.",
    agent: "Agent",
    agents: "Agents",
    machine: "Machine",
    unknownMachine: "A machine that is not known",
    folders: "Folders",
    login: "Not logged in. Run there:",
    sessions: (count: number) => (count === 1 ? "1 session" : `${count} sessions`),
    questions: (count: number) => (count === 1 ? "1 question waits" : `${count} questions wait`),
    lastSeen: (age: string) => `last heard ${age} ago`,
  },

  attachment: {
    states: {
      attached: "attached",
      unresponsive: "does not answer",
      disconnected: "offline",
      detached: "away",
      ended: "ended",
      unknown: "not known",
    } as Record<string, string>,
    reasons: {
      ok: "",
      starting: "starting",
      never_connected: "it never connected",
      pong_missed: "no sign of life",
      socket_closed: "socket closed",
      relay_unreachable: "its relay went away",
      relay_restarting: "relay restarted",
      refused: "refused",
      replaced: "replaced by another process",
      token_revoked: "token revoked",
      token_expired: "token expired",
      agent_exited: "the agent ended",
      agent_crashed: "the agent crashed",
      said_goodbye: "it was stopped",
      host_asleep: "the machine sleeps",
      store_down: "the relay's store does not answer",
    } as Record<string, string>,
    is: (host: string, state: string, age: string, reason: string) =>
      `${host} is ${state}${age ? ` since ${age}` : ""}${reason ? ` (${reason})` : ""}.`,
  },

  pairing,

  devices,

  settings: {
    more: "More settings",
    within: {
      devices: "Devices that sign for you",
      history: "History",
      audit: "Who did what",
      rules: "Rules",
    },
    withinSub: {
      devices: "Pair a device, revoke a lost one",
      history: "Past sessions and their transcripts",
      audit: "Answers, sign-ins, changes, by day",
      rules: "What is refused, or asked more carefully",
    },
    adminsOnly: (role: string, tenant: string) =>
      `Rules and the record of who did what are for admins of ${tenant}; you are ${role}.`,
    who: "Signed in as",
    tenant: "Tenant",
    role: "Role",
    roles: {
      viewer: "viewer: looks",
      approver: "approver: looks and answers",
      operator: "operator: looks, answers and writes to agents",
      admin: "admin: everything in this tenant",
    } as Record<string, string>,
    device: "Device",
    relay: "Relay",
    signed: "Signed answers",
    signedOff: "off: an answer counts by who is signed in",
    signedOn: "needed where a device is paired",
    insecure: "This page is not on a secure connection, so it cannot check what it shows.",
    theme: "Appearance",
    themes: { system: "As the system", light: "Light", dark: "Dark" },
    signOut: "Sign out",
    signOutFailed: (why: string) => `Not signed out: ${why}`,
  },

  help: {
    heading: "Keys",
    rows: [
      ["j  k", "next, previous"],
      ["enter", "open"],
      ["a", "allow once, a low-risk question only"],
      ["r", "reject, a low-risk question only"],
      ["/", "filter the sessions"],
      ["esc", "back"],
      ["?", "this list"],
    ] as const,
    hint: "move · open · allow · reject",
  },
};
