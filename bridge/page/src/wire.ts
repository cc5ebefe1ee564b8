/** The shapes that the relay sends and takes, as far as the page reads them. */

import type { CursorText } from "./cursor";

export const META = "chimera.bridge";

export type Json = null | boolean | number | string | Json[] | { [key: string]: Json };
export type Payload = Record<string, unknown>;
export type Role = "viewer" | "approver" | "operator" | "admin";

export interface Origin {
  subject: string;
  tenant?: string;
  device?: string;
  door?: string;
}

export interface Me {
  subject: string;
  tenant: string;
  role: Role;
  device?: string;
  relay?: { version?: string; node?: string };
  signed?: string;
}

export type AttachmentState =
  | "attached"
  | "unresponsive"
  | "disconnected"
  | "detached"
  | "ended"
  | "unknown";

export interface Attachment {
  state: AttachmentState;
  reason: string;
  since: string | null;
  lastSeen: string | null;
}

export interface Agent {
  id: string;
  name: string;
  title: string;
  version: string;
  host: string;
  os: string;
  roots: string[];
  modes: string[];
  login: string;
  /** `required`: only paired devices may answer and write. */
  signed: "off" | "required";
  /** The ids of the paired devices. */
  devices: string[];
  epoch: number;
  attachment: Attachment;
}

export interface ModeState {
  currentModeId: string;
  availableModes: { id: string; name: string; description?: string | null }[];
}

export interface ConfigOption {
  id: string;
  name: string;
  description?: string | null;
  category?: string | null;
  type: string;
  currentValue: string | boolean;
  options?: { value: string; name: string; description?: string | null }[];
}

export interface Usage {
  used?: number;
  size?: number;
  cost?: { amount: number; currency: string } | null;
}

export interface Session {
  sessionId: string;
  agent: string;
  title: string;
  cwd: string;
  state: string;
  stateReason?: string;
  modes?: ModeState | null;
  configOptions?: ConfigOption[] | null;
  usage?: Usage | null;
  cursor: CursorText;
  createdAt: string;
  updatedAt: string;
  open: string[];
  attachment: Attachment;
}

export interface Answer {
  optionId?: string;
  action?: "accept" | "decline" | "cancel";
  content?: Record<string, Json>;
  /** Equal questions are answered alike from now on; what is equal stands in the subject's scope. */
  remember?: { decision: "allow" | "deny"; days?: number; open?: boolean };
}

export type Risk = "low" | "medium" | "high";

export interface RoundTrip {
  id: string;
  sessionId: string;
  agent: string;
  kind: "permission" | "elicitation";
  subject: string;
  hash: string;
  optionIds: string[];
  risk: Risk;
  state: "open" | "decided" | "closed";
  epoch: number;
  askedAt: string;
  expiresAt?: string | null;
  toolCallId?: string | null;
  decision?: { answer: Answer; by: Origin; at: string; decisionId: string } | null;
  result?: "applied" | "void" | null;
  reason?: string | null;
  by?: Origin | null;
  answer?: Answer | null;
  closedAt?: string | null;
  /** It was open for too long, and people were called again. */
  escalatedAt?: string | null;
  /** What an approval takes now; a denial takes none of it. */
  needs?: { people?: number; passkey?: boolean; rule?: { id: string; words: string } } | null;
  /** The first of two approvals. */
  half?: { answer: Answer; by: Origin; at: string } | null;
}

/** What became of one attempt to decide. */
export interface Decided {
  state: "recorded" | "needs_another" | "late" | "closed" | "refused";
  by?: Origin | null;
  reason?: string | null;
  at?: string | null;
}

/** The stamp of one entry. */
export interface Meta {
  epoch: number;
  seq: number;
  at?: string;
  origin?: Origin;
  mailId?: string;
  prev?: string;
  /** It stands for so many entries, pieces of one text, and has the last one's number. */
  joined?: number;
  /** It is a short form; so long is the whole, kept on that machine. */
  full?: { bytes: number; host: string };
  roundTrip?: { id: string; subject: string; risk: Risk; kind: string };
}

/** A numbered message of a session's log. */
export interface Entry {
  method: string;
  params: Payload & { sessionId: string; _meta: { [META]: Meta } };
}

export function metaOf(entry: Entry): Meta {
  return entry.params._meta[META];
}

/** Whether a message from the socket is an entry: it carries the connector's stamp. */
export function isEntry(message: { method?: string; params?: unknown }): message is Entry {
  const params = message.params as Payload | undefined;
  const meta = (params?._meta as Payload | undefined)?.[META] as Meta | undefined;
  return typeof params?.sessionId === "string" && typeof meta?.seq === "number";
}

export interface Watched {
  agents: Agent[];
  sessions: Session[];
  roundTrips: RoundTrip[];
  store?: StoreHealth;
  time: string | number;
}

export interface Changed {
  agent?: Agent;
  session?: Session;
  roundTrip?: RoundTrip;
  store?: StoreHealth;
}

/** Whether the relay's store takes writes. */
export interface StoreHealth {
  state: "ok" | "degraded";
  message?: string;
  since?: string;
}

export interface ErrorObject {
  code: number;
  message: string;
  data?: { reason?: string; message?: string } | null;
}
