/** What notifications say, and the card that switches them on. Part of `words`, and all that the service worker needs of it. */

export const notifications = {
  asks: (agent: string, host: string) => `${agent || "An agent"}${at(host)} asks`,
  openToSee: "Open to see what it wants to do.",
  high: "High risk: open it to read what would run.",
  many: (count: number) => `${count} questions wait`,
  manyBody: "Open the inbox to answer them.",
  answered: (by: string | null, choice: string) => `${by ?? "The machine"}: ${choice}`,
  answeredBody: "This question has its answer. Nothing is left to do.",
  withdrawn: "This question is over",
  notApplied: "Your answer was not applied",
  because: (reason: string) => `The machine said: ${reason}.`,
  choices: {
    allow: "allowed",
    reject: "rejected",
    accept: "accepted",
    decline: "declined",
  } as Record<string, string>,
  turnEnded: (agent: string, host: string) => `${agent || "The agent"}${at(host)} is done`,
  turnTook: (minutes: number) => `After ${minutes} min.`,
  failed: (agent: string, host: string) =>
    `${agent || "The agent"}${at(host)} stopped with an error`,
  test: "Notifications work",
  testBody: (by: string) => `Asked for from ${by}.`,
  sending: "Sending your answer",
  recorded: (choice: string) => `${choice}: recorded`,
  recordedBody: "The machine carries it out as soon as it can.",
  late: "Too late",
  lateBody: (by: string | null) => `${by ?? "Somebody"} answered before you. Yours does not count.`,
  closed: "This question is over. Nothing was done with your answer.",
  notRecorded: "Your answer was not recorded",
  openToAnswer: "Open it to answer there.",

  title: "Notifications",
  why: "A question that waits is shown on this device while the page is closed.",
  on: "Notify this device",
  off: "Stop notifying this device",
  unsupported:
    "This browser cannot show notifications for a closed page. On an iPhone, add the page to the home screen first.",
  insecure: "Notifications need https, or this very machine.",
  blocked: "The browser blocks notifications of this page: allow them in its settings.",
  about: "Of what",
  kinds: {
    question: "Questions",
    turn: "Turns longer than a minute",
    failure: "Failures",
  } as Record<string, string>,
  shows: "What a locked screen shows",
  little: "That somebody asks, not what",
  all: "What would run, with the buttons for low risk",
  quiet: "Quiet hours",
  quietFrom: "from",
  quietTo: "to",
  tryIt: "Test",
  trying: "Testing",
  attempt: (device: string, outcome: string) => `${device}: ${outcome}`,
  taken: (ms: number) => `taken after ${ms} ms`,
  refused: (status: number, reason: string) =>
    status ? `refused with ${status}${reason ? ` (${reason})` : ""}` : `not reached: ${reason}`,
  none: "No device is notified yet.",
};

function at(host: string): string {
  return host ? ` on ${host}` : "";
}
